#pragma once
// `parallel: choose`: the best configuration of a job on the devices it may use. Found by the parallelizer's search
// (ptc/parallel/search.h), which is told what hardware a configuration gets on these very devices: slower GPUs, uneven
// hosts, degraded devices. Searches are cached by the devices and their speeds; everything else is arithmetic, so that equal
// questions have equal answers in every runtime.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/control/scenario.h"
#include "ptc/parallel/devices.h"

namespace scalai::control {

class Chooser {
 public:
  using Search =
      std::function<absl::StatusOr<parallel::SearchResult>(const parallel::ModelShape&, const parallel::SearchSpace&)>;
  // What getting to a candidate costs; empty = nobody knows how.
  using Change = std::function<std::optional<parallel::Change>(const parallel::Candidate&)>;

  // The cluster outlives this.
  explicit Chooser(const plan::Cluster& cluster, Search search = parallel::search);

  struct Question {
    const JobSpec& job;                          // that chooses
    const std::vector<DeviceId>& devices;        // it may use, in the order they are taken
    const std::map<DeviceId, double>& speed;     // of degraded devices, share of nominal
    const ParallelChoice* all_but_dp = nullptr;  // everything but dp stays as in this one
    // What the job has and may keep at no cost, on these devices: nothing replaces it that is not better.
    const ParallelChoice* held = nullptr;
    parallel::StepTime held_time;
    parallel::Hardware held_hardware;
    // Pay-off only.
    Change change;
    double least_change_s = 0;  // no change takes less
  };
  struct Choice : ParallelChoice {
    bool held = false;  // as it is, where it is
  };
  // On as many of the devices as is best. NotFound: nothing fits, and the text says what is tightest and what would help.
  // InvalidArgument: nothing divides.
  absl::StatusOr<Choice> best(const Question& question);

 private:
  struct Found {
    absl::StatusOr<Choice> choice;
    double score = 0;
  };
  Found look(const JobSpec& job, const parallel::SearchSpace& space) const;

  const plan::Cluster& cluster_;
  const Search search_;
  std::map<std::string, Found> found_;
};

// Of the devices that are free, those that a job which wants `gpus` chooses among, fastest first; of equally fast ones the
// first. `named` are in an order that was asked for, others go by number.
std::vector<DeviceId> devices_to_use(const std::vector<DeviceId>& free, int gpus, bool named,
                                     const plan::Cluster& cluster, parallel::Math math,
                                     const std::map<DeviceId, double>& speed);

using parallel::devices_for;

}  // namespace scalai::control
