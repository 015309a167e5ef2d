#include "executor/device/backend.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "executor/state/testing/support.h"
#include "ptc/base/random.h"

namespace scalai::executor::device {

using state::value_or_die;

namespace {

const state::SegmentOptions kSmall = {.capacity = int64_t{1} << 24};

state::Target target_of(const tensor::Box& box, std::vector<float>& memory) {
  memory.resize(static_cast<size_t>(box.volume()));
  return {box, tensor::DType::kF32, reinterpret_cast<std::byte*>(memory.data())};
}

TEST(HostBackend, LikeAGpuItIsMappedByThoseWhoAreGivenIt) {
  const std::unique_ptr<Backend> backend = make_host_backend({.devices_per_gpu = 1});
  const auto memory = value_or_die(backend->memory_of_device(0, {.capacity = int64_t{1} << 20}));
  EXPECT_EQ(memory->address().fd, -1);
  const uint64_t offset = value_or_die(memory->allocate(100));
  const state::SharedPart part = value_or_die(memory->share(offset));
  void* const mapped =
      ::mmap(nullptr, static_cast<size_t>(part.bytes), PROT_READ | PROT_WRITE, MAP_SHARED, part.descriptor.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  static_cast<char*>(mapped)[offset - part.offset + 7] = 'x';
  EXPECT_EQ(memory->data(offset)[7], std::byte{'x'});
  ::munmap(mapped, static_cast<size_t>(part.bytes));
  const auto open = value_or_die(make_host_backend()->memory_of_device(0, {.capacity = int64_t{1} << 20}));
  EXPECT_FALSE(open->share(value_or_die(open->allocate(100))).ok()) << "it has an address";
}

TEST(HostBackend, DoesWholeBatches) {
  for (const int threads : {1, 3}) {
    const std::unique_ptr<Backend> backend = make_host_backend({.threads = threads});
    const tensor::Box whole({0, 0}, {40, 30});
    const tensor::Shape shape = {40, 30};
    std::vector<float> from, to;
    const state::Target src = target_of(whole, from), dst = target_of(whole, to);
    std::vector<BoxFill> fills;
    std::vector<BoxCopy> copies;
    std::vector<BoxCheck> checks;
    std::vector<BoxHash> hashes;
    for (int64_t row = 0; row < 40; ++row) {
      const tensor::Box part({row, row / 4}, {row + 1, 30 - row / 4});
      fills.push_back({{{7}, shape, row}, part, src});
      copies.push_back({part, src.source(), dst});
      checks.push_back({{{7}, shape, row}, part, dst.source()});
      hashes.push_back({part, dst.source()});
    }
    ASSERT_TRUE(backend->fill(fills).ok());
    ASSERT_TRUE(backend->copy(copies).ok());
    const auto right = backend->check(checks).value();
    for (const auto& one : right) EXPECT_FALSE(one.has_value());
    const std::vector<uint64_t> digests = backend->hash(hashes).value();
    ASSERT_EQ(digests.size(), hashes.size());
    for (size_t i = 0; i < digests.size(); ++i) EXPECT_EQ(digests[i], state::box_digest(src.source(), hashes[i].part));
    to[30 * 12 + 9] += 1;
    const auto found = backend->check(checks).value();
    for (size_t row = 0; row < found.size(); ++row) EXPECT_EQ(found[row].has_value(), row == 12) << row;
    EXPECT_EQ(found[12]->index[1], 9);
  }
}

TEST(HostBackend, DevicesAreMappedByOthersOrPrivateAsGpus) {
  const std::unique_ptr<Backend> open = make_host_backend(), closed = make_host_backend({.devices_per_gpu = 2});
  const auto mapped = open->memory_of_device(3, kSmall).value();
  EXPECT_EQ(mapped->address().pid, getpid());
  EXPECT_GE(mapped->address().fd, 0);
  EXPECT_EQ(open->gpu_of_device(3), -1);
  EXPECT_TRUE(open->in_host_memory() && closed->in_host_memory());
  const auto hidden = closed->memory_of_device(3, kSmall).value();
  EXPECT_EQ(hidden->address().fd, -1);
  EXPECT_EQ(closed->gpu_of_device(3), 1);
  EXPECT_EQ(closed->gpu_of_device(1), 0);
  const uint64_t offset = hidden->allocate(100).value();
  EXPECT_EQ(*hidden->data(offset), std::byte{0});
}

TEST(HostBackend, QueuesAreDoneAtOnce) {
  const std::unique_ptr<Backend> backend = make_host_backend();
  const auto queue = backend->queue(0).value();
  const auto staging = backend->staging(0, 400).value();
  ASSERT_EQ(staging->bytes(), 400);
  const tensor::Box box({0}, {100});
  std::vector<float> from;
  const state::Target src = target_of(box, from);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  const BoxCopy copy{box, src.source(), {box, tensor::DType::kF32, staging->data()}};
  ASSERT_TRUE(queue->copy({&copy, 1}).ok());
  const auto mark = queue->mark().value();
  EXPECT_TRUE(mark->query().value());
  EXPECT_TRUE(queue->wait(*mark).ok());
  EXPECT_TRUE(std::ranges::equal(std::span(staging->data(), 400), std::as_bytes(std::span(from).first(100))));
  EXPECT_EQ(queue->stream(), nullptr);
}

}  // namespace
}  // namespace scalai::executor::device
