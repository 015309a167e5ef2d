#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/datasets/account.h"
#include "ptc/store/datasets/order.h"
#include "ptc/store/datasets/share.h"
#include "ptc/store/datasets/state.h"
#include "python/module/module.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

// The steps of a dataset from a state on, and their samples in order.
struct SampleSteps {
  explicit SampleSteps(const std::string& text) : steps(state_of(text)), order(order_of(steps.first())) {}

  static datasets::State state_of(const std::string& text) {
    datasets::State state = value_of(datasets::parse_state(text));
    check(datasets::validate(state));
    return state;
  }
  static datasets::Order order_of(const datasets::State& state) { return {state.samples, state.shuffle, state.seed}; }

  void check_step(int64_t step) const {
    if (step < steps.first().step) check(invalid("step " + std::to_string(step) + " is before the state's own"));
    if (step > datasets::kMostInState) check(invalid("step " + std::to_string(step) + " is beyond 2^52"));
  }
  std::string state_at(int64_t step) const {
    check_step(step);
    return state_text(steps.at(step));
  }
  std::vector<int64_t> samples(int64_t step, int rank, int ranks) const {
    check_step(step);
    if (rank < 0 || rank >= ranks)
      check(invalid("there is no data-parallel rank " + std::to_string(rank) + " of " + std::to_string(ranks)));
    const datasets::PositionRange range = positions_of(steps, step, {rank, ranks});
    std::vector<int64_t> ids;
    ids.reserve(static_cast<size_t>(range.size()));
    const int64_t pass = steps.batch(step).pass;
    for (int64_t position = range.begin; position < range.end; ++position) ids.push_back(order.at(pass, position));
    return ids;
  }

  // The account (ptc/store/datasets/account.h) of ids that were read as a rank's share of a step: their number, and two
  // sums.
  std::tuple<int64_t, uint64_t, uint64_t> account(const std::vector<int64_t>& ids, int64_t step, int rank,
                                                  int ranks) const {
    check_step(step);
    const datasets::PositionRange range = positions_of(steps, step, {rank, ranks});
    if (static_cast<int64_t>(ids.size()) != range.size())
      check(invalid(std::to_string(ids.size()) + " ids were read in step " + std::to_string(step) + ", of a share of " +
                    std::to_string(range.size())));
    datasets::SampleAccount read;
    for (size_t i = 0; i < ids.size(); ++i)
      read.add(steps.batch(step).pass, range.begin + static_cast<int64_t>(i), ids[i]);
    return {read.samples, read.sum_low, read.sum_high};
  }

  datasets::Steps steps;
  datasets::Order order;
};

}  // namespace

void add_samples(nb::module_& module) {
  module.attr("most_steps") = datasets::kMostInState;
  nb::class_<SampleSteps>(module, "SampleSteps")
      .def(nb::init<const std::string&>(), nb::arg("state"))
      .def("state_at", &SampleSteps::state_at, nb::arg("step"))
      .def("account", &SampleSteps::account, nb::arg("ids"), nb::arg("step"), nb::arg("rank"), nb::arg("ranks"))
      .def("samples", &SampleSteps::samples, nb::arg("step"), nb::arg("rank"), nb::arg("ranks"));
}

}  // namespace scalai::python
