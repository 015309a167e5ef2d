#pragma once
// Reading: one step that workers hold, read: from their memory on this machine, by the transport from them, or from
// other readers that have a block of it already (sharing.h).

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"
#include "executor/live/blocks.h"
#include "executor/live/sharing.h"
#include "executor/worker/places.h"
#include "ptc/state/collection/collection.h"

namespace scalai::proto {
class LiveState;
}

namespace scalai::executor::live {

// What was read, in bytes. Any thread.
struct ReadBytes {
  std::atomic<int64_t> from_memory = 0;   // of workers on this machine
  std::atomic<int64_t> from_workers = 0;  // elsewhere
};

// What reads need: it lives as long as a view of the step does, and does not keep the step. A view may outlive the step
// by far (a kernel that remembers files), so what is mapped goes at end(). Any thread.
class Reading {
 public:
  struct Options {
    std::string place;  // of the run, for messages
    uint64_t reader = 0;
    int64_t kept_bytes = 0;
    transport::PeerTransport* transport = nullptr;
    std::shared_ptr<ServedBlocks> served;  // null: what is kept is for this process alone
    std::shared_ptr<OtherReaders> others;  // null: all is read from workers
    std::shared_ptr<ReadBytes> bytes;
  };
  // Errors: InvalidArgument (the answer is none, as check_live says, or of another version of this program), those of
  // Places.
  static absl::StatusOr<std::shared_ptr<Reading>> open(proto::LiveState&& live, Options options);
  ~Reading();

  // Bytes of a box that one of the hosts held. FailedPrecondition: nobody has them any more, or end() was called.
  absl::Status read(TensorId tensor, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst);
  // Nothing is kept, served or mapped from now on.
  void end(const std::string& why);
  bool has_ended() const { return !why_ended().empty(); }
  std::string why_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  const collection::Collection& collection() const { return collection_; }
  std::vector<TensorId> tensors() const;  // that are held; none: all
  const proto::LiveState& live() const { return *live_; }

 private:
  // A box that hosts hold: in their memory, or before it is copied there, on a device.
  struct Holder {
    HostId host;
    std::optional<plan::Location> device;
    bool here = false;  // on this machine
  };
  struct Part {
    TensorId tensor;
    tensor::Box box;
    int64_t number = 0;
    int64_t first_block = 0;  // the same at all readers of this version
    int64_t bytes = 0;
    std::vector<Holder> holders;  // in the order of asking
    bool is_here() const { return holders.front().here; }
  };
  Reading(proto::LiveState&& live, Options options);
  absl::Status find_holders();
  void find_order();
  int64_t bytes_of(TensorId tensor, const tensor::Box& box) const;
  class BlockSource;
  bool is_shared(const Part& part) const { return options_.others != nullptr && !part.is_here(); }
  const Part* part_of(int64_t block) const;
  absl::Status fetch(const Part& from, int64_t offset, std::span<std::byte> dst);
  absl::Status fetch_from(const Part& from, const Holder& holder, int64_t offset, std::span<std::byte> dst);
  absl::Status fetch_at(const plan::Location& place, TensorId tensor, const tensor::Box& owned, int64_t offset,
                        std::span<std::byte> dst);
  absl::Status gone() const;

  const Options options_;
  const std::unique_ptr<const proto::LiveState> live_;
  const std::shared_ptr<Blocks> blocks_;
  collection::Collection collection_;
  state::VersionKey key_;
  std::unique_ptr<device::Backend> backend_;
  std::map<std::pair<TensorId, tensor::Box>, Part> parts_;
  std::vector<const Part*> in_order_;  // of their blocks' numbers
  int64_t block_count_ = 0;
  // The blocks of each tensor as a reader of the whole tensor comes to them, and where each is there, by its number.
  // Empty where there are too many.
  std::vector<int64_t> whole_order_, whole_place_;
  std::set<plan::Location> mapped_;  // devices whose memory others can map
  mutable std::mutex mutex_;
  std::shared_ptr<worker::Places> places_;       // null: it has ended
  std::set<std::pair<int64_t, HostId>> copied_;  // parts that no device of a host shows
  std::string ended_;                            // why; empty: it is kept
};

}  // namespace scalai::executor::live
