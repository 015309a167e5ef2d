#include "ptc/store/datasets/views/readahead.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

// Consecutive bytes that are fetched at one stroke. State, status and taken are guarded by the core's mutex; the bytes
// are written by the one who fetches and may be read by anybody once the state is kReady.
struct Range {
  enum State { kQueued, kFetching, kReady };

  Range(ByteSourcePtr of, int64_t from, int64_t size, std::shared_ptr<std::atomic<int64_t>> held)
      : source(std::move(of)), begin(from), bytes(size), held_(std::move(held)) {
    *held_ += bytes;
  }
  ~Range() { *held_ -= bytes; }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  int64_t end() const { return begin + bytes; }

  ByteSourcePtr source;
  int64_t begin;
  int64_t bytes;
  State state = kQueued;
  absl::Status status;
  int64_t taken = 0;
  std::unique_ptr<std::byte[]> data;

 private:
  std::shared_ptr<std::atomic<int64_t>> held_;
};
using RangePtr = std::shared_ptr<Range>;

}  // namespace

struct ReadAhead::Core {
  explicit Core(const ReadAheadOptions& with) : options(with) {}

  void work();                                                    // what a thread does until stop()
  void stop();                                                    // from the owner's thread
  void fetch(Range&);                                             // without the mutex; the caller has set kFetching
  void drop(const RangePtr& range) { std::erase(queue, range); }  // with the mutex

  const ReadAheadOptions options;
  const std::shared_ptr<std::atomic<int64_t>> held = std::make_shared<std::atomic<int64_t>>(0);
  std::mutex mutex;
  std::condition_variable queued, fetched;
  std::deque<RangePtr> queue;
  bool stopped = false;
  std::vector<std::thread> threads;
};

void ReadAhead::Core::fetch(Range& range) {
  std::unique_ptr<std::byte[]> data;
  absl::Status status;
  try {
    data = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(range.bytes));
    status = range.source->read(range.begin, {data.get(), static_cast<size_t>(range.bytes)});
  } catch (const std::exception& error) {  // no memory; it would end the process, or leave readers waiting
    status = absl::ResourceExhaustedError(fmt::format("{}: reading ahead: {}", range.source->name(), error.what()));
  }
  {
    const std::lock_guard lock(mutex);
    range.data = std::move(data);
    range.status = std::move(status);
    range.state = Range::kReady;
  }
  fetched.notify_all();
}

void ReadAhead::Core::work() {
  while (true) {
    RangePtr range;  // let go without the mutex: it may be the last owner of a source
    {
      std::unique_lock lock(mutex);
      queued.wait(lock, [&] { return stopped || !queue.empty(); });
      if (stopped) return;
      range = std::move(queue.front());
      queue.pop_front();
      range->state = Range::kFetching;
    }
    fetch(*range);
  }
}

void ReadAhead::Core::stop() {
  std::deque<RangePtr> dropped;
  {
    const std::lock_guard lock(mutex);
    stopped = true;
    dropped.swap(queue);
  }
  queued.notify_all();
  for (std::thread& thread : threads) thread.join();
}

namespace {

class Wrapped final : public ByteSource {
 public:
  Wrapped(ByteSourcePtr source, std::shared_ptr<ReadAhead::Core> core)
      : source_(std::move(source)), core_(std::move(core)) {}
  ~Wrapped() override;
  Wrapped(const Wrapped&) = delete;
  Wrapped& operator=(const Wrapped&) = delete;

  const std::string& name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

 private:
  // Those with `_locked` run with the core's mutex.
  void follow_locked(int64_t offset, int64_t end) const;
  void schedule_locked() const;
  void forget_locked(int64_t until) const;  // ranges that end there or before
  RangePtr range_at_locked(int64_t offset, int64_t* gap_end) const;
  absl::Status take(const RangePtr& range, int64_t offset, std::span<std::byte> dst) const;

  ByteSourcePtr source_;
  std::shared_ptr<ReadAhead::Core> core_;
  mutable std::list<RangePtr> ranges_;  // rising, disjoint
  mutable int64_t next_ = 0;            // where the reader will go on
  mutable int64_t planned_ = 0;         // where the last range ends, or the reader where it is further
  mutable int64_t window_ = 0;          // 0: the last read was a jump
  mutable int64_t grown_at_ = 0;        // next_ when the window grew last
};

Wrapped::~Wrapped() {
  const std::lock_guard lock(core_->mutex);
  forget_locked(source_->size());
}

void Wrapped::forget_locked(int64_t until) const {
  ranges_.remove_if([&](const RangePtr& range) {
    if (range->end() > until) return false;
    if (range->state == Range::kQueued) core_->drop(range);
    return true;
  });
}

void Wrapped::follow_locked(int64_t offset, int64_t end) const {
  const ReadAheadOptions& options = core_->options;
  const bool sequential = offset >= next_ - window_ && offset <= next_ + window_;
  if (!sequential) {
    forget_locked(source_->size());
    window_ = 0;
    next_ = planned_ = end;
    return;
  }
  next_ = std::max(next_, end);
  if (window_ == 0) {
    window_ = std::min(options.first_window, options.largest_window);
    grown_at_ = next_;
  } else if (next_ - grown_at_ >= window_) {
    window_ = std::min(2 * window_, options.largest_window);
    grown_at_ = next_;
  }
  planned_ = std::max(planned_, next_);
  schedule_locked();
}

// Only whole fetches, so that small reads do not become small ones; a window is at least two.
void Wrapped::schedule_locked() const {
  const ReadAheadOptions& options = core_->options;
  const int64_t fetch = std::min(options.largest_fetch, std::max<int64_t>(window_ / 2, 1));
  while (!core_->stopped && planned_ < source_->size()) {
    const int64_t end = std::min(planned_ + fetch, source_->size());
    if (end > next_ + window_ || *core_->held + (end - planned_) > options.memory_bytes) return;
    ranges_.push_back(std::make_shared<Range>(source_, planned_, end - planned_, core_->held));
    core_->queue.push_back(ranges_.back());
    core_->queued.notify_one();
    planned_ = end;
  }
}

// The range that has the byte; without one, where the next range begins (if before *gap_end).
RangePtr Wrapped::range_at_locked(int64_t offset, int64_t* gap_end) const {
  for (const RangePtr& range : ranges_) {
    if (range->end() <= offset) continue;
    if (range->begin <= offset) return range;
    *gap_end = std::min(*gap_end, range->begin);
    break;
  }
  return nullptr;
}

absl::Status Wrapped::take(const RangePtr& range, int64_t offset, std::span<std::byte> dst) const {
  std::unique_lock lock(core_->mutex);
  if (range->state == Range::kQueued) {  // nobody began: rather now than after what others wait for
    core_->drop(range);
    range->state = Range::kFetching;
    lock.unlock();
    core_->fetch(*range);
    lock.lock();
  }
  core_->fetched.wait(lock, [&] { return range->state == Range::kReady; });
  if (!range->status.ok()) {
    ranges_.remove(range);
    window_ = 0;
    return range->status;
  }
  lock.unlock();
  std::memcpy(dst.data(), range->data.get() + (offset - range->begin), dst.size());
  lock.lock();
  range->taken += static_cast<int64_t>(dst.size());
  if (range->taken >= range->bytes) ranges_.remove(range);
  return absl::OkStatus();
}

absl::Status Wrapped::read(int64_t offset, std::span<std::byte> dst) const {
  const int64_t end = offset + static_cast<int64_t>(dst.size());
  SCALAI_CHECK(offset >= 0 && end <= source_->size(), source_->name());
  {
    const std::lock_guard lock(core_->mutex);
    follow_locked(offset, end);
    forget_locked(std::min(offset, next_ - window_));  // what late reads may still want stays for a window
  }
  for (int64_t at = offset; at < end;) {
    int64_t part_end = end;
    RangePtr range;
    {
      const std::lock_guard lock(core_->mutex);
      range = range_at_locked(at, &part_end);
    }
    if (range != nullptr) part_end = std::min(end, range->end());
    const std::span<std::byte> part = dst.subspan(static_cast<size_t>(at - offset), static_cast<size_t>(part_end - at));
    SCALAI_RETURN_IF_ERROR(range != nullptr ? take(range, at, part) : source_->read(at, part));
    at = part_end;
  }
  return absl::OkStatus();
}

}  // namespace

ReadAhead::ReadAhead(const ReadAheadOptions& options) : core_(std::make_shared<Core>(options)) {
  SCALAI_CHECK(options.threads > 0 && options.first_window > 0 && options.largest_fetch > 0);
  for (int i = 0; i < options.threads; ++i) core_->threads.emplace_back([core = core_.get()] { core->work(); });
}

ReadAhead::~ReadAhead() { core_->stop(); }

ByteSourcePtr ReadAhead::wrap(ByteSourcePtr source) const {
  return std::make_shared<Wrapped>(std::move(source), core_);
}

int64_t ReadAhead::held_bytes() const { return *core_->held; }

}  // namespace scalai::datasets
