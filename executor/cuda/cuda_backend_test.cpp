// The back end, held against the host's functions.

#include "executor/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "executor/cuda/chunked_memory.h"
#include "executor/cuda/testing/gpu.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "executor/state/store.h"

namespace scalai::executor::cuda {

using device::Backend;
using device::BoxCopy;
using state::value_or_die;
using tensor::Box;
using tensor::DType;

namespace {
using CudaBackendTest = OnGpu;

// Bytes in one place, and what they should be. Each begins at a multiple of 16.
struct Arena {
  enum Place { kHostPlace, kPinnedPlace, kDevice0, kDevice1 };
  static constexpr int64_t kBytes = 6 * kMiB;

  Place place = kHostPlace;
  int gpu = 0;
  std::byte* data = nullptr;
  std::vector<std::byte> mirror;

  std::vector<std::byte> host;
  PinnedBuffer pinned;
  std::unique_ptr<state::Memory> memory;
  std::optional<uint64_t> before;  // an allocation that fills the device
  int64_t used = 0;

  // Room for so many bytes, at any alignment; null: there is none.
  std::byte* take(Random& random, int64_t bytes) {
    const int64_t at = used + random.below(40);
    if (at + bytes > kBytes) return nullptr;
    used = at + bytes;
    return data + at;
  }
  std::byte* mirrored(const std::byte* at) { return mirror.data() + (at - data); }
  void load() {
    if (place == kHostPlace || place == kPinnedPlace) {
      std::memcpy(data, mirror.data(), mirror.size());
    } else {
      put(data, mirror, gpu);
    }
  }
  void expect_mirrored() const {
    const bool on_host = place == kHostPlace || place == kPinnedPlace;  // not overflow: that is the GPU's to all
    const std::vector<std::byte> seen = on_host ? std::vector(data, data + kBytes) : get(data, kBytes, gpu);
    const auto wrong = std::mismatch(seen.begin(), seen.end(), mirror.begin()).first - seen.begin();
    EXPECT_EQ(wrong, kBytes) << "first wrong byte, in place " << place;
  }
};

// Which devices kDevice0 and kDevice1 are, and what memory they have.
struct Devices {
  int first = 0;
  int second = 1;
  state::SegmentOptions memory = {.capacity = 64 * kMiB, .leave_free = 0};
  int64_t taken = 0;  // before the arena: where that leaves too little, a part of it overflows
};

std::unique_ptr<Arena> make_arena(Backend& backend, Random& random, Arena::Place place, const Devices& devices = {}) {
  auto arena = std::make_unique<Arena>();
  arena->place = place;
  arena->mirror = state::random_bytes(random, Arena::kBytes);
  if (place == Arena::kHostPlace) {
    arena->host.resize(Arena::kBytes + 16);
    arena->data = arena->host.data();
    while (reinterpret_cast<uintptr_t>(arena->data) % 16 != 0) ++arena->data;
  } else if (place == Arena::kPinnedPlace) {
    arena->pinned = value_or_die(PinnedBuffer::create(Arena::kBytes));
    arena->data = arena->pinned.data();
  } else {
    const int device = place == Arena::kDevice0 ? devices.first : devices.second;
    arena->gpu = backend.gpu_of_device(device);
    arena->memory = value_or_die(backend.memory_of_device(device, devices.memory));
    if (devices.taken > 0) arena->before = value_or_die(arena->memory->allocate(devices.taken));
    arena->data = arena->memory->data(value_or_die(arena->memory->allocate(Arena::kBytes)));
  }
  return arena;
}

constexpr std::array kPlaces = {Arena::kHostPlace, Arena::kPinnedPlace, Arena::kDevice0, Arena::kDevice1};
constexpr std::array kFloats = {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

struct Batch {
  std::vector<std::unique_ptr<Arena>> from, to;
  std::vector<BoxCopy> copies;
};

Box random_whole(Random& random, int64_t most_elements) {
  Box box;
  box.rank = static_cast<int8_t>(random.between(0, tensor::kMaxRank));
  int64_t left = most_elements;
  for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
    box.lo[d] = random.below(3);
    const int64_t extent =
        random.between(1, std::max<int64_t>(1, std::min<int64_t>(left, random.below(2) == 0 ? 8 : 400)));
    box.hi[d] = box.lo[d] + extent;
    left /= extent;
  }
  return box;
}

// Copies from anywhere to anywhere, with and without a change of type, and what they should leave behind. What
// changes its type are numbers; all other bits there are the kernels' own test tries.
Batch random_batch(Backend& backend, Random& random, int count, const Devices& devices = {}) {
  Batch batch;
  for (const Arena::Place place : kPlaces) {
    batch.from.push_back(make_arena(backend, random, place, devices));
    batch.to.push_back(make_arena(backend, random, place, devices));
  }
  for (int i = 0; i < count; ++i) {
    Arena& from = *batch.from[static_cast<size_t>(random.below(4))];
    Arena& to = *batch.to[static_cast<size_t>(random.below(4))];
    const bool cast = random.below(3) == 0;
    const DType src_type = cast ? kFloats[static_cast<size_t>(random.below(6))] : static_cast<DType>(random.below(15));
    const DType dst_type = cast ? kFloats[static_cast<size_t>(random.below(6))] : src_type;
    const Box src_box = random_whole(random, random.below(10) == 0 ? 60000 : 3000);
    const Box part = state::random_box(random, src_box);
    const Box dst_box = random.below(2) == 0 ? part : src_box;
    std::byte* src = from.take(random, src_box.volume() * tensor::size_of(src_type));
    std::byte* dst = to.take(random, dst_box.volume() * tensor::size_of(dst_type));
    if (src == nullptr || dst == nullptr) continue;
    if (cast) {
      state::Content content{state::ContentKey::of("x"),
                             tensor::Shape(std::span(src_box.hi.data(), static_cast<size_t>(src_box.rank))), i};
      state::fill_box(content, src_box, {src_box, src_type, from.mirrored(src)});
    }
    state::copy_box(part, {src_box, src_type, from.mirrored(src)}, {dst_box, dst_type, to.mirrored(dst)});
    batch.copies.push_back({part, {src_box, src_type, src}, {dst_box, dst_type, dst}});
  }
  return batch;
}

// The targets' mirrors hold what should be there already, so the targets themselves begin as something else where a
// copy writes: all bytes of the parts are turned around.
void load(Batch& batch) {
  for (auto& arena : batch.from) arena->load();
  std::vector<std::vector<std::byte>> expected;
  for (auto& arena : batch.to) expected.push_back(arena->mirror);
  for (const BoxCopy& one : batch.copies) {
    for (auto& arena : batch.to) {
      if (one.dst.data < arena->data || one.dst.data >= arena->data + Arena::kBytes) continue;
      std::vector<std::byte> other(static_cast<size_t>(state::packed_bytes(one.part, one.dst.dtype)));
      const state::Target there{one.dst.box, one.dst.dtype, arena->mirrored(one.dst.data)};
      state::pack_box(one.part, there.source(), one.dst.dtype, other.data());
      for (std::byte& byte : other) byte = ~byte;
      state::unpack_box(one.part, one.dst.dtype, other.data(), there);
    }
  }
  for (size_t i = 0; i < batch.to.size(); ++i) {
    batch.to[i]->load();
    batch.to[i]->mirror = expected[i];
  }
}

void expect_right(const Batch& batch) {
  for (const auto& arena : batch.from) arena->expect_mirrored();
  for (const auto& arena : batch.to) arena->expect_mirrored();
}

std::unique_ptr<Backend> backend_of(const CudaOptions& options) { return value_or_die(make_cuda_backend(options)); }

TEST_F(CudaBackendTest, CopiesOfAllWays) {
  // Little staging, so that the batches take many chunks.
  const std::unique_ptr<Backend> backend = backend_of({.devices = 2, .devices_per_gpu = 2, .staging_bytes = 256 << 10});
  for (uint64_t seed = 100; seed < 108; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Batch batch = random_batch(*backend, random, 400);
    load(batch);
    ASSERT_OK(backend->copy(batch.copies));
    expect_right(batch);
  }
}

TEST_F(CudaBackendTest, CopiesThroughBuffersOnly) {
  const std::unique_ptr<Backend> backend =
      backend_of({.devices = 2, .devices_per_gpu = 2, .staging_bytes = 256 << 10, .stage_all = true});
  for (uint64_t seed = 200; seed < 204; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Batch batch = random_batch(*backend, random, 400);
    load(batch);
    ASSERT_OK(backend->copy(batch.copies));
    expect_right(batch);
  }
}

TEST_F(CudaBackendTest, CopiesBetweenGpus) {
  const int gpus = value_or_die(gpu_count());
  if (gpus < 2) GTEST_SKIP() << "there is one GPU";
  const std::unique_ptr<Backend> backend = backend_of({.devices = gpus, .staging_bytes = 256 << 10});
  uint64_t seed = 250;
  for (int first = 0; first < gpus; ++first) {
    for (int second = 0; second < first; ++second) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", GPUs " << first << " and " << second);
      Random random(seed++);
      Batch batch = random_batch(*backend, random, 400, {first, second});
      load(batch);
      ASSERT_OK(backend->copy(batch.copies));
      expect_right(batch);
    }
  }
}

// Half of each device's arena lies in host memory; nobody sees a difference, and none when it has gone back.
TEST_F(CudaBackendTest, CopiesOfWhatOverflowed) {
  const int gpus = value_or_die(gpu_count());
  const std::unique_ptr<Backend> backend =
      backend_of({.devices = 2 * gpus, .devices_per_gpu = 2, .staging_bytes = 256 << 10});
  state::SegmentOptions options{.capacity = 64 * kMiB, .limit = 8 * kMiB, .leave_free = 0, .host_overflow = 32 * kMiB};
  const auto can = backend->memory_of_device(0, options);
  if (absl::IsNotFound(can.status())) GTEST_SKIP() << message_of(can.status());
  uint64_t seed = 270;
  for (int second = 1; second < 2 * gpus; second += second == 1 ? 1 : 2) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", devices 0 and " << second);
    Random random(seed++);
    Batch batch =
        random_batch(*backend, random, 400, {.first = 0, .second = second, .memory = options, .taken = 4 * kMiB});
    load(batch);
    ASSERT_OK(backend->copy(batch.copies));
    expect_right(batch);
    for (auto* arenas : {&batch.from, &batch.to}) {
      for (auto& arena : *arenas) {
        if (!arena->before) continue;
        auto& memory = static_cast<ChunkedMemory&>(*arena->memory);
        EXPECT_EQ(memory.bytes_on_host(), 2 * kMiB);
        memory.free(*arena->before);
        ASSERT_OK(memory.settle());
        EXPECT_EQ(memory.bytes_on_host(), 0);
        EXPECT_EQ(memory.bytes_held(), Arena::kBytes);
      }
    }
    expect_right(batch);
  }
}

// More boxes than the descriptors of one launch, and one box that is larger than the staging.
TEST_F(CudaBackendTest, ManyBoxesAndLargeOnes) {
  const std::unique_ptr<Backend> backend = backend_of({.devices = 1, .staging_bytes = kMiB});
  Random random(300);
  const std::unique_ptr<state::Memory> memory = value_or_die(backend->memory_of_device(0, {.capacity = 1024 * kMiB}));
  const Box whole({0, 0}, {4096, 8192});
  std::vector<std::byte> bytes = state::random_bytes(random, whole.volume());
  std::byte* device = memory->data(value_or_die(memory->allocate(whole.volume())));
  std::byte* turned = memory->data(value_or_die(memory->allocate(whole.volume())));
  const std::array up = {BoxCopy{whole, {whole, DType::kU8, bytes.data()}, {whole, DType::kU8, device}}};
  ASSERT_OK(backend->copy(up));
  EXPECT_EQ(get(device, whole.volume()), bytes);
  // 65536 boxes of 8 × 64, each dense in its place.
  std::vector<BoxCopy> cells;
  for (int64_t row = 0; row < 4096; row += 8) {
    for (int64_t column = 0; column < 8192; column += 64) {
      const Box cell({row, column}, {row + 8, column + 64});
      cells.push_back(
          {cell, {whole, DType::kU8, device}, {cell, DType::kU8, turned + 512 * static_cast<int64_t>(cells.size())}});
    }
  }
  ASSERT_OK(backend->copy(cells));
  std::vector<std::byte> expected(bytes.size());
  for (const BoxCopy& one : cells) {
    state::copy_box(one.part, {whole, DType::kU8, bytes.data()},
                    {one.part, DType::kU8, expected.data() + (one.dst.data - turned)});
  }
  EXPECT_EQ(get(turned, whole.volume()), expected);
  std::vector<std::byte> back(bytes.size());
  const std::array down = {BoxCopy{whole, {whole, DType::kU8, turned}, {whole, DType::kU8, back.data()}}};
  ASSERT_OK(backend->copy(down));
  EXPECT_EQ(back, expected);
}

TEST_F(CudaBackendTest, FillCheckAndHashLikeTheHost) {
  const std::unique_ptr<Backend> backend = backend_of({.devices = 2, .devices_per_gpu = 2});
  const uint64_t seed = 400;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  std::vector<std::unique_ptr<Arena>> arenas;
  for (const Arena::Place place : kPlaces) arenas.push_back(make_arena(*backend, random, place));
  for (auto& arena : arenas) arena->load();
  std::vector<device::BoxFill> fills;
  std::vector<device::BoxCheck> checks, host_checks;
  std::vector<device::BoxHash> hashes, host_hashes;
  std::vector<Arena*> arena_of;
  for (int i = 0; i < 400; ++i) {
    Arena& arena = *arenas[static_cast<size_t>(random.below(4))];
    const auto dtype = static_cast<DType>(random.below(15));
    const Box box = random_whole(random, random.below(10) == 0 ? 60000 : 3000);
    state::Content content{state::ContentKey::of("layer." + std::to_string(i % 7)), {}, random.below(1000)};
    std::array<int64_t, tensor::kMaxRank> shape{};
    for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) shape[d] = box.hi[d] + random.below(1000);
    content.shape = tensor::Shape(std::span(shape.data(), static_cast<size_t>(box.rank)));
    if (random.below(3) == 0) content.via = kFloats[static_cast<size_t>(random.below(6))];
    const Box part = state::random_box(random, box);
    std::byte* at = arena.take(random, box.volume() * tensor::size_of(dtype));
    if (at == nullptr) continue;
    fills.push_back({content, part, {box, dtype, at}});
    checks.push_back({content, part, {box, dtype, at}});
    host_checks.push_back({content, part, {box, dtype, arena.mirrored(at)}});
    hashes.push_back({part, {box, dtype, at}});
    host_hashes.push_back({part, {box, dtype, arena.mirrored(at)}});
    arena_of.push_back(&arena);
    state::fill_box(content, part, {box, dtype, arena.mirrored(at)});
  }
  ASSERT_OK(backend->fill(fills));
  for (const auto& arena : arenas) arena->expect_mirrored();
  for (const auto& mismatch : value_or_die(backend->check(checks))) EXPECT_FALSE(mismatch) << mismatch->str();

  // Some elements are made wrong, on both sides alike.
  for (size_t i = 0; i < checks.size(); i += 3) {
    for (int64_t n = random.between(1, 3); n > 0; --n) {
      const state::Index index =
          state::indices_of(checks[i].part)[static_cast<size_t>(random.below(checks[i].part.volume()))];
      const int64_t at = state::position_in(checks[i].src.box, index) * tensor::size_of(checks[i].src.dtype);
      const auto byte = static_cast<int64_t>(host_checks[i].src.data - arena_of[i]->mirror.data()) + at;
      arena_of[i]->mirror[static_cast<size_t>(byte)] ^= std::byte{1};
    }
  }
  for (auto& arena : arenas) arena->load();
  const auto found = value_or_die(backend->check(checks));
  size_t wrong = 0;
  for (size_t i = 0; i < checks.size(); ++i) {
    const std::optional<state::Mismatch> expected =
        state::check_box(host_checks[i].content, host_checks[i].part, host_checks[i].src);
    ASSERT_EQ(found[i].has_value(), expected.has_value()) << i;
    if (!expected) continue;
    EXPECT_EQ(found[i]->str(), expected->str()) << i;
    EXPECT_EQ(found[i]->index, expected->index) << i;
    ++wrong;
  }
  EXPECT_GT(wrong, checks.size() / 5);
  const std::vector<uint64_t> digests = value_or_die(backend->hash(hashes));
  for (size_t i = 0; i < hashes.size(); ++i)
    EXPECT_EQ(digests[i], state::box_digest(host_hashes[i].src, host_hashes[i].part)) << i;
}

TEST_F(CudaBackendTest, EmptyBatchesAndParts) {
  const std::unique_ptr<Backend> backend = backend_of({});
  EXPECT_OK(backend->copy({}));
  EXPECT_OK(backend->fill({}));
  EXPECT_TRUE(value_or_die(backend->check({})).empty());
  EXPECT_TRUE(value_or_die(backend->hash({})).empty());
  const std::unique_ptr<device::Staging> staging = value_or_die(backend->staging(0, 100));
  const Box box({0}, {10});
  const Box none({3}, {3});
  const std::array copies = {
      BoxCopy{none, {box, DType::kU8, staging->data()}, {box, DType::kU8, staging->data() + 50}}};
  EXPECT_OK(backend->copy(copies));
  const std::array hashes = {device::BoxHash{none, {box, DType::kU8, staging->data()}}};
  EXPECT_EQ(value_or_die(backend->hash(hashes)).front(), state::box_digest({box, DType::kU8, nullptr}, none));
}

// A chain over two queues, a lap a copy: each lap reads what the other queue wrote before.
TEST_F(CudaBackendTest, QueuesAndMarks) {
  const std::unique_ptr<Backend> backend = backend_of({.devices = 2, .devices_per_gpu = 2});
  Random random(500);
  const int64_t bytes = 8 * kMiB;
  const Box box({0}, {bytes});
  const std::unique_ptr<device::Queue> queues[2] = {value_or_die(backend->queue(0)), value_or_die(backend->queue(1))};
  const std::unique_ptr<device::Staging> stagings[2] = {value_or_die(backend->staging(0, bytes)),
                                                        value_or_die(backend->staging(1, bytes))};
  EXPECT_NE(queues[0]->stream(), nullptr);
  EXPECT_NE(queues[0]->stream(), queues[1]->stream());
  EXPECT_EQ(backend->gpu_of_device(0), backend->gpu_of_device(1));
  EXPECT_FALSE(backend->in_host_memory());
  const std::vector<std::byte> before = state::random_bytes(random, bytes);
  put(stagings[0]->data(), before);
  std::unique_ptr<device::Mark> last;
  for (size_t lap = 0; lap < 41; ++lap) {
    const device::Staging& from = *stagings[lap % 2];
    const device::Staging& to = *stagings[(lap + 1) % 2];
    // One byte fewer each lap: what lies behind stays as it was.
    const Box part({0}, {bytes - static_cast<int64_t>(lap)});
    const std::array copies = {BoxCopy{part, {box, DType::kU8, from.data()}, {box, DType::kU8, to.data()}}};
    if (last) {
      ASSERT_OK(queues[lap % 2]->wait(*last));
    }
    ASSERT_OK(queues[lap % 2]->copy(copies));
    last = value_or_die(queues[lap % 2]->mark());
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!value_or_die(last->query())) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  EXPECT_EQ(get(stagings[1]->data(), bytes - 40), std::vector<std::byte>(before.begin(), before.end() - 40));
}

TEST_F(CudaBackendTest, ManyThreadsAtOnce) {
  const std::unique_ptr<Backend> backend = backend_of({.devices = 2, .devices_per_gpu = 2, .staging_bytes = 256 << 10});
  std::vector<Batch> batches(6);
  for (size_t i = 0; i < batches.size(); ++i) {
    Random random(600 + i);
    batches[i] = random_batch(*backend, random, 200);
    load(batches[i]);
  }
  std::vector<absl::Status> status(batches.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < batches.size(); ++i) {
    threads.emplace_back([&, i] { status[i] = backend->copy(batches[i].copies); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < batches.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << 600 + i);
    EXPECT_OK(status[i]);
    expect_right(batches[i]);
  }
}

TEST_F(CudaBackendTest, AStoreOnTheGpu) {
  const std::unique_ptr<Backend> backend = backend_of({});
  state::Store store(value_or_die(backend->memory_of_device(0, {.capacity = 1024 * kMiB, .limit = 64 * kMiB})));
  EXPECT_EQ(store.address().fd, -1);
  ASSERT_OK(store.reserve(48 * kMiB));
  const state::VersionKey old_version{1, state::StateVersion::epoch(0)}, new_version{1, state::StateVersion::epoch(1)};
  const tensor::Shape shape{4096, 2048};
  const Box whole = Box::whole(shape);
  const state::Target target = value_or_die(store.add(old_version, TensorId{3}, whole, DType::kBF16));
  const state::Content content{state::ContentKey::of("w"), shape, 5};
  const std::array fills = {device::BoxFill{content, whole, target}};
  ASSERT_OK(backend->fill(fills));
  // The next version keeps the upper half and gives the lower half's memory back early.
  const Box upper({0, 0}, {2048, 2048});
  const Box lower({2048, 0}, {4096, 2048});
  ASSERT_OK(store.keep(old_version, new_version.version, TensorId{3}, upper));
  ASSERT_OK(store.publish(new_version));
  const int64_t before = store.bytes_in_use();
  const std::array gone = {state::TensorBox{TensorId{3}, lower}};
  ASSERT_OK(store.give_back(old_version, gone));
  EXPECT_EQ(store.bytes_in_use(), before - 8 * kMiB);
  store.drop(old_version);
  const std::vector<state::Piece> pieces = store.find(new_version, TensorId{3}, upper);
  ASSERT_EQ(pieces.size(), 1u);
  const std::array checks = {device::BoxCheck{content, upper, pieces[0].source(store.base())}};
  EXPECT_FALSE(value_or_die(backend->check(checks)).front());
  EXPECT_EQ(store.add(new_version, TensorId{4}, Box({0}, {128 * kMiB}), DType::kU8).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaBackendTest, TooFewGpusAndBadOptions) {
  const absl::Status few = make_cuda_backend({.devices = 4000, .devices_per_gpu = 2}).status();
  EXPECT_EQ(few.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(few), testing::HasSubstr("need 2000 GPUs, and this process sees"));
  EXPECT_EQ(make_cuda_backend({.devices = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(backend_of({.devices = 2, .devices_per_gpu = 2})->name(), testing::StartsWith("cuda: "));
}

}  // namespace
}  // namespace scalai::executor::cuda
