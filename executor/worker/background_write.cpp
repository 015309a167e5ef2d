#include "executor/worker/background_write.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::executor::worker {

using store::OwnedBox;
using tensor::Box;

absl::StatusOr<Written> write_ranks(const store::Writer& writer, const std::vector<int>& ranks, const ReadState& read) {
  Written written;
  std::vector<std::byte> bytes;
  for (const int number : ranks) {
    const LogicalRank rank(number);
    const auto provide = [&](TensorId tensor, const Box& box) -> absl::StatusOr<std::span<const std::byte>> {
      bytes.resize(static_cast<size_t>(writer.box_bytes({tensor, box})));
      SCALAI_RETURN_IF_ERROR(read(rank, tensor, box, bytes.data()));
      return std::span<const std::byte>(bytes);
    };
    SCALAI_ASSIGN_OR_RETURN(std::string part, writer.write_rank(rank, provide));
    written.parts.push_back(std::move(part));
    written.bytes += writer.state_bytes(rank);
  }
  return written;
}

BackgroundWrite::BackgroundWrite(store::Writer writer, std::vector<int> ranks)
    : writer_(std::move(writer)), ranks_(std::move(ranks)) {}

BackgroundWrite::~BackgroundWrite() {
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::unique_ptr<BackgroundWrite>> BackgroundWrite::begin(store::Writer writer, std::vector<int> ranks,
                                                                        const ReadState& read, int threads,
                                                                        int64_t memory) {
  std::unique_ptr<BackgroundWrite> one(new BackgroundWrite(std::move(writer), std::move(ranks)));
  int64_t bytes = 0;
  for (const int rank : one->ranks_) bytes += one->writer_.state_bytes(LogicalRank(rank));
  if (bytes > memory / 2) {
    one->result_ = write_ranks(one->writer_, one->ranks_, read);
    return one;
  }
  SCALAI_RETURN_IF_ERROR(one->copy(read, threads));
  const auto work = [self = one.get()] {
    absl::StatusOr<Written> written = self->write_copies();
    self->copies_.clear();
    const std::lock_guard lock(self->mutex_);
    self->result_ = std::move(written);
  };
  std::vector<std::thread> started = start_threads(1, work);
  if (started.empty()) {
    work();
  } else {
    one->thread_ = std::move(started.front());
  }
  return one;
}

absl::Status BackgroundWrite::copy(const ReadState& read, int threads) {
  copies_.resize(ranks_.size());
  return try_parallel_for(threads, ranks_.size(), [&](size_t i) -> absl::Status {
    const LogicalRank rank(ranks_[i]);
    Copy& copy = copies_[i];
    SCALAI_ASSIGN_OR_RETURN(copy.boxes, writer_.boxes_of(rank));
    copy.bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(writer_.state_bytes(rank)));
    std::byte* dst = copy.bytes.get();
    for (const OwnedBox& owned : copy.boxes) {
      SCALAI_RETURN_IF_ERROR(read(rank, owned.tensor, owned.box, dst));
      dst += writer_.box_bytes(owned);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Written> BackgroundWrite::write_copies() const {
  Written written;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const LogicalRank rank(ranks_[i]);
    const std::byte* next = copies_[i].bytes.get();
    auto expected = copies_[i].boxes.begin();
    const auto provide = [&](TensorId tensor, const Box& box) -> absl::StatusOr<std::span<const std::byte>> {
      const OwnedBox asked{tensor, box};
      SCALAI_CHECK(expected != copies_[i].boxes.end() && *expected++ == asked, box.str());
      const auto bytes = static_cast<size_t>(writer_.box_bytes(asked));
      return std::span(std::exchange(next, next + bytes), bytes);
    };
    SCALAI_ASSIGN_OR_RETURN(std::string part, writer_.write_rank(rank, provide));
    written.parts.push_back(std::move(part));
    written.bytes += writer_.state_bytes(rank);
  }
  return written;
}

std::optional<absl::StatusOr<Written>> BackgroundWrite::poll() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

}  // namespace scalai::executor::worker
