// The ways through buffers, on streams that are simulated: an operation happens at some moment after it was put in, in
// the order of its stream and after what it waits for, and no sooner. A missing wait is a wrong byte under some seed.

#include "executor/cuda/staged_copies.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>

#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {
namespace {

struct FakeOperation {
  std::function<bool()> ready = [] { return true; };
  std::function<void()> happen = [] {};
};

// All streams of a test.
struct Scheduler {
  explicit Scheduler(uint64_t seed) : random(seed), haste(random.between(1, 4)) {}
  Random random;
  int64_t haste;  // 1: nothing happens before somebody waits for it
  std::vector<std::deque<FakeOperation>*> streams;

  // One operation that may happen now; false: there is none.
  bool step() {
    std::vector<std::deque<FakeOperation>*> able;
    for (auto* stream : streams) {
      if (!stream->empty() && stream->front().ready()) able.push_back(stream);
    }
    if (able.empty()) return false;
    std::deque<FakeOperation>& stream = *able[static_cast<size_t>(random.below(static_cast<int64_t>(able.size())))];
    const FakeOperation operation = std::move(stream.front());
    stream.pop_front();
    operation.happen();
    return true;
  }
  void some() {
    for (int64_t i = random.below(haste); i > 0; --i) (void)step();
  }
  void until(const std::function<bool()>& done) {
    while (!done()) SCALAI_CHECK(step(), "nothing can happen any more");
  }
};

struct FakeEvent;
struct FakeStream {
  Scheduler* scheduler = nullptr;
  std::deque<FakeOperation> operations;
  void put(FakeOperation operation) {
    operations.push_back(std::move(operation));
    scheduler->some();
  }
  absl::Status wait(const FakeEvent& event);
  absl::Status copy_between_gpus(void* dst, int, const void* src, int, int64_t bytes) {
    put({.happen = [=] { std::memcpy(dst, src, static_cast<size_t>(bytes)); }});
    return {};
  }
};
struct FakeEvent {
  int recorded = 0;
  int passed = 0;
  absl::Status record(FakeStream& stream) {
    stream.put({.happen = [this, nth = ++recorded] { passed = nth; }});
    last = &stream;
    return {};
  }
  absl::Status wait() {
    if (last != nullptr) last->scheduler->until([this, nth = recorded] { return passed >= nth; });
    return {};
  }
  FakeStream* last = nullptr;
};
absl::Status FakeStream::wait(const FakeEvent& event) {
  put({.ready = [&event, nth = event.recorded] { return event.passed >= nth; }});
  return {};
}

struct FakeBuffer {
  std::vector<std::byte> content;
  std::byte* data() { return content.data(); }
  int64_t bytes() const { return static_cast<int64_t>(content.size()); }
};
struct FakeLane {
  struct Half {
    FakeBuffer host, out, in;
    FakeEvent busy, filled;
  };
  FakeLane(Scheduler& scheduler, int number, int64_t room) : number_(number) {
    stream_.scheduler = &scheduler;
    scheduler.streams.push_back(&stream_.operations);
    for (Half& half : halves) {
      for (FakeBuffer* buffer : {&half.host, &half.out, &half.in}) buffer->content.resize(static_cast<size_t>(room));
    }
  }
  FakeLane(const FakeLane&) = delete;
  FakeLane& operator=(const FakeLane&) = delete;
  int gpu() const { return number_; }
  FakeStream& stream() { return stream_; }
  Half& half(size_t chunk) { return halves[chunk % 2]; }
  absl::Status copy(std::span<const device::BoxCopy> copies) {
    stream_.put({.happen = [those = std::vector(copies.begin(), copies.end())] {
      for (const device::BoxCopy& one : those) state::copy_box(one.part, one.src, one.dst);
    }});
    return {};
  }
  absl::Status synchronize() {
    stream_.scheduler->until([this] { return stream_.operations.empty(); });
    return {};
  }
  std::array<Half, 2> halves;

 private:
  FakeStream stream_;
  int number_;
};

// Some boxes from one array to another, and what the target should be.
struct Task {
  explicit Task(Random& random) {
    const tensor::Box box({0, 0}, {random.between(1, 120), random.between(1, 90)});
    part = state::random_box(random, box);
    src = state::random_bytes(random, box.volume() * 4);
    dst = state::random_bytes(random, part.volume() * 2);
    expected = dst;
    copies.push_back({part, {box, tensor::DType::kF32, src.data()}, {part, tensor::DType::kBF16, dst.data()}});
    state::copy_box(part, copies[0].src, {part, tensor::DType::kBF16, expected.data()});
  }
  tensor::Box part;
  std::vector<std::byte> src, dst, expected;
  std::vector<device::BoxCopy> copies;
};

TEST(StagedCopies, UpAndDown) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Scheduler scheduler(seed);
    FakeLane lane(scheduler, 0, kMinChunk);
    std::vector<Task> tasks;
    for (int i = 0; i < 3; ++i) tasks.emplace_back(random);
    ASSERT_OK(copy_up(lane, tasks[0].copies));
    ASSERT_EQ(tasks[0].dst, tasks[0].expected);
    ASSERT_OK(copy_down(lane, tasks[1].copies));
    ASSERT_EQ(tasks[1].dst, tasks[1].expected);
    ASSERT_OK(copy_up(lane, tasks[2].copies));
    ASSERT_EQ(tasks[2].dst, tasks[2].expected);
  }
}

// All ways between three GPUs at once, and inside one.
TEST(StagedCopies, Far) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Scheduler scheduler(seed);
    std::deque<FakeLane> lanes;
    for (int gpu = 0; gpu < 3; ++gpu) lanes.emplace_back(scheduler, gpu, kMinChunk);
    std::deque<Task> tasks;
    for (size_t from = 0; from < 3; ++from) {
      for (size_t to = 0; to < 3; ++to) {
        tasks.emplace_back(random);
        ASSERT_OK(copy_far(lanes[from], lanes[to], tasks.back().copies));
      }
    }
    for (FakeLane& lane : lanes) ASSERT_OK(lane.synchronize());
    for (const Task& task : tasks) ASSERT_EQ(task.dst, task.expected);
  }
}

}  // namespace
}  // namespace scalai::executor::cuda
