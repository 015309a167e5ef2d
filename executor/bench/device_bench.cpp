#include "executor/bench/device_bench.h"

#include <chrono>
#include <functional>
#include <optional>

#include "executor/bench/yardsticks.h"
#include "executor/cuda/yardsticks.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {

using state::Target;

namespace {

constexpr int kDevice = 0;

class Prepared {
 public:
  static absl::StatusOr<Prepared> make(device::Backend& backend, const CopyWork& work) {
    Prepared prepared;
    int64_t capacity = 0;
    for (const std::vector<CopyWork::Buffer>* list : {&work.sources, &work.targets}) {
      for (const CopyWork::Buffer& buffer : *list) capacity += bytes_of(buffer) + (int64_t{64} << 10);
    }
    SCALAI_ASSIGN_OR_RETURN(prepared.memory_,
                            backend.memory_of_device(kDevice, {.name = "bench", .capacity = 2 * capacity}));
    SCALAI_RETURN_IF_ERROR(prepared.memory_->reserve(capacity));
    std::vector<Target> sources;
    std::vector<device::BoxFill> fills;
    for (const CopyWork::Buffer& buffer : work.sources) {
      SCALAI_ASSIGN_OR_RETURN(const Target at, prepared.add(buffer));
      sources.push_back(at);
      fills.push_back({buffer.content, buffer.box, at});
    }
    for (const CopyWork::Buffer& buffer : work.targets) {
      SCALAI_ASSIGN_OR_RETURN(const Target at, prepared.add(buffer));
      prepared.targets_.push_back(at);
      prepared.checks_.push_back({buffer.content, buffer.box, at.source()});
      prepared.hashes_.push_back({buffer.box, at.source()});
    }
    for (const CopyWork::Copy& copy : work.copies)
      prepared.copies_.push_back({copy.part, sources[copy.src].source(), prepared.targets_[copy.dst]});
    SCALAI_RETURN_IF_ERROR(backend.fill(fills));
    return prepared;
  }
  const std::vector<device::BoxCopy>& copies() const { return copies_; }
  const std::vector<device::BoxCheck>& checks() const { return checks_; }
  const std::vector<device::BoxHash>& hashes() const { return hashes_; }

 private:
  static int64_t bytes_of(const CopyWork::Buffer& buffer) {
    return buffer.box.volume() * tensor::size_of(buffer.dtype);
  }
  absl::StatusOr<Target> add(const CopyWork::Buffer& buffer) {
    SCALAI_ASSIGN_OR_RETURN(const uint64_t offset, memory_->allocate(bytes_of(buffer)));
    return Target{buffer.box, buffer.dtype, memory_->data(offset)};
  }

  std::unique_ptr<state::Memory> memory_;
  std::vector<Target> targets_;
  std::vector<device::BoxCopy> copies_;
  std::vector<device::BoxCheck> checks_;
  std::vector<device::BoxHash> hashes_;
};

absl::StatusOr<std::vector<double>> times_of(int repetitions, const std::function<absl::Status()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    const auto began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(work());
    if (i > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return seconds;
}

void add_yardsticks(int gpu, const CopyWork& work, const std::vector<device::BoxCopy>& copies, int repetitions,
                    Measurement& measured) {
  if (gpu < 0) {
    measured.yardsticks.push_back({"memcpy", memcpy_seconds(work.bytes, repetitions)});
    return;
  }
  const auto add = [&](const std::string& name, const absl::StatusOr<double>& seconds) {
    measured.yardsticks.push_back({name, seconds.value_or(0)});  // 0: it could not be had
  };
  add("cudaMemcpyAsync", cuda::device_copy_seconds(gpu, work.bytes, repetitions));
  add("cudaMemcpy2DAsync", cuda::memcpy_2d_seconds(gpu, copies, repetitions));
  add("cudaMemcpyBatchAsync", cuda::memcpy_batch_seconds(gpu, copies, repetitions));
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> measure_copies(device::Backend& backend, const CopyWork& work,
                                                        int repetitions) {
  SCALAI_CHECK(repetitions >= 1);
  SCALAI_ASSIGN_OR_RETURN(const Prepared prepared, Prepared::make(backend, work));
  const std::string name = work.model.empty() ? work.name : work.name + " " + work.model;
  Measurement copied{.name = name,
                     .devices = 1,
                     .transport = backend.name(),
                     .state_bytes = work.bytes,
                     .moved_bytes = work.bytes,
                     .busiest_bytes = 2 * work.bytes,
                     .busiest_received = work.bytes};
  SCALAI_ASSIGN_OR_RETURN(copied.transfer_s, times_of(repetitions, [&] { return backend.copy(prepared.copies()); }));
  Measurement checked = copied, hashed = copied;
  checked.name += ", check";
  hashed.name += ", digest";
  checked.busiest_bytes = hashed.busiest_bytes = work.bytes;
  SCALAI_ASSIGN_OR_RETURN(checked.transfer_s, times_of(repetitions, [&]() -> absl::Status {
                            SCALAI_ASSIGN_OR_RETURN(const auto found, backend.check(prepared.checks()));
                            copied.errors = 0;
                            for (const std::optional<state::Mismatch>& one : found) copied.errors += one ? 1 : 0;
                            return absl::OkStatus();
                          }));
  SCALAI_ASSIGN_OR_RETURN(hashed.transfer_s,
                          times_of(repetitions, [&] { return backend.hash(prepared.hashes()).status(); }));
  checked.yardsticks = hashed.yardsticks = {{"the copy", copied.seconds()}};
  const int gpu = backend.gpu_of_device(kDevice);
  add_yardsticks(gpu, work, prepared.copies(), repetitions, copied);
  return std::vector<Measurement>{std::move(copied), std::move(checked), std::move(hashed)};
}

}  // namespace scalai::executor::bench
