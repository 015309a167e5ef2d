#include "ptc/run/policy/policies/goodput/kept_answers.h"

#include <algorithm>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/answer_bytes.h"

namespace scalai::policy {

std::string digest_of(const AllocationProblem& problem, const Random& random) {
  Hasher hasher;
  hasher.add(std::ssize(problem.jobs)).add(std::ssize(problem.capacity)).add_double(problem.exponent);
  for (const AllocationProblem::Row& row : problem.jobs) {
    hasher.add(int64_t{row.least}).add(int64_t{row.most}).add_double(row.changed);
  }
  for (const int gpus : problem.capacity) hasher.add(int64_t{gpus});
  for (const int type : problem.type) hasher.add(int64_t{type});
  hasher.add(std::string_view(reinterpret_cast<const char*>(problem.base.data()), problem.base.size()));
  for (const uint64_t word : random.state()) hasher.add(static_cast<int64_t>(word));
  return hasher.hex();
}

// Most genes are 0: of each allocation the others, with their places.
std::string bytes_of(const FoundAllocation& found, const Random& random) {
  AnswerWriter answer;
  answer.add_size(found.front.size());
  for (size_t k = 0; k < found.front.size(); ++k) {
    const Genes& genes = found.front[k];
    answer.add_double(found.means[k]).add_double(found.utilisations[k]);
    answer.add_size(genes.size() - static_cast<size_t>(std::count(genes.begin(), genes.end(), 0)));
    for (size_t at = 0; at < genes.size(); ++at) {
      if (genes[at] != 0) answer.add(static_cast<int64_t>(at << 8 | genes[at]));
    }
  }
  answer.add_size(found.best);
  for (const uint64_t word : random.state()) answer.add(static_cast<int64_t>(word));
  return answer.take();
}

absl::StatusOr<FoundAllocation> allocation_of(std::string_view bytes, size_t genes, Random* random) {
  AnswerReader answer(bytes);
  FoundAllocation found;
  for (size_t left = answer.size(); left > 0 && answer.good(); --left) {
    found.means.push_back(answer.real());
    found.utilisations.push_back(answer.real());
    Genes& row = found.front.emplace_back(genes, 0);
    for (size_t some = answer.size(); some > 0 && answer.good(); --some) {
      const int64_t gene = answer.number();
      const size_t at = answer.below(gene >> 8, genes);
      if (answer.good()) row[at] = static_cast<uint8_t>(gene & 0xff);
    }
  }
  found.best = answer.below(answer.number(), found.front.size());
  Random::State state;
  for (uint64_t& word : state) word = static_cast<uint64_t>(answer.number());
  if (!answer.done()) return invalid("the snapshot's answer is no allocation");
  random->set(state);
  return found;
}

std::string digest_of(std::span<const SiaJob> jobs, std::span<const int> gpus) {
  Hasher hasher;
  hasher.add(std::ssize(gpus)).add(std::ssize(jobs));
  for (const int count : gpus) hasher.add(int64_t{count});
  for (const SiaJob& job : jobs) {
    hasher.add_double(job.weight).add(int64_t{job.locked}).add(std::ssize(job.choices));
    for (const SiaChoice& choice : job.choices) {
      hasher.add(int64_t{choice.type.value}).add(int64_t{choice.gpus}).add_double(choice.utility);
    }
  }
  return hasher.hex();
}

std::string bytes_of(const SiaSolution& solution) {
  AnswerWriter answer;
  answer.add(solution.found ? 1 : 0).add_double(solution.gap);
  for (const int choice : solution.chosen) answer.add(int64_t{choice});
  return answer.take();
}

absl::StatusOr<SiaSolution> solution_of(std::string_view bytes, std::span<const SiaJob> jobs) {
  AnswerReader answer(bytes);
  SiaSolution solution;
  solution.found = answer.below(answer.number(), 2) == 1;
  solution.gap = answer.real();
  for (const SiaJob& job : jobs) {  // -1: none
    const int64_t choice = answer.number();
    const size_t choices = job.choices.size();
    const int64_t next = std::min(choice, static_cast<int64_t>(choices)) + 1;  // beyond the last: still a number
    solution.chosen.push_back(static_cast<int>(answer.below(next, choices + 1)) - 1);
  }
  if (!answer.done()) return invalid("the snapshot's answer is no choices");
  return solution;
}

}  // namespace scalai::policy
