#pragma once
// For tests: a run that trains on the first hosts, and receivers on those after them, as threads of this process.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/controller/testing/test_fleet.h"
#include "executor/sync/sync.h"
#include "executor/worker/places.h"
#include "ptc/plan/testing/support.h"

namespace scalai::proto {
class LiveState;
}

namespace scalai::executor::sync {

using collection::Collection;
using controller::testing::Death;
using controller::testing::Fleet;

inline constexpr int32_t kTrained = 5;  // the job's number in the training run
inline constexpr int kHosts = 2, kGpus = 2;

// What LiveRun gives, without a server between.
class Shown final : public live::LiveStep {
 public:
  Shown(proto::LiveState state, Collection side);
  ~Shown() override;
  const store::Stamp& stamp() const override { return stamp_; }
  bool is_kept() const override { return kept; }
  const std::shared_ptr<const store::Checkpoint>& checkpoint() const override { return checkpoint_; }
  const proto::LiveState& state() const override { return *state_; }
  bool kept = true;

 private:
  std::unique_ptr<proto::LiveState> state_;
  store::Stamp stamp_;
  std::shared_ptr<const store::Checkpoint> checkpoint_;
};

// A run that trains on the first hosts, and receivers on those after them.
class SyncTest : public ::testing::Test {
 protected:
  struct Setup {
    bool network = false;
    std::vector<Death> deaths;  // of receivers
    int receivers = 2;
    int64_t digest_bytes = 64;
    std::vector<std::string> transforms{};
    std::optional<tensor::DType> dtype{};
    // Of each receiver; without it devices in the host's memory.
    std::function<std::shared_ptr<device::Backend>()> backend{};
  };
  void begin(Collection from, Collection to, Setup setup);
  void train(int64_t step, const std::set<HostId>& hosts);
  void train(int64_t step) { train(step, training_->living()); }
  Shown shown();
  void end();
  // A reader of receivers asks.
  proto::LiveState ask(bool wants, std::vector<int64_t> keeps);
  // Stores of the receivers, as a reader finds them.
  std::unique_ptr<worker::Places> reader_places();
  // Every element at the receivers, against the closed form of this step.
  std::string wrong(int64_t step, int64_t epoch);
  std::string wrong_on(HostId host, int64_t step, int64_t epoch);
  // The sum of each tensor's elements, over the boxes that these workers hold.
  static std::map<int32_t, uint64_t> sums(controller::WorkerPool& pool, int32_t job, int64_t epoch);

  std::string folder_;  // of what steps read
  Setup setup_;
  Collection from_;
  cluster::Cluster cluster_, training_cluster_;
  std::optional<Fleet> trainers_, receivers_;
  std::optional<controller::WorkerPool> training_, pool_;
  std::optional<Sync> sync_;
  int64_t step_ = 1, next_ = 0;
};

inline Collection grid(const plan::Sizes& sizes) {
  return plan::grid_collection(sizes, plan::first_devices(sizes.world()));
}

}  // namespace scalai::executor::sync
