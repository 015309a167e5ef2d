#include "ptc/checkpoint/torch/megatron_record.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ptc/base/byte_source.h"
#include "ptc/base/status.h"
#include "ptc/checkpoint/torch/internal/pickle_writer.h"
#include "ptc/checkpoint/torch/internal/zip_frame.h"
#include "ptc/checkpoint/torch/pickle.h"
#include "ptc/checkpoint/torch/zip.h"

namespace scalai::checkpoint {
namespace {

using internal::PickleWriter;
using Kind = PickleValue::Kind;

constexpr std::string_view kPickle = "/data.pkl";
constexpr const char* kSharding = "distrib_optim_sharding_type";
constexpr const char* kByParameter = "fully_reshardable";

// A file of torch.save in memory.
struct Archive {
  std::vector<std::pair<std::string, std::string>> entries;  // name and content
  size_t pickle = 0;                                         // which of them is it
};

absl::StatusOr<Archive> unpack(const std::string& file) {
  const ByteSourcePtr source = text_source("Megatron's record", file);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, zip_entries(*source));
  Archive archive;
  for (const ZipEntry& entry : entries) {
    if (entry.name.ends_with(kPickle)) archive.pickle = archive.entries.size();
    archive.entries.emplace_back(entry.name,
                                 file.substr(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes)));
  }
  if (archive.entries.empty() || !archive.entries[archive.pickle].first.ends_with(kPickle))
    return invalid("Megatron's record: no file of torch.save");
  return archive;
}

std::string pack(const Archive& archive) {
  internal::ZipFrame frame;
  for (const auto& [name, content] : archive.entries) frame.add(name, content);
  frame.finish();
  return std::move(frame).take().texts.front().bytes;
}

// The dict of a record, also where it is the only one of a list.
const PickleValue* dict_of(const PickleValue& root) {
  const PickleValue* const value = root.kind == Kind::kList && root.items.size() == 1 ? root.items.front() : &root;
  return value->kind == Kind::kDict ? value : nullptr;
}

absl::Status append_plain(const PickleValue& value, PickleWriter& to, int depth = 0) {
  constexpr int kMostNested = 32;
  if (depth > kMostNested) return invalid("Megatron's record: values are nested too deeply");
  const auto append_all = [&](const char* begin, const char* end) -> absl::Status {
    to.op(begin);
    for (const PickleValue* const item : value.items) SCALAI_RETURN_IF_ERROR(append_plain(*item, to, depth + 1));
    to.op(end);
    return absl::OkStatus();
  };
  switch (value.kind) {
    case Kind::kNone: to.op("N"); return absl::OkStatus();
    case Kind::kBool: to.op(value.number != 0 ? "\x88" : "\x89"); return absl::OkStatus();
    case Kind::kInt: to.number(value.number); return absl::OkStatus();
    case Kind::kFloat: to.real(value.real); return absl::OkStatus();
    case Kind::kText: to.text(value.text); return absl::OkStatus();
    case Kind::kName: {
      const size_t dot = std::min(value.text.rfind('.'), value.text.size());
      if (dot == value.text.size()) break;
      to.name(std::string_view(value.text).substr(0, dot), std::string_view(value.text).substr(dot + 1));
      return absl::OkStatus();
    }
    case Kind::kList: return append_all("](", "e");
    case Kind::kTuple: return append_all("(", "t");
    case Kind::kDict:
      to.op("}(");
      for (const auto& [key, entry] : value.pairs) {
        SCALAI_RETURN_IF_ERROR(append_plain(*key, to, depth + 1));
        SCALAI_RETURN_IF_ERROR(append_plain(*entry, to, depth + 1));
      }
      to.op("u");
      return absl::OkStatus();
    default: break;
  }
  return invalid("Megatron's record: a value of the optimizer's that is not plain");
}

// {"optimizer": {"param_groups": […]}, "param_state_sharding_type": "fully_reshardable"}
absl::Status append_optimizer(const std::string& object, PickleWriter& to) {
  SCALAI_ASSIGN_OR_RETURN(const Archive archive, unpack(object));
  SCALAI_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::read(archive.entries[archive.pickle].second));
  const PickleValue* const groups = dict_of(pickle.root());
  if (groups == nullptr) return invalid("Megatron's record: no dict of an optimizer");
  to.op("}(").text("optimizer");
  SCALAI_RETURN_IF_ERROR(append_plain(*groups, to));
  to.text("param_state_sharding_type").text(kByParameter).op("u");
  return absl::OkStatus();
}

// What the record says of how state was cut, so that a load asks for what is there.
absl::Status append_metadata(const PickleValue& metadata, PickleWriter& to) {
  PickleValue changed = metadata;
  std::erase_if(changed.pairs, [](const auto& pair) {
    return pair.first->text == kSharding || pair.first->text == "chained_optim_avoid_prefix";
  });
  to.text("content_metadata");
  SCALAI_RETURN_IF_ERROR(append_plain(changed, to));
  to.text(kSharding).text(kByParameter).op("s");
  to.text("chained_optim_avoid_prefix").op("\x88s");
  to.op("s");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> with_optimizers(const std::string& record, std::span<const std::string> optimizers) {
  SCALAI_ASSIGN_OR_RETURN(Archive archive, unpack(record));
  std::string& bytes = archive.entries[archive.pickle].second;
  SCALAI_ASSIGN_OR_RETURN(const Pickle before, Pickle::read(bytes));
  const PickleValue* const dict = dict_of(before.root());
  // The last opcodes: the list takes the dict, the end.
  const std::string_view end = before.root().kind == Kind::kList ? "a." : ".";
  if (dict == nullptr || !bytes.ends_with(end)) return invalid("Megatron's record: no dict");
  PickleWriter entries;
  entries.text("optimizer");
  if (optimizers.size() > 1) entries.op("}(");
  for (size_t i = 0; i < optimizers.size(); ++i) {
    if (optimizers.size() > 1) entries.number(static_cast<int64_t>(i));
    SCALAI_RETURN_IF_ERROR(append_optimizer(optimizers[i], entries));
  }
  if (optimizers.size() > 1) entries.op("u");
  entries.op("s");
  const PickleValue* const metadata = dict->find("content_metadata");
  if (metadata != nullptr && metadata->kind == Kind::kDict) SCALAI_RETURN_IF_ERROR(append_metadata(*metadata, entries));
  // The dict is on the stack there. Entries that it has already get the new value; what is in the memo was only for what
  // came before.
  constexpr size_t kProtocol = 2;
  bytes.resize(bytes.size() - end.size());
  (bytes += entries.bytes().substr(kProtocol)) += end;
  SCALAI_ASSIGN_OR_RETURN(const Pickle after, Pickle::read(bytes));
  const PickleValue* const result = dict_of(after.root());
  const auto optimizer = [](const auto& pair) { return pair.first->text == "optimizer"; };
  const auto count = [&](const PickleValue& in) { return std::count_if(in.pairs.begin(), in.pairs.end(), optimizer); };
  if (result == nullptr || count(*result) != count(*dict) + 1)
    return invalid("Megatron's record: it ends in another way than torch writes it");
  return pack(archive);
}

}  // namespace scalai::checkpoint
