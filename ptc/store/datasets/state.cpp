#include "ptc/store/datasets/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

bool is_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

int64_t steps_in(const State& state, int64_t positions) {
  return state.drop_last ? positions / state.global_batch
                         : positions / state.global_batch + (positions % state.global_batch != 0 ? 1 : 0);
}

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace

absl::Status validate(const State& state) {
  std::vector<std::string> problems;
  const auto within = [&](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return true;
    problems.push_back(fmt::format("/{}: must be from {} to {}, is {}", name, least, most, value));
    return false;
  };
  if (!state.index.empty() && !is_digest(state.index)) {
    problems.push_back("/index: must be the digest of an index (32 hexadecimal digits) or empty");
  }
  const bool sized = within("samples", state.samples, 1, kMostInState);
  within("sequence", state.sequence, 0, kMostInState);
  const bool batched = within("global_batch", state.global_batch, 1, kMostInState);
  within("step", state.step, 0, kMostInState);
  within("pass", state.pass, 0, kMostInState);
  within("consumed", state.consumed, 0, sized ? state.samples : kMostInState);
  if (sized && batched && state.drop_last && state.global_batch > state.samples) {
    problems.push_back(fmt::format("/global_batch: with drop_last a pass of {} samples has no batch of {}",
                                   state.samples, state.global_batch));
  }
  return problems.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems, "\n")));
}

Steps::Steps(const State& first) : first_(first) {
  SCALAI_CHECK(validate(first).ok(), message_of(validate(first)));
  first_pass_steps_ = steps_in(first_, first_.samples - first_.consumed);
  steps_per_pass_ = steps_in(first_, first_.samples);
  samples_per_pass_ = first_.drop_last ? steps_per_pass_ * first_.global_batch : first_.samples;
  if (first_pass_steps_ == 0) {
    ++first_.pass;
    first_.consumed = 0;
    first_pass_steps_ = steps_per_pass_;
  }
}

State Steps::at(int64_t step) const {
  SCALAI_CHECK(step >= first_.step && step <= kMostInState);
  State state = first_;
  state.step = step;
  int64_t done = step - first_.step;
  if (done >= first_pass_steps_) {
    done -= first_pass_steps_;
    state.pass += 1 + done / steps_per_pass_;
    state.consumed = 0;
    done %= steps_per_pass_;
  }
  state.consumed += done * state.global_batch;
  return state;
}

Batch Steps::batch(int64_t step) const {
  const State state = at(step);
  return {state.pass, state.consumed, std::min(state.global_batch, state.samples - state.consumed)};
}

absl::StatusOr<int64_t> Steps::step_of(int64_t pass, int64_t consumed) const {
  const absl::Status none = invalid(
      fmt::format("no step begins at position {} of pass {} with a global batch of {} from position {} of pass {} on",
                  consumed, pass, first_.global_batch, first_.consumed, first_.pass));
  if (pass < first_.pass || pass > 2 * kMostInState || consumed < 0) return none;
  const bool in_first = pass == first_.pass;
  const int64_t begin = in_first ? first_.consumed : 0;
  const int64_t steps = in_first ? first_pass_steps_ : steps_per_pass_;
  const int64_t end = in_first ? positions_end(first_.step) : samples_per_pass_;
  if (consumed < begin || consumed > end) return none;
  // What has consumed all of its pass stands before the first step of the next one.
  const int64_t done = consumed == end ? steps : (consumed - begin) / first_.global_batch;
  if (consumed != end && (consumed - begin) % first_.global_batch != 0) return none;
  if (in_first) return first_.step + done;
  const int64_t before = saturating_product(pass - first_.pass - 1, steps_per_pass_);
  const int64_t step = saturating_sum(saturating_sum(first_.step + first_pass_steps_, before), done);
  return step <= kMostInState ? absl::StatusOr<int64_t>(step) : none;
}

int64_t Steps::pass_end(int64_t step) const {
  SCALAI_CHECK(step >= first_.step && step <= kMostInState);
  const int64_t first_end = first_.step + first_pass_steps_;
  return step < first_end ? first_end : step + steps_per_pass_ - (step - first_end) % steps_per_pass_;
}

int64_t Steps::positions_end(int64_t step) const {
  SCALAI_CHECK(step >= first_.step && step <= kMostInState);
  if (step - first_.step >= first_pass_steps_) return samples_per_pass_;
  return first_.drop_last ? first_.consumed + first_pass_steps_ * first_.global_batch : first_.samples;
}

int64_t Steps::samples_before(int64_t step) const {
  const State state = at(step);
  if (state.pass == first_.pass) return state.consumed - first_.consumed;
  const int64_t in_first = positions_end(first_.step) - first_.consumed;
  const int64_t between = saturating_product(state.pass - first_.pass - 1, samples_per_pass_);
  return saturating_sum(saturating_sum(in_first, between), state.consumed);
}

}  // namespace scalai::datasets
