#pragma once
// A small cluster of this folder's tests: a Worker for each host, all in one process, driven by the messages that the
// controller sends. Every command is sent twice when `twice` is set: the second reply must say the same.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/nccl/library.h"
#include "executor/state/testing/support.h"
#include "executor/transport/loopback_transport.h"
#include "executor/worker/worker.h"
#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/collection.h"

namespace scalai::proto {
class CommandBody;
class ReplyBody;
class TensorBox;
}  // namespace scalai::proto

namespace scalai::executor::worker {

using collection::Collection;
using proto::CommandBody;
using proto::ReplyBody;

inline constexpr int32_t kJob = 3;
inline constexpr state::StateVersion kSnapshot = state::StateVersion::snapshot(1);

constexpr state::VersionKey epoch_of_job(int64_t epoch) { return {kJob, state::StateVersion::epoch(epoch)}; }

// The library that stands in for NCCL.
const nccl::NcclLibrary& fake_nccl();

inline Collection at_epoch(Collection side, int64_t epoch) {
  side.epoch = epoch;
  return side;
}
std::string text_of(const Collection& side);

// A prepare command for a plan between two epochs.
CommandBody prepare_body(const plan::Plan& plan, const Collection& to, int64_t step);

CommandBody round_body(int64_t to_epoch, int32_t round, int32_t hop);

// How workers come by each other's state: from segments, over the transport; over NCCL (a library that stands in for
// it, one rank a host, or one a device); or all in one process.
enum class Reach { kSegments, kNetwork, kNccl, kNcclOnePerDevice, kOneProcess };

struct SmallClusterOptions {
  int hosts = 2, gpus = 2;
  Reach reach = Reach::kSegments;
  bool twice = false;
  int64_t limit = int64_t{1} << 30;  // of each place
};

class SmallCluster {
 public:
  explicit SmallCluster(const SmallClusterOptions& options = {});
  // Nobody answers while workers go.
  ~SmallCluster();

  // Setup and peers, as after a change of some worker's places.
  void introduce();
  bool has_nccl() const { return options_.reach == Reach::kNccl || options_.reach == Reach::kNcclOnePerDevice; }

  absl::StatusOr<ReplyBody> call(int host, const CommandBody& body);
  ReplyBody ask(int host, const CommandBody& body);
  std::vector<ReplyBody> ask_all(const CommandBody& body);  // at the same time

  void create(const Collection& side, int64_t step);
  void advance(const Collection& side, int64_t step);
  // Every round and hop, each on all workers before the next begins. Bytes by class.
  plan::ClassBytes run_rounds(const plan::Plan& plan, int64_t to_epoch);
  plan::ClassBytes change(const plan::Plan& plan, const Collection& to, int64_t step);
  // What is wrong, a line each; also that as many bytes were looked at as the collection has.
  std::vector<std::string> verify(const Collection& side, int64_t step);
  void commit(int64_t epoch);
  void forget(int64_t epoch);
  // All of each device's pieces into one host's memory: its own host's, or the hub's.
  void stage(const Collection& from, HostId hub, state::StateVersion to, const std::set<DeviceId>& lost = {});
  // What each host's devices hold, into its memory.
  void snapshot(const Collection& from, state::StateVersion to);
  void lose(const std::vector<int>& devices);

  Worker& worker(int host) { return *workers_[static_cast<size_t>(host)]; }
  state::Store& store(const Location& place);
  // How often somebody asked through the transport.
  int fetches() const { return fetches_; }

  static int64_t bytes_of(const Collection& side);

 private:
  static int64_t packed_bytes_of(const tensor::Box& box, tensor::DType dtype) {
    return box.volume() * tensor::size_of(dtype);
  }
  static std::string timeless(ReplyBody reply);

  const SmallClusterOptions options_;
  transport::LoopbackNetwork network_;
  std::vector<std::unique_ptr<transport::LoopbackTransport>> transports_;
  std::shared_ptr<device::Backend> backend_;
  std::shared_ptr<LocalStores> locals_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> fetches_ = 0;
};

}  // namespace scalai::executor::worker
