#include "ptc/sched/policies/shares/kept_shares.h"

#include <bit>
#include <cstring>
#include <utility>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::sched {
namespace {

void put(int64_t value, std::string* bytes) {
  for (int k = 0; k < 8; ++k) *bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * k) & 0xff);
}
void put(double value, std::string* bytes) { put(std::bit_cast<int64_t>(value), bytes); }

// Numbers of 8 bytes; 0 and a mark once there are no more.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  int64_t whole() {
    good_ = good_ && bytes_.size() >= 8;
    if (!good_) return 0;
    uint64_t value = 0;
    for (size_t k = 0; k < 8; ++k) value |= uint64_t{static_cast<uint8_t>(bytes_[k])} << (8 * k);
    bytes_.remove_prefix(8);
    return static_cast<int64_t>(value);
  }
  double number() { return std::bit_cast<double>(whole()); }
  // A number of things of at least 8 bytes each.
  size_t count() {
    const int64_t value = whole();
    good_ = good_ && value >= 0 && value <= static_cast<int64_t>(bytes_.size() / 8);
    return good_ ? static_cast<size_t>(value) : 0;
  }
  bool done() const { return good_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace

std::string bytes_of(const Shares& shares) {
  std::string bytes;
  put(std::ssize(shares.alone), &bytes);
  for (const std::vector<double>& row : shares.alone) {
    put(std::ssize(row), &bytes);
    for (const double value : row) put(value, &bytes);
  }
  put(std::ssize(shares.paired), &bytes);
  for (const double value : shares.paired) put(value, &bytes);
  put(shares.objective, &bytes);
  for (const int64_t value : {shares.effort.programs, shares.effort.pivots, shares.effort.retries}) put(value, &bytes);
  put(std::ssize(shares.dropped), &bytes);
  for (const JobId job : shares.dropped) put(int64_t{job.value}, &bytes);
  return bytes;
}

absl::StatusOr<Shares> shares_of(std::string_view bytes) {
  Reader reader(bytes);
  Shares shares;
  shares.alone.resize(reader.count());
  for (std::vector<double>& row : shares.alone) {
    row.resize(reader.count());
    for (double& value : row) value = reader.number();
  }
  shares.paired.resize(reader.count());
  for (double& value : shares.paired) value = reader.number();
  shares.objective = reader.number();
  for (int64_t* value : {&shares.effort.programs, &shares.effort.pivots, &shares.effort.retries})
    *value = reader.whole();
  shares.dropped.resize(reader.count());
  for (JobId& job : shares.dropped) job = JobId(reader.whole());
  if (!reader.done()) return invalid("the snapshot's answer is no shares");
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
    return shares_of(bytes);
  };
}

}  // namespace scalai::sched
