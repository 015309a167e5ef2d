#pragma once
// Communicator: one rank's end of an NCCL communicator, non-blocking, with a deadline on every wait. After a failure it
// is aborted at once and never used again; the remaining members join again, or shrink a healthy one in advance.
//
//   join ─► { start_group ─► send, receive, broadcast … ─► end_group ─► watch } … ─► destructor
//                                                             any error ─► aborted ─► FailedPrecondition
//
// The operations of a group are collected here and given to NCCL together, so NCCL holds no incomplete group when
// another thread aborts. When end_group() returns OK the operations are *on their streams*, not done: an event recorded
// then, or watch(), shows their end. After an error NCCL's kernels are told to leave; their buffers are free when the
// streams are idle (with several ranks in one process: after all of these are aborted).
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

namespace scalai::executor::nccl {

namespace internal {
class CommunicatorState;
}

using Deadline = std::chrono::steady_clock::time_point;

absl::StatusOr<NcclUniqueId> make_unique_id(const NcclApi& api);
// The id as 128 opaque bytes, for messages of the control plane; InvalidArgument for any other length.
std::string bytes_of(const NcclUniqueId& id);
absl::StatusOr<NcclUniqueId> unique_id_of(std::string_view bytes);

class Communicator {
 public:
  struct Membership {
    NcclUniqueId id;
    int rank = 0;
    int size = 1;
  };
  // Called before the n-th of the joining ranks (from 0); sets the current GPU, which becomes that rank's.
  using SetDevice = std::function<absl::Status(int n)>;

  // Joins as one rank; the calling thread's current CUDA device becomes its GPU. Copies `api`. Returns when all ranks
  // have joined.
  //   DeadlineExceeded  not all ranks came; nothing is left behind
  //   Cancelled         `stop` was requested, the way out when a member is known to be dead
  //   others            of nccl_status()
  static absl::StatusOr<Communicator> join(const NcclApi& api, const Membership& membership, Deadline deadline,
                                           const std::stop_token& stop = {});
  // Joins as several ranks of one process, each on its own GPU (NCCL refuses two ranks on one GPU): all or none, in the
  // order of `ranks`. Ignores `membership.rank`.
  static absl::StatusOr<std::vector<Communicator>> join_several(const NcclApi& api, const Membership& membership,
                                                                std::span<const int> ranks, const SetDevice& set_device,
                                                                Deadline deadline, const std::stop_token& stop = {});

  // Leaves cleanly if healthy and idle, within kLeaveTime; otherwise aborts.
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;

  // --- groups --------------------------------------------------------------------------------------------------------
  // All operations of a group run concurrently. Operations between two ranks match in order, and their sizes must
  // agree. Operations of 0 bytes are skipped at both ends. A rank may send to itself within one group. Pointers refer
  // to memory of the rank's GPU, which must live until the operations are done. CHECK: `peer` is a rank, and operations
  // are inside a group. FailedPrecondition after a failure.
  absl::Status start_group();
  absl::Status send(int peer, const void* from, size_t bytes, void* stream);
  absl::Status receive(int peer, void* into, size_t bytes, void* stream);
  // All ranks call it at the same position of the same group. `from` matters at the root only and may equal `into`.
  absl::Status broadcast(int root, const void* from, void* into, size_t bytes, void* stream);
  // Gives the group to NCCL and waits until all operations are on their streams (the first group with a peer connects
  // to it). Aborts on any error: DeadlineExceeded, Cancelled (aborted by another thread), or one of nccl_status().
  absl::Status end_group(Deadline deadline);
  // The two halves of end_group, for a thread that drives several ranks: first post all, then wait for each.
  absl::Status post_group();
  absl::Status wait_posted(Deadline deadline);
  // Waits for a condition that depends on this communicator, such as an event after its operations: calls `done` until
  // it is true, and polls NCCL for errors. Aborts on an error of either, and at the deadline.
  absl::Status watch(const std::function<absl::StatusOr<bool>()>& done, Deadline deadline);

  // --- members that go -----------------------------------------------------------------------------------------------
  // A communicator without the `excluded` ranks; the others keep their order. All remaining ranks call it, with the
  // same list, between groups; excluded ranks do not. It does not help after a death, which has ended this
  // communicator: use join(). This communicator does not change.
  //   Unimplemented  the library has no ncclCommShrink (before 2.27)
  absl::StatusOr<Communicator> shrink(std::span<const int> excluded, Deadline deadline);

  // Ends all operations at once: a waiting thread returns Cancelled within milliseconds of NCCL's own return. No effect
  // on a failed communicator.
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
  bool posted_ = false;  // posted, not awaited
};

}  // namespace scalai::executor::nccl
