#include "executor/cuda/step_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "executor/cuda/address_map.h"
#include "executor/cuda/internal/cuda_status.h"
#include "executor/cuda/kernels/steps.h"
#include "executor/cuda/runtime.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {

using transform::Chunk;
using transform::ChunkPair;

class CudaChunk final : public Chunk {
 public:
  static absl::StatusOr<std::unique_ptr<CudaChunk>> create(const StepDeviceOptions& options, int multiprocessors) {
    SCALAI_ASSIGN_OR_RETURN(Stream stream, Stream::create(options.gpu));
    SCALAI_ASSIGN_OR_RETURN(DeviceBuffer device, DeviceBuffer::create(options.gpu, options.chunk_bytes));
    SCALAI_ASSIGN_OR_RETURN(PinnedBuffer host, PinnedBuffer::create(options.chunk_bytes));
    return std::unique_ptr<CudaChunk>(
        new CudaChunk(options, multiprocessors, std::move(stream), std::move(host), std::move(device)));
  }
  CudaChunk(const CudaChunk&) = delete;
  CudaChunk& operator=(const CudaChunk&) = delete;
  ~CudaChunk() override {
    (void)stream_.synchronize();
    if (options_.addresses != nullptr) options_.addresses->remove(device_.data());
  }

  std::byte* host(int64_t bytes) override { return host_.data() + take(host_used_, bytes); }
  std::byte* device(int64_t bytes) override { return device_.data() + take(device_used_, bytes); }
  absl::Status copy_up(std::byte* device, const std::byte* host, int64_t bytes) override {
    return copy(device, host, bytes);
  }
  absl::Status copy_down(std::byte* host, const std::byte* device, int64_t bytes) override {
    return copy(host, device, bytes);
  }
  absl::Status set_to_zero(std::byte* device, int64_t bytes) override {
    return bytes == 0 ? absl::OkStatus() : stream_.clear(device, bytes);
  }
  absl::Status run(const transform::step_core::Work& work) override {
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(options_.gpu));
    return std::visit(
        [&](const auto& one) {
          const uint32_t blocks = kernels::step_blocks(transform::step_core::size_of(one), multiprocessors_);
          return internal::cuda_status(kernels::launch_step(one, blocks, static_cast<cudaStream_t>(stream_.handle())),
                                       "starting a step");
        },
        work);
  }
  absl::Status finish() override { return stream_.synchronize(); }
  void clear() override { host_used_ = device_used_ = 0; }

 private:
  CudaChunk(const StepDeviceOptions& options, int multiprocessors, Stream stream, PinnedBuffer host,
            DeviceBuffer device)
      : options_(options),
        multiprocessors_(multiprocessors),
        host_(std::move(host)),
        device_(std::move(device)),
        stream_(std::move(stream)) {
    if (options_.addresses != nullptr) options_.addresses->add(device_.data(), device_.bytes(), device_.gpu());
  }
  absl::Status copy(void* to, const void* from, int64_t bytes) const {
    return bytes == 0 ? absl::OkStatus() : stream_.copy(to, from, bytes);
  }
  int64_t take(int64_t& used, int64_t bytes) const {
    const int64_t at = used;
    used += (bytes + kAlign - 1) / kAlign * kAlign;
    SCALAI_CHECK(used <= options_.chunk_bytes, fmt::format("{} bytes of a chunk", used));
    return at;
  }

  const StepDeviceOptions options_;
  const int multiprocessors_;
  PinnedBuffer host_;
  DeviceBuffer device_;
  Stream stream_;
  int64_t host_used_ = 0, device_used_ = 0;
};

struct Chunks {
  std::unique_ptr<CudaChunk> one, other;
};

class StepDevice final : public transform::Device {
 public:
  StepDevice(const StepDeviceOptions& options, std::string name, int multiprocessors)
      : options_(options), name_(std::move(name)), multiprocessors_(multiprocessors), most_(options.pairs) {}

  std::string name() const override { return name_; }
  int64_t chunk_bytes() const override { return options_.chunk_bytes; }
  int64_t host_bytes() const override { return 2 * options_.pairs * options_.chunk_bytes; }
  absl::StatusOr<std::unique_ptr<ChunkPair>> lend() override {
    SCALAI_ASSIGN_OR_RETURN(Chunks chunks, take());
    return std::make_unique<Lent>(*this, std::move(chunks));
  }
  void give(Chunks chunks) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(chunks));
    }
    returned_.notify_one();
  }

 private:
  class Lent final : public ChunkPair {
   public:
    Lent(StepDevice& device, Chunks chunks) : device_(device), chunks_(std::move(chunks)) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() override {
      for (int i = 0; i < 2; ++i) {
        (void)chunk(i).finish();  // whoever made an error has said it
        chunk(i).clear();
      }
      device_.give(std::move(chunks_));
    }
    Chunk& chunk(int number) override { return number == 0 ? *chunks_.one : *chunks_.other; }

   private:
    StepDevice& device_;
    Chunks chunks_;
  };

  absl::StatusOr<Chunks> take() {
    std::unique_lock lock(mutex_);
    while (true) {
      returned_.wait(lock, [&] { return !free_.empty() || made_ < most_; });
      if (!free_.empty()) {
        Chunks chunks = std::move(free_.back());
        free_.pop_back();
        return chunks;
      }
      ++made_;
      lock.unlock();
      absl::StatusOr<Chunks> chunks = make();
      lock.lock();
      if (chunks.ok()) return chunks;
      --made_;
      if (made_ == 0 || !absl::IsResourceExhausted(chunks.status())) return chunks.status();
      most_ = made_;
    }
  }
  absl::StatusOr<Chunks> make() const {
    SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<CudaChunk> one, CudaChunk::create(options_, multiprocessors_));
    SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<CudaChunk> other, CudaChunk::create(options_, multiprocessors_));
    return Chunks{std::move(one), std::move(other)};
  }

  const StepDeviceOptions options_;
  const std::string name_;
  const int multiprocessors_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<Chunks> free_;
  int made_ = 0, most_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<transform::Device>> make_step_device(const StepDeviceOptions& options) {
  if (options.chunk_bytes <= 0 || options.pairs <= 0)
    return invalid(
        fmt::format("{} pairs of chunks of {} bytes: both must be positive", options.pairs, options.chunk_bytes));
  SCALAI_ASSIGN_OR_RETURN(const int there, gpu_count());
  if (options.gpu < 0 || options.gpu >= there)
    return missing(
        fmt::format("there is no GPU {}: this process sees {}, see CUDA_VISIBLE_DEVICES", options.gpu, there));
  SCALAI_ASSIGN_OR_RETURN(const std::string name, gpu_name(options.gpu));
  SCALAI_ASSIGN_OR_RETURN(const int processors, multiprocessors(options.gpu));
  auto device = std::make_shared<StepDevice>(options, fmt::format("GPU {}, {}", options.gpu, name), processors);
  SCALAI_RETURN_IF_ERROR(device->lend().status());  // memory that is not there is told of now
  return device;
}

}  // namespace scalai::executor::cuda
