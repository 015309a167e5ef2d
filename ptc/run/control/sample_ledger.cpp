#include "ptc/run/control/sample_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

constexpr size_t kMostNamed = 4;  // ranks in a message

std::string steps_text(int64_t from_step, int64_t until_step) {
  return until_step - from_step == 1 ? fmt::format("step {}", from_step)
                                     : fmt::format("steps {} to {}", from_step, until_step - 1);
}

// A scenario may simulate more steps than a state can count; nobody reads so many.
int64_t countable(int64_t step) { return std::min(step, datasets::kMostInState); }

}  // namespace

SampleLedger::SampleLedger(const datasets::State& state, bool reads)
    : state_(state), steps_(state), order_(state.samples, state.shuffle, state.seed), reads_(reads) {
  SCALAI_CHECK(state.step == 0 && state.pass == 0 && state.consumed == 0, "a job begins with its dataset");
}

void SampleLedger::done(int64_t until_step, int dp) {
  SCALAI_CHECK(until_step >= next_step_ && dp >= 1);
  if (until_step == next_step_) return;
  if (reads_ && !broken_) awaited_.push_back({next_step_, until_step, dp});
  next_step_ = until_step;
}

void SampleLedger::roll_back(int64_t step) {
  SCALAI_CHECK(step >= 0 && step <= next_step_);
  steps_again_ += next_step_ - step;
  samples_again_ += samples_before(next_step_) - samples_before(step);
  next_step_ = step;
  assumed_.erase(assumed_.lower_bound(step), assumed_.end());
}

int64_t SampleLedger::samples_before(int64_t step) const { return steps_.samples_before(countable(step)); }

absl::Status SampleLedger::account(const SamplesRead& read) {
  if (broken_) return absl::OkStatus();
  const absl::Status fits = compare(read);
  if (fits.ok()) {
    assumed_.erase(assumed_.lower_bound(read.from_step), assumed_.lower_bound(read.step));
    if (read.assumed > 0 && read.from_step < next_step_) assumed_[read.from_step] = read.assumed;
    awaited_.pop_front();
  } else {
    awaited_.clear();
    broken_ = true;
  }
  for (const datasets::SampleAccount& one : read.accounts) samples_read_ += one.samples;
  bytes_read_ += read.bytes;
  return fits;
}

std::string SampleLedger::first_awaited() const {
  return awaited_.empty() ? "" : steps_text(awaited_.front().from_step, awaited_.front().until_step);
}

DatasetRecord SampleLedger::record(int64_t step) const {
  const datasets::State now = steps_.at(countable(step));
  DatasetRecord record{.samples = state_.samples,
                       .pass = now.pass,
                       .consumed = now.consumed,
                       .steps_again = steps_again_,
                       .samples_again = samples_again_};
  if (!reads_) return record;
  record.samples_read = samples_read_;
  record.bytes_read = bytes_read_;
  for (const auto& [from_step, samples] : assumed_) record.samples_assumed += samples;
  record.exactly_once =
      !broken_ && !awaits() && step == next_step_ && samples_read_ == samples_before(step) + samples_again_;
  if (*record.exactly_once && record.samples_assumed > 0) record.exactly_once.reset();
  return record;
}

// A short batch ends a pass, unless short ones are left out: then none is walked into.
int64_t SampleLedger::batch_at(const Place& place) const {
  return std::min(state_.global_batch, state_.samples - place.position);
}

void SampleLedger::walk(Place& place, int64_t step) const {
  while (place.step < step) {
    place.position += batch_at(place);
    ++place.step;
    const int64_t left = state_.samples - place.position;
    const bool over = state_.drop_last ? left < state_.global_batch : left == 0;
    if (over) place = {place.step, place.pass + 1, 0};
  }
}

// What each rank reads: all positions of each batch, handed out in their order to rank 0, 1, …, the first ranks of a
// batch that dp does not divide getting one more.
absl::StatusOr<std::vector<datasets::SampleAccount>> SampleLedger::reckon(const Awaited& steps) {
  while (places_.back().step > steps.from_step) places_.pop_back();  // a rollback went behind it
  Place place = places_.back();
  walk(place, steps.from_step);
  if (place.step > places_.back().step) places_.push_back(place);
  std::vector<datasets::SampleAccount> ranks(static_cast<size_t>(steps.dp));
  while (place.step < steps.until_step) {
    const int64_t batch = batch_at(place);
    int64_t position = place.position;
    for (int rank = 0; rank < steps.dp; ++rank) {
      const int64_t share = batch / steps.dp + (rank < batch % steps.dp ? 1 : 0);
      for (const int64_t end = position + share; position < end; ++position) {
        const int64_t sample = order_.at(place.pass, position);
        if (order_.position_of(place.pass, sample) != position) {
          return absl::DataLossError(
              fmt::format("the order of pass {} is none: sample {} at position {} is not found there", place.pass,
                          sample, position));
        }
        ranks[static_cast<size_t>(rank)].add(place.pass, position, sample);
      }
    }
    walk(place, place.step + 1);
  }
  return ranks;
}

absl::Status SampleLedger::compare(const SamplesRead& read) {
  const std::string found = fmt::format("{} of {} ranks", steps_text(read.from_step, read.step), read.accounts.size());
  if (awaited_.empty()) return absl::DataLossError(fmt::format("the samples of {} were read without a request", found));
  const Awaited& awaited = awaited_.front();
  const std::string expected =
      fmt::format("{} of {} ranks", steps_text(awaited.from_step, awaited.until_step), awaited.dp);
  if (read.from_step != awaited.from_step || read.step != awaited.until_step ||
      read.accounts.size() != static_cast<size_t>(awaited.dp))
    return absl::DataLossError(fmt::format("the samples of {} were read, not those of {}", found, expected));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<datasets::SampleAccount> reckoned, reckon(awaited));
  std::string problems;
  size_t wrong = 0;
  for (size_t rank = 0; rank < reckoned.size(); ++rank) {
    if (read.accounts[rank] == reckoned[rank] || ++wrong > kMostNamed) continue;
    const int64_t is = read.accounts[rank].samples, should_be = reckoned[rank].samples;
    problems += fmt::format("{}dp rank {} read {} samples, expected {}{}", problems.empty() ? "" : "; ", rank, is,
                            should_be, is == should_be ? ", but others: one is missing, doubled or another's" : "");
  }
  if (wrong == 0) return absl::OkStatus();
  const std::string more = wrong > kMostNamed ? fmt::format("; and {} more ranks", wrong - kMostNamed) : "";
  return absl::DataLossError(fmt::format("samples were not read exactly once in {}: {}{}", expected, problems, more));
}

}  // namespace scalai::control
