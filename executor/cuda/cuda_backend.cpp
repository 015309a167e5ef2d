#include "executor/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "executor/cuda/address_map.h"
#include "executor/cuda/chunked_memory.h"
#include "executor/cuda/cuda_memory.h"
#include "executor/cuda/lane.h"
#include "executor/cuda/routes.h"
#include "executor/cuda/runtime.h"
#include "executor/cuda/stage_plan.h"
#include "executor/cuda/staged_copies.h"
#include "executor/cuda/step_device.h"
#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

using device::BoxCopy;
using state::Mismatch;

namespace {
constexpr int kLanes = 4;  // of a GPU: calls of so many threads go on beside each other
constexpr int kQueueSlots = 16;
constexpr int64_t kQueueSlotBytes = int64_t{256} << 10;

absl::Status both(const absl::Status& first, const absl::Status& second) { return first.ok() ? second : first; }

// The lanes of one GPU, lent one at a time.
class LanePool {
 public:
  void add(std::unique_ptr<Lane> lane) { free_.push_back(std::move(lane)); }
  std::unique_ptr<Lane> take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !free_.empty(); });
    std::unique_ptr<Lane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }
  void give(std::unique_ptr<Lane> lane) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(lane));
    }
    returned_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Lane>> free_;
};

struct Gpu {
  std::string name;
  int multiprocessors = 1;
  std::vector<int> reaches;  // other GPUs of this worker whose memory its kernels reach
  LanePool lanes;
  std::mutex steps_mutex;                    // of `steps`
  std::shared_ptr<transform::Device> steps;  // made when somebody wants it
};

// What the back end and all that came out of it share: it lives as long as the last of them.
struct World {
  CudaOptions options;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::shared_ptr<AddressMap> addresses = std::make_shared<AddressMap>();

  bool reaches(int gpu, int other) const {
    const std::vector<int>& those = gpus[static_cast<size_t>(gpu)]->reaches;
    return gpu == other || std::find(those.begin(), those.end(), other) != those.end();
  }
  int place_of(const std::byte* address) const {
    const int gpu = addresses->gpu_of(address);
    if (gpu != AddressMap::kHost) return gpu;
    return is_pinned(address) ? kPinned : kPageable;
  }
};

// A lane of each of some GPUs, for the length of a call. Taken in the order of the GPUs, so that calls never wait for
// each other in a circle.
class LentLanes {
 public:
  LentLanes(World& world, const std::set<int>& gpus) : world_(world) {
    for (const int gpu : gpus) lanes_[gpu] = world_.gpus[static_cast<size_t>(gpu)]->lanes.take();
  }
  LentLanes(const LentLanes&) = delete;
  LentLanes& operator=(const LentLanes&) = delete;
  // Whatever was put in is done before anybody goes on: also after an error.
  ~LentLanes() {
    (void)synchronize();
    for (auto& [gpu, lane] : lanes_) world_.gpus[static_cast<size_t>(gpu)]->lanes.give(std::move(lane));
  }
  Lane& operator[](int gpu) { return *lanes_.at(gpu); }

  absl::Status synchronize() {
    absl::Status status;
    for (auto& [gpu, lane] : lanes_) status = both(status, lane->synchronize());
    return status;
  }
  // work(lane) for each, on a thread of its own where there are several; the first error in the order of GPUs.
  absl::Status on_each(const std::function<absl::Status(Lane&)>& work) {
    std::vector<Lane*> lanes;
    for (auto& [gpu, lane] : lanes_) lanes.push_back(lane.get());
    std::vector<absl::Status> status(lanes.size());
    absl::Status first = run_concurrently(lanes.size(), [&](size_t i) { status[i] = work(*lanes[i]); });
    for (const absl::Status& one : status) first = both(first, one);
    return first;
  }

 private:
  World& world_;
  std::map<int, std::unique_ptr<Lane>> lanes_;
};

template <class Value>
std::span<const Value> of_gpu(const std::map<int, std::vector<Value>>& sorted, int gpu) {
  const auto found = sorted.find(gpu);
  return found == sorted.end() ? std::span<const Value>() : std::span<const Value>(found->second);
}

// --- queues ----------------------------------------------------------------------------------------------------------

class CudaMark final : public device::Mark {
 public:
  explicit CudaMark(Event event) : event_(std::move(event)) {}
  absl::StatusOr<bool> query() const override { return event_.query(); }
  const Event& event() const { return event_; }

 private:
  Event event_;
};

class CudaQueue final : public device::Queue {
 public:
  CudaQueue(std::shared_ptr<const World> world, std::unique_ptr<Lane> lane)
      : world_(std::move(world)), lane_(std::move(lane)) {}

  absl::Status copy(std::span<const BoxCopy> copies) override {
    for (const BoxCopy& one : copies) {
      if (one.part.empty()) continue;
      SCALAI_RETURN_IF_ERROR(reached(one.src.data));
      SCALAI_RETURN_IF_ERROR(reached(one.dst.data));
    }
    return lane_->copy(copies);
  }
  absl::StatusOr<std::unique_ptr<device::Mark>> mark() override {
    SCALAI_ASSIGN_OR_RETURN(Event event, Event::create(lane_->gpu()));
    SCALAI_RETURN_IF_ERROR(event.record(lane_->stream()));
    return std::make_unique<CudaMark>(std::move(event));
  }
  absl::Status wait(const device::Mark& mark) override {
    const auto* ours = dynamic_cast<const CudaMark*>(&mark);
    SCALAI_CHECK(ours != nullptr, "a mark of another back end");
    return lane_->stream().wait(ours->event());
  }
  void* stream() const override { return lane_->stream().handle(); }

 private:
  absl::Status reached(const std::byte* address) const {
    const int place = world_->place_of(address);
    SCALAI_CHECK(place != kPageable, "a queue copies no pageable host memory");
    if (place == kPinned || world_->reaches(lane_->gpu(), place)) return {};
    return missing(
        fmt::format("GPU {} does not reach the memory of GPU {} (no peer access): see nvidia-smi topo -p2p r",
                    lane_->gpu(), place));
  }

  std::shared_ptr<const World> world_;
  std::unique_ptr<Lane> lane_;
};

class CudaStaging final : public device::Staging {
 public:
  CudaStaging(std::shared_ptr<AddressMap> addresses, DeviceBuffer buffer)
      : addresses_(std::move(addresses)), buffer_(std::move(buffer)) {
    addresses_->add(buffer_.data(), buffer_.bytes(), buffer_.gpu());
  }
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;
  ~CudaStaging() override { addresses_->remove(buffer_.data()); }
  std::byte* data() const override { return buffer_.data(); }
  int64_t bytes() const override { return buffer_.bytes(); }

 private:
  std::shared_ptr<AddressMap> addresses_;
  DeviceBuffer buffer_;
};

// --- the back end ----------------------------------------------------------------------------------------------------

class CudaBackend final : public device::Backend {
 public:
  explicit CudaBackend(std::shared_ptr<World> world) : world_(std::move(world)) {}

  std::string name() const override {
    const CudaOptions& options = world_->options;
    const std::string gpus = fmt::format("cuda: {} × {}", world_->gpus.front()->name, world_->gpus.size());
    if (options.devices_per_gpu == 1) return gpus;
    return fmt::format("{}, {} devices on each", gpus, std::min(options.devices, options.devices_per_gpu));
  }

  absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int device,
                                                                  const state::SegmentOptions& options) override {
    if (device < 0 || device >= world_->options.devices) {
      return missing(
          fmt::format("this process's GPUs have room for {} devices, {} on each, and the scenario wants more "
                      "here: give --devices-per-gpu a larger number, or more GPUs",
                      world_->options.devices, world_->options.devices_per_gpu));
    }
    const int gpu = gpu_of_device(device);
    std::vector<int> reached_by;
    for (int other = 0; other < static_cast<int>(world_->gpus.size()); ++other) {
      if (world_->reaches(other, gpu)) reached_by.push_back(other);
    }
    SCALAI_ASSIGN_OR_RETURN(
        std::unique_ptr<ChunkSource> chunks,
        make_cuda_chunks(gpu, reached_by, world_->addresses, std::min(options.capacity, options.limit)));
    return ChunkedMemory::create(std::move(chunks), options);
  }
  absl::StatusOr<std::shared_ptr<transform::Device>> steps_at(const std::byte* address) override {
    const int gpu = world_->addresses->gpu_of(address);
    if (gpu == AddressMap::kHost) return nullptr;
    Gpu& there = *world_->gpus[static_cast<size_t>(gpu)];
    const std::lock_guard lock(there.steps_mutex);
    if (there.steps == nullptr) {
      SCALAI_ASSIGN_OR_RETURN(there.steps, make_step_device({.gpu = gpu, .addresses = world_->addresses}));
    }
    return there.steps;
  }
  bool in_host_memory() const override { return false; }
  int gpu_of_device(int device) const override {
    SCALAI_CHECK(device >= 0 && device < world_->options.devices, fmt::format("device {}", device));
    return device / world_->options.devices_per_gpu;
  }
  absl::Status make_current(int device) override { return choose_gpu(gpu_of_device(device)); }

  absl::Status copy(std::span<const BoxCopy> copies) override;
  absl::Status fill(std::span<const device::BoxFill> fills) override;
  absl::StatusOr<std::vector<std::optional<Mismatch>>> check(std::span<const device::BoxCheck> checks) override;
  absl::StatusOr<std::vector<uint64_t>> hash(std::span<const device::BoxHash> boxes) override;

  absl::StatusOr<std::unique_ptr<device::Queue>> queue(int device) override {
    const int gpu = gpu_of_device(device);
    SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane,
                            Lane::create({.gpu = gpu,
                                          .multiprocessors = world_->gpus[static_cast<size_t>(gpu)]->multiprocessors,
                                          .slots = kQueueSlots,
                                          .slot_bytes = kQueueSlotBytes}));
    return std::make_unique<CudaQueue>(world_, std::move(lane));
  }
  absl::StatusOr<std::unique_ptr<device::Staging>> staging(int device, int64_t bytes) override {
    SCALAI_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::create(gpu_of_device(device), bytes));
    return std::make_unique<CudaStaging>(world_->addresses, std::move(buffer));
  }

 private:
  template <class Item, class AddressOf>
  std::map<int, std::vector<size_t>> by_gpu(std::span<const Item> items, AddressOf address_of) const {
    return sort_by_place(items.size(), [&](size_t i) { return world_->addresses->gpu_of(address_of(items[i])); });
  }
  // one(lane, indices of the batch) beside each other for each GPU, and on_host(index) for all others.
  absl::Status carry_out(const std::map<int, std::vector<size_t>>& sorted,
                         const std::function<absl::Status(Lane&, const std::vector<size_t>&)>& one,
                         const std::function<void(size_t)>& on_host);

  std::shared_ptr<World> world_;
};

absl::Status CudaBackend::copy(std::span<const BoxCopy> copies) {
  const Routes routes = sort_copies(
      copies, [&](const std::byte* address) { return world_->place_of(address); },
      [&](int gpu, int other) { return world_->reaches(gpu, other); }, world_->options.stage_all);
  LentLanes lanes(*world_, routes.gpus());
  SCALAI_RETURN_IF_ERROR(lanes.on_each([&](Lane& lane) { return lane.copy(of_gpu(routes.direct, lane.gpu())); }));
  for (const auto& [ends, those] : routes.far) {
    SCALAI_RETURN_IF_ERROR(copy_far(lanes[ends.first], lanes[ends.second], those));
  }
  for (const BoxCopy& one : routes.host) state::copy_box(one.part, one.src, one.dst);
  const auto through_pinned = [&](Lane& lane) -> absl::Status {
    SCALAI_RETURN_IF_ERROR(copy_up(lane, of_gpu(routes.up, lane.gpu())));
    return copy_down(lane, of_gpu(routes.down, lane.gpu()));
  };
  SCALAI_RETURN_IF_ERROR(lanes.on_each(through_pinned));
  return lanes.synchronize();
}

absl::Status CudaBackend::carry_out(const std::map<int, std::vector<size_t>>& sorted,
                                    const std::function<absl::Status(Lane&, const std::vector<size_t>&)>& one,
                                    const std::function<void(size_t)>& on_host) {
  std::set<int> gpus;
  for (const auto& [place, indices] : sorted) {
    if (place >= 0) gpus.insert(place);
  }
  LentLanes lanes(*world_, gpus);
  SCALAI_RETURN_IF_ERROR(lanes.on_each([&](Lane& lane) { return one(lane, sorted.at(lane.gpu())); }));
  for (const size_t i : of_gpu(sorted, kPageable)) on_host(i);
  return lanes.synchronize();
}

template <class Item>
std::vector<Item> chosen(std::span<const Item> items, const std::vector<size_t>& indices) {
  std::vector<Item> those;
  those.reserve(indices.size());
  for (const size_t i : indices) those.push_back(items[i]);
  return those;
}

absl::Status CudaBackend::fill(std::span<const device::BoxFill> fills) {
  return carry_out(
      by_gpu(fills, [](const device::BoxFill& one) { return one.dst.data; }),
      [&](Lane& lane, const std::vector<size_t>& indices) { return lane.fill(chosen(fills, indices)); },
      [&](size_t i) { state::fill_box(fills[i].content, fills[i].part, fills[i].dst); });
}

// The GPU says which element; what it is and should be is said by check_box, of that one alone.
absl::StatusOr<std::optional<Mismatch>> mismatch_of(Lane& lane, const device::BoxCheck& check, uint64_t index) {
  const tensor::Box element = kernels::element_box(check.content.shape, static_cast<int64_t>(index));
  std::array<std::byte, Lane::kMaxRead> bytes{};
  SCALAI_RETURN_IF_ERROR(
      lane.read(bytes.data(), kernels::element_address(check.src, element), tensor::size_of(check.src.dtype)));
  std::optional<Mismatch> mismatch = state::check_box(check.content, element, {element, check.src.dtype, bytes.data()});
  if (mismatch) return mismatch;
  return failed(
      fmt::format("GPU {}: element {} of a check was wrong and is right when read again: somebody writes it, or "
                  "the memory is broken",
                  lane.gpu(), element.str()));
}

absl::StatusOr<std::vector<std::optional<Mismatch>>> CudaBackend::check(std::span<const device::BoxCheck> checks) {
  std::vector<std::optional<Mismatch>> found(checks.size());
  const auto on_gpu = [&](Lane& lane, const std::vector<size_t>& indices) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const std::vector<kernels::CheckResult> results, lane.check(chosen(checks, indices)));
    for (size_t i = 0; i < indices.size(); ++i) {
      if (results[i].wrong == 0) continue;
      SCALAI_ASSIGN_OR_RETURN(found[indices[i]], mismatch_of(lane, checks[indices[i]], results[i].first));
    }
    return {};
  };
  SCALAI_RETURN_IF_ERROR(
      carry_out(by_gpu(checks, [](const device::BoxCheck& one) { return one.src.data; }), on_gpu,
                [&](size_t i) { found[i] = state::check_box(checks[i].content, checks[i].part, checks[i].src); }));
  return found;
}

absl::StatusOr<std::vector<uint64_t>> CudaBackend::hash(std::span<const device::BoxHash> boxes) {
  std::vector<uint64_t> digests(boxes.size());
  const auto on_gpu = [&](Lane& lane, const std::vector<size_t>& indices) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const std::vector<uint64_t> some, lane.hash(chosen(boxes, indices)));
    for (size_t i = 0; i < indices.size(); ++i) digests[indices[i]] = some[i];
    return {};
  };
  SCALAI_RETURN_IF_ERROR(carry_out(by_gpu(boxes, [](const device::BoxHash& one) { return one.src.data; }), on_gpu,
                                   [&](size_t i) { digests[i] = state::box_digest(boxes[i].src, boxes[i].part); }));
  return digests;
}

// --- making it -------------------------------------------------------------------------------------------------------

absl::Status check_options(const CudaOptions& options) {
  if (options.devices > 0 && options.devices_per_gpu > 0 && options.staging_bytes > 0) return {};
  return invalid(
      fmt::format("a CUDA back end of {} devices, {} on each GPU, with {} bytes of staging: all must be "
                  "positive",
                  options.devices, options.devices_per_gpu, options.staging_bytes));
}

absl::Status connect(World& world) {
  const auto count = static_cast<int>(world.gpus.size());
  for (int gpu = 0; gpu < count && !world.options.stage_all; ++gpu) {
    for (int other = 0; other < count; ++other) {
      if (other == gpu) continue;
      SCALAI_ASSIGN_OR_RETURN(const bool can, can_access_peer(gpu, other));
      if (!can) continue;
      SCALAI_RETURN_IF_ERROR(enable_peer_access(gpu, other));
      world.gpus[static_cast<size_t>(gpu)]->reaches.push_back(other);
    }
  }
  return {};
}

absl::Status make_lanes(World& world) {
  const int64_t half = std::max(kMinChunk, world.options.staging_bytes / (kLanes * 2));
  const bool all_reach = std::all_of(world.gpus.begin(), world.gpus.end(), [&](const std::unique_ptr<Gpu>& gpu) {
    return gpu->reaches.size() + 1 == world.gpus.size();
  });
  const bool staged = world.options.stage_all || !all_reach;
  for (size_t gpu = 0; gpu < world.gpus.size(); ++gpu) {
    for (int i = 0; i < kLanes; ++i) {
      SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane,
                              Lane::create({.gpu = static_cast<int>(gpu),
                                            .multiprocessors = world.gpus[gpu]->multiprocessors,
                                            .pinned_half = half,
                                            .device_half = staged ? half : 0}));
      world.gpus[gpu]->lanes.add(std::move(lane));
    }
  }
  return {};
}
}  // namespace

absl::StatusOr<std::unique_ptr<device::Backend>> make_cuda_backend(const CudaOptions& options) {
  SCALAI_RETURN_IF_ERROR(check_options(options));
  SCALAI_ASSIGN_OR_RETURN(const int there, gpu_count());
  const int needed = (options.devices + options.devices_per_gpu - 1) / options.devices_per_gpu;
  if (needed > there) {
    return missing(
        fmt::format("{} devices with {} on each GPU need {} GPUs, and this process sees {}; use "
                    "--devices-per-gpu={}, fewer devices, or see CUDA_VISIBLE_DEVICES",
                    options.devices, options.devices_per_gpu, needed, there, (options.devices + there - 1) / there));
  }
  auto world = std::make_shared<World>();
  world->options = options;
  for (int gpu = 0; gpu < needed; ++gpu) {
    auto one = std::make_unique<Gpu>();
    SCALAI_ASSIGN_OR_RETURN(one->name, gpu_name(gpu));
    SCALAI_ASSIGN_OR_RETURN(one->multiprocessors, multiprocessors(gpu));
    world->gpus.push_back(std::move(one));
  }
  SCALAI_RETURN_IF_ERROR(connect(*world));
  SCALAI_RETURN_IF_ERROR(make_lanes(*world));
  return std::make_unique<CudaBackend>(std::move(world));
}

}  // namespace scalai::executor::cuda
