#include "ptc/run/policy/policies/shares/kept_shares.h"

#include <algorithm>
#include <utility>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/answer_bytes.h"

namespace scalai::policy {

std::string bytes_of(const Shares& shares) {
  AnswerWriter answer;
  answer.add_size(shares.alone.size());
  for (const std::vector<double>& row : shares.alone) {
    answer.add_size(row.size());
    for (const double value : row) answer.add_double(value);
  }
  answer.add_size(shares.paired.size());
  for (const double value : shares.paired) answer.add_double(value);
  answer.add_double(shares.objective);
  for (const int64_t value : {shares.effort.programs, shares.effort.pivots, shares.effort.retries}) answer.add(value);
  answer.add_size(shares.dropped.size());
  for (const JobId job : shares.dropped) answer.add(int64_t{job.value});
  return answer.take();
}

absl::StatusOr<Shares> shares_of(std::string_view bytes, const ShareProblem& problem) {
  AnswerReader answer(bytes);
  bool fits = true;
  Shares shares;
  shares.alone.resize(answer.size());
  for (std::vector<double>& row : shares.alone) {
    row.resize(answer.size());
    fits = fits && row.size() == problem.gpus.size();
    for (double& value : row) value = answer.real();
  }
  shares.paired.resize(answer.size());
  for (double& value : shares.paired) value = answer.real();
  shares.objective = answer.real();
  for (int64_t* value : {&shares.effort.programs, &shares.effort.pivots, &shares.effort.retries})
    *value = answer.number();
  shares.dropped.resize(answer.size());
  for (JobId& job : shares.dropped) {
    const int64_t id = answer.number();
    job = JobId(id);
    fits = fits && std::any_of(problem.jobs.begin(), problem.jobs.end(),
                               [&](const ShareJob& one) { return one.id.value == id; });
  }
  fits = fits && shares.alone.size() == problem.jobs.size() && shares.paired.size() == problem.pairs.size();
  if (!answer.done() || !fits) return invalid("the snapshot's answer is no shares of the jobs");
  return shares;
}

std::string digest_of(const ShareProblem& problem) {
  Hasher hasher;
  hasher.add(std::ssize(problem.gpus)).add(std::ssize(problem.jobs)).add(std::ssize(problem.pairs));
  for (const int gpus : problem.gpus) hasher.add(int64_t{gpus});
  for (const double price : problem.prices) hasher.add_double(price);
  for (const ShareJob& job : problem.jobs) {
    hasher.add(int64_t{job.id.value}).add(int64_t{job.gpus}).add(int64_t{job.count}).add(job.entity);
    for (const double rate : job.rates) hasher.add_double(rate);
    for (const double value : {job.weight, job.remaining, job.age_s, job.isolated_s, job.time_left_s})
      hasher.add_double(value);
  }
  for (const SharePair& pair : problem.pairs) {
    hasher.add(int64_t{pair.first}).add(int64_t{pair.second}).add(int64_t{pair.type.value});
    hasher.add_double(pair.first_rate).add_double(pair.second_rate);
  }
  return hasher.hex();
}

ShareSolver kept(ShareSolver solver, AnswerLog* log) {
  return [solver = std::move(solver), log](const ShareProblem& problem) -> absl::StatusOr<Shares> {
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes,
                            log->answer(digest_of(problem), [&]() -> absl::StatusOr<std::string> {
                              SCALAI_ASSIGN_OR_RETURN(const Shares shares, solver(problem));
                              return bytes_of(shares);
                            }));
    return shares_of(bytes, problem);
  };
}

}  // namespace scalai::policy
