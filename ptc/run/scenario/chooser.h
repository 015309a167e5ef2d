#pragma once
// `parallel: choose`: the best configuration of a job on the devices that it may use. The parallelizer's search
// (ptc/cost/step/search.h) finds it, with the hardware of a configuration on these very devices: slower GPUs, uneven
// hosts, degraded devices. Searches without a change are cached by job name, devices and speeds. The rest is
// arithmetic, so equal questions have equal answers in every runtime. One thread at a time.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/devices.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario {

class Chooser {
 public:
  using Search = std::function<absl::StatusOr<step::SearchResult>(const step::ModelShape&, const step::SearchSpace&)>;
  // Cost of the change to a candidate; nullopt = not reachable.
  using Change = std::function<std::optional<step::Change>(const step::Candidate&)>;

  // `cluster` must outlive the chooser and stay unchanged. `search` runs on the caller's thread.
  explicit Chooser(const cluster::Cluster& cluster, Search search = step::search);

  // References and pointers must live until best() returns.
  struct Question {
    const JobSpec& job;                          // the job that chooses; job.choose is set (CHECK)
    const std::vector<DeviceId>& devices;        // devices that it may use, in the order of preference
    const std::map<DeviceId, double>& speed;     // degraded devices: share of nominal speed
    const ParallelChoice* all_but_dp = nullptr;  // if set, all axes but dp stay as in it
    // The configuration that the job has and may keep at no cost, on these devices; only a better one replaces it.
    const ParallelChoice* held = nullptr;
    step::StepTime held_time;
    step::Hardware held_hardware;
    // Pay-off only.
    Change change;
    double least_change_s = 0;  // lower bound of every change
    bool explain_idle = false;  // the choice says why it leaves GPUs idle; the same for all questions of a chooser
  };
  struct Choice : ParallelChoice {
    bool held = false;  // the job keeps its configuration and devices
  };
  // The best choice; it may use fewer devices. Without a better one, `held` if set. NotFound: no devices, or nothing
  // fits; the message names the tightest memory term and remedies. InvalidArgument: no configuration divides.
  absl::StatusOr<Choice> best(const Question& question);

 private:
  struct Found {
    absl::StatusOr<Choice> choice;
    double score = 0;
  };
  Found look(const JobSpec& job, const step::SearchSpace& space) const;

  const cluster::Cluster& cluster_;
  const Search search_;
  std::map<std::string, Found> found_;
};

}  // namespace scalai::scenario
