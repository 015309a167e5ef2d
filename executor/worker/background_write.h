#pragma once
// The files of some ranks of a checkpoint, written at once, or by a thread beside other commands: then from a copy of
// their state, which is made first.
//
//   write_ranks ───────────────────────────────────────► Written
//   BackgroundWrite::begin ── copy ──► thread ── poll ──► Written

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"

namespace scalai::executor::worker {

// Reads a box of a rank's state, dense and row-major. Any thread.
using ReadState =
    std::function<absl::Status(LogicalRank rank, TensorId tensor, const tensor::Box& box, std::byte* dst)>;

struct Written {
  std::vector<std::string> parts;  // of the checkpoint's manifest
  int64_t bytes = 0;               // of state
};

// Errors: those of `read` and of Writer::write_rank.
absl::StatusOr<Written> write_ranks(const store::Writer& writer, const std::vector<int>& ranks, const ReadState& read);

// begin(), poll() and the destructor by one thread.
class BackgroundWrite {
 public:
  // Copies the state of the ranks with up to `threads` threads, and starts to write it. If that copy would take more
  // than half of `memory`, the bytes that are free, it writes from the state itself, and is done when this returns.
  // Errors: those of `read`.
  static absl::StatusOr<std::unique_ptr<BackgroundWrite>> begin(store::Writer writer, std::vector<int> ranks,
                                                                const ReadState& read, int threads, int64_t memory);
  ~BackgroundWrite();  // waits until it is written
  BackgroundWrite(const BackgroundWrite&) = delete;
  BackgroundWrite& operator=(const BackgroundWrite&) = delete;

  // nullopt: it is being written. Errors: those of write_ranks.
  std::optional<absl::StatusOr<Written>> poll() const;

 private:
  BackgroundWrite(store::Writer writer, std::vector<int> ranks);
  absl::Status copy(const ReadState& read, int threads);
  absl::StatusOr<Written> write_copies() const;

  const store::Writer writer_;
  const std::vector<int> ranks_;
  struct Copy {  // of a rank's state
    std::vector<store::OwnedBox> boxes;
    std::unique_ptr<std::byte[]> bytes;  // of these boxes, one after the other
  };
  std::vector<Copy> copies_;  // by rank; none after it was written
  mutable std::mutex mutex_;  // guards result_
  std::optional<absl::StatusOr<Written>> result_;
  std::thread thread_;
};

}  // namespace scalai::executor::worker
