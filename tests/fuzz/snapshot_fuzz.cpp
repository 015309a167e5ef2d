// Changed snapshots of a run of many jobs: a list of [question, words of its answer], which the log itself writes, so
// that all checksums are right; a text after them is the rest of an answer that was being written. Going on with the
// file may refuse answers but must not crash or hang, and gives those that are in it; shares that are accepted are the
// same when they are written.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/answer_bytes.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/policies/goodput/kept_answers.h"
#include "ptc/run/policy/policies/shares/kept_shares.h"
#include "tests/fuzz/data_fuzz_support.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using Json = nlohmann::ordered_json;

constexpr const char* kAbout = "1.0 fuzz";
constexpr std::array<const char*, 3> kSeeds = {
    R"([["q", [2, 2, 0.5, 0.25, 2, 1.0, 0.5, 1, 0.75, 0.5, 3, 2, 0, 1, 7]], ["r", [0, 0, 0.0, 0, 0, 0, 0]]])",
    R"([["q", [2, 0.5, 0.25, 1, 257, 0.5, 0.75, 2, 258, 1281, 1, 1, 2, 3, 4]], ["r", [1, 0.0, 1, -1]], "rest"])",
    R"([["q", [1, 0.5, 2, 0]], ["r", [0, 0.5, -1, -1]], ["q", []]])"};

std::string bytes_of(const Json& words) {
  policy::AnswerWriter answer;
  for (const Json& word : words) {
    if (word.is_number_integer()) answer.add(word.get<int64_t>());
    if (word.is_number_float()) answer.add_double(word.get<double>());
  }
  return answer.take();
}

void take(const std::string& bytes) {
  static const policy::ShareProblem problem{
      .gpus = {4, 2}, .prices = {1, 1}, .jobs = {{.id = policy::JobId(3)}, {.id = policy::JobId(7)}}, .pairs = {{}}};
  const auto shares = policy::shares_of(bytes, problem);
  if (shares.ok()) SCALAI_CHECK(policy::bytes_of(*shares) == bytes, "shares changed when written and read");
  Random random(1);
  const auto allocation = policy::allocation_of(bytes, 6, &random);
  if (allocation.ok()) SCALAI_CHECK(allocation->front.empty() || allocation->best < allocation->front.size());
  std::vector<policy::SiaJob> jobs(2);
  for (policy::SiaJob& job : jobs) job.choices.resize(3);
  const auto solution = policy::solution_of(bytes, jobs);
  if (!solution.ok()) return;
  for (const int choice : solution->chosen) SCALAI_CHECK(choice < 3);
}

struct Kept {
  std::string question, answer;
};

std::vector<Kept> write(const std::string& path, const Json& list) {
  std::vector<Kept> kept;
  std::filesystem::remove(path);
  const auto log = policy::AnswerLog::create(path, kAbout).value();
  std::string rest;
  for (const Json& one : list) {
    if (one.is_string()) rest = one.get<std::string>();
    if (!one.is_array() || one.size() < 2 || !one[0].is_string()) continue;
    kept.push_back({one[0].get<std::string>(), bytes_of(one[1])});
    SCALAI_CHECK(log->answer(kept.back().question, [&] { return kept.back().answer; }).ok());
  }
  std::ofstream(path, std::ios::app | std::ios::binary) << rest;
  return kept;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view input, Random& random) {
    return fuzz::mutate_json(input, kSeeds.at(static_cast<size_t>(random.below(3))), random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = fuzz::scratch("snapshot");
  const auto list = read_ordered_json({reinterpret_cast<const char*>(data), size});
  if (!list.ok() || !list->is_array()) return 0;
  const std::vector<Kept> kept = write(path, *list);
  const auto log = policy::AnswerLog::resume(path, kAbout);
  std::filesystem::remove(path);
  if (!log.ok()) {
    SCALAI_CHECK(!message_of(log.status()).empty());
    return 0;
  }
  for (const Kept& one : kept) {
    const auto answer = (*log)->answer(one.question, [] { return absl::InternalError("it is in the file"); });
    SCALAI_CHECK(answer.ok() && *answer == one.answer, "another answer than was written");
    take(*answer);
  }
  return 0;
}
