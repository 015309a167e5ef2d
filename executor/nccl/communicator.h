#pragma once
// Communicator: one rank's end of an NCCL communicator, non-blocking, with a deadline on every wait. One that failed is
// aborted at once and never used again; what remains of its members joins anew, or shrinks a healthy one before it is
// needed.
//
//   join ─► { start_group ─► send, receive, broadcast … ─► end_group ─► watch } … ─► destructor
//                                                             any error ─► aborted ─► FailedPrecondition
//
// A group's operations are kept here and given to NCCL in one go, so that NCCL holds nothing half said when another
// thread aborts. When end_group() returns OK they are *on their streams*, not done: an event that is recorded then, or
// watch(), tells when they are. After an error NCCL's kernels have been told to leave; their buffers are free when the
// streams are idle (with several ranks in one process: after all of these have been aborted).
//
// Thread rules: one thread at a time, except abort(), healthy() and status(), which any thread may call at any time
// while the object lives (not while it is moved).

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/nccl/nccl_api.h"

namespace scalai::executor {

namespace internal {
class CommunicatorState;
}

using Deadline = std::chrono::steady_clock::time_point;

absl::StatusOr<NcclUniqueId> make_unique_id(const NcclApi& api);
// For messages of the control plane: 128 opaque bytes. InvalidArgument for any other number.
std::string bytes_of(const NcclUniqueId& id);
absl::StatusOr<NcclUniqueId> unique_id_of(std::string_view bytes);

class Communicator {
 public:
  struct Membership {
    NcclUniqueId id;
    int rank = 0;
    int size = 1;
  };
  // Called before the n-th of the joining ranks (from 0), which gets the GPU that is current then.
  using SetDevice = std::function<absl::Status(int n)>;

  // Joins as one rank; the calling thread's current CUDA device becomes its GPU. Returns when all ranks have joined.
  //   DeadlineExceeded  not all came; nothing is left behind
  //   Cancelled         `stop` was requested: the way out when a member is known to be dead
  //   others            of nccl_status()
  static absl::StatusOr<Communicator> join(const NcclApi& api, const Membership& membership, Deadline deadline,
                                           const std::stop_token& stop = {});
  // Joins as several ranks of one process, each on a GPU of its own (NCCL refuses two on one): all of them or none.
  // In the order of `ranks`; `membership.rank` is not looked at.
  static absl::StatusOr<std::vector<Communicator>> join_several(const NcclApi& api, const Membership& membership,
                                                                std::span<const int> ranks, const SetDevice& set_device,
                                                                Deadline deadline, const std::stop_token& stop = {});

  // Leaves in good order when healthy and idle, within kLeaveTime; aborts otherwise.
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;

  // --- groups --------------------------------------------------------------------------------------------------------
  // All operations of a group run side by side. Those between two ranks match in order, and their sizes must agree.
  // Operations of 0 bytes are left out, on both ends. A rank may send to itself, within one group. Pointers are to
  // memory of the rank's GPU and stay valid until the operations are done. A peer that is no rank, or an operation
  // outside of a group, is a bug (CHECK). FailedPrecondition once it failed.
  absl::Status start_group();
  absl::Status send(int peer, const void* from, size_t bytes, void* stream);
  absl::Status receive(int peer, void* into, size_t bytes, void* stream);
  // Every rank calls it, in the same place of the same group; `from` counts at the root alone and may equal `into`.
  absl::Status broadcast(int root, const void* from, void* into, size_t bytes, void* stream);
  // Hands the group to NCCL and waits until all of it is on its streams (the first group with a peer connects to it).
  // Aborts on any error: DeadlineExceeded, Cancelled (aborted by another thread), or one of nccl_status().
  absl::Status end_group(Deadline deadline);
  // The two halves of end_group, for a thread that drives several ranks: post all, then wait for each.
  absl::Status post_group();
  absl::Status wait_posted(Deadline deadline);
  // Waits for anything that depends on this communicator, such as an event behind its operations: asks `done` until it
  // says true, and NCCL for errors meanwhile. Aborts on an error of either, and at the deadline.
  absl::Status watch(const std::function<absl::StatusOr<bool>()>& done, Deadline deadline);

  // --- members that go -----------------------------------------------------------------------------------------------
  // Without `excluded`, the others in their order. All who stay call it, with the same list, between groups; those who
  // go do not. Not the way out after a death, which has ended this communicator: that is join(). This one stays as it
  // was.
  //   Unimplemented  the library has no ncclCommShrink (before 2.27)
  absl::StatusOr<Communicator> shrink(std::span<const int> excluded, Deadline deadline);

  // Ends all at once: who waits in another thread returns Cancelled within milliseconds of NCCL's own return. Does
  // nothing to one that has failed.
  void abort();
  bool healthy() const;
  // OK while healthy; then FailedPrecondition with the first reason.
  absl::Status status() const;

  static constexpr std::chrono::seconds kLeaveTime{2};

 private:
  struct Operation {
    enum class Kind { kSend, kReceive, kBroadcast } kind;
    int peer;
    const void* from;
    void* into;
    size_t bytes;
    void* stream;
  };

  explicit Communicator(std::unique_ptr<internal::CommunicatorState> state);
  absl::Status add(const Operation& operation);
  NcclResult issue(NcclComm* comm) const;
  absl::Status ended_by(const absl::Status& status);
  void leave();

  std::unique_ptr<internal::CommunicatorState> state_;  // null after a move
  std::vector<Operation> group_;
  bool in_group_ = false;
  bool posted_ = false;  // and not waited for
};

}  // namespace scalai::executor
