#include "tests/chaos/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "executor/journal/journal.h"
#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using executor::journal::TransactionState;
using store::Reader;

std::string judge_journal(const std::string& folder) {
  const auto journal = executor::journal::Journal::open(folder + "/journal.db");
  if (!journal.ok()) return message_of(journal.status());
  const auto transactions = journal->transactions();
  if (!transactions.ok()) return message_of(transactions.status());
  std::map<int, int64_t> epochs;
  for (const executor::journal::Transaction& transaction : *transactions) {
    if (transaction.state == TransactionState::kPrepared || transaction.state == TransactionState::kAborted) continue;
    int64_t& last = epochs[transaction.job];
    if (transaction.epoch <= last)
      return fmt::format("job {} committed epoch {} after epoch {}", transaction.job, transaction.epoch, last);
    last = transaction.epoch;
  }
  return "";
}

// One tensor, box by box of at most some rows, from the checkpoint and from where it should have come.
std::string judge_tensor(const Reader& reader, TensorId id, const Reader* state) {
  const collection::LogicalTensor& tensor = reader.collection().tensors[static_cast<size_t>(id.value)];
  const tensor::Box whole = tensor::Box::whole(tensor.shape);
  std::vector<std::byte> found(static_cast<size_t>(executor::state::packed_bytes(whole, tensor.dtype)));
  if (const absl::Status read = reader.read(id, whole, found); !read.ok()) return message_of(read);
  const std::optional<TensorId> real = state == nullptr ? std::nullopt : state->find(tensor.name);
  if (real) {
    std::vector<std::byte> expected(found.size());
    if (const absl::Status read = state->read(*real, whole, expected); !read.ok()) return message_of(read);
    return found == expected ? "" : "tensor " + tensor.name + " is not what the job began with";
  }
  const executor::state::Content content{.key = executor::state::ContentKey::of(tensor.name, reader.stamp().job),
                                         .shape = tensor.shape,
                                         .step = reader.stamp().step};
  const auto wrong = executor::state::check_box(content, whole, {whole, tensor.dtype, found.data()});
  return wrong ? fmt::format("tensor {}: {}", tensor.name, wrong->str()) : "";
}

std::string judge_checkpoint(const std::string& path, const Reader* state, bool emulated) {
  const auto reader = Reader::open(path);
  if (!reader.ok()) return message_of(reader.status());
  if (const absl::Status verified = reader->verify(); !verified.ok()) return message_of(verified);
  for (size_t i = 0; emulated && i < reader->collection().tensors.size(); ++i) {
    const std::string wrong = judge_tensor(*reader, TensorId(static_cast<int64_t>(i)), state);
    if (!wrong.empty()) return fmt::format("{}: {}", path, wrong);
  }
  return "";
}

std::string judge_job(const nlohmann::json& job, const std::string& folder, const Reader* state, bool emulated) {
  const std::string name = job.at("name");
  if (job.at("state") == "failed") return fmt::format("job {} failed: {}", name, job.value("failure", "?"));
  if (job.contains("dataset") && job.at("dataset").at("exactly_once") != true) return "samples were lost";
  const auto last = store::latest(fmt::format("{}/checkpoints/{}", folder, name));
  if (!last) return "";
  if (job.at("steps").get<int64_t>() < last->step)
    return fmt::format("job {} ends at step {}, before its checkpoint of {}", name, job.at("steps").get<int64_t>(),
                       last->step);
  return judge_checkpoint(last->path, state, emulated);
}

}  // namespace

std::string judge(const std::string& folder, const std::string& state_folder, bool emulated) {
  const auto text = read_file(folder + "/summary.json");
  if (!text.ok()) return message_of(text.status());
  const auto summary = read_json(*text);
  if (!summary.ok()) return message_of(summary.status());
  std::optional<Reader> state;
  if (!state_folder.empty()) {
    auto opened = Reader::open(state_folder);
    if (!opened.ok()) return message_of(opened.status());
    state.emplace(std::move(*opened));
  }
  for (const nlohmann::json& job : summary->at("jobs")) {
    if (std::string wrong = judge_job(job, folder, state ? &*state : nullptr, emulated); !wrong.empty()) return wrong;
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.find(".partial") != std::string::npos || name.find(".tmp") != std::string::npos ||
        name.find(".removed") != std::string::npos)
      return "left behind: " + entry.path().string();
  }
  return judge_journal(folder);
}

}  // namespace scalai::chaos
