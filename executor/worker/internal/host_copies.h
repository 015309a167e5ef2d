#pragma once
// HostCopies: copies of devices' state in this host's memory, and state that is shown in place, under a second version,
// until something is about to change it. It owns the list of what is shown.
//
//   copy{in_place} ──► devices hold the version, too ──► before(command), leave(): it is copied to the host, or goes
//
// A copy that fails is no error of the command that changes the state: readers lose the version. One thread: that which
// handles commands.

#include "executor/worker/internal/holdings.h"

namespace scalai::executor::worker {

class HostCopies {
 public:
  // Outlives this object.
  explicit HostCopies(Holdings& holdings) : holdings_(holdings), places_(holdings.places()) {}

  absl::Status copy(const CommandBody& body, ReplyBody& reply);
  // Leaves what the command is about to change, but for real training, which has a later moment for it.
  void before(const CommandBody& body);
  bool shows(int32_t job) const;
  void leave(int32_t job);
  // This version is shown no more; or none of the job, whose versions the caller drops.
  void forget(const state::VersionKey& shown);
  void forget_all(int32_t job) { shown_.erase(job); }

 private:
  struct Shown {
    state::StateVersion version;
    bool fleeting = false;
  };
  bool can_stay(DeviceId device, const state::VersionKey& key, TensorId tensor) const;
  struct Batch {
    std::vector<device::BoxCopy> copies;
    int64_t bytes = 0;
  };
  // What of the box is not there yet.
  absl::Status copy_box_in(const Location& src, const state::VersionKey& from, const state::VersionKey& to,
                           TensorId tensor, const tensor::Box& box, tensor::DType dtype, Batch& batch);
  absl::Status copy_devices(const CommandBody& body, const state::VersionKey& from, const state::VersionKey& to,
                            Batch& batch, ReplyBody& reply);
  absl::Status copy_shown(const state::VersionKey& shown);
  absl::Status stats_held(const CommandBody& body, ReplyBody& reply) const;
  absl::Status digest_held(const state::VersionKey& key, const std::set<int32_t>& wanted, int64_t bytes,
                           ReplyBody& reply) const;

  Holdings& holdings_;
  Places& places_;
  std::map<int32_t, std::vector<Shown>> shown_;  // by job
};

}  // namespace scalai::executor::worker
