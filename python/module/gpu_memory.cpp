#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>

#include "executor/cuda/peer_memory.h"
#include "python/module/module.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {
using executor::cuda::PeerMemory;

struct GpuMemory {
  GpuMemory(int gpu, uint64_t begin, uint64_t end) : memory(value_of(PeerMemory::reserve(gpu, begin, end))) {}
  std::unique_ptr<PeerMemory> memory;
};

}  // namespace

void add_gpu_memory(nb::module_& module) {
  nb::class_<GpuMemory>(module, "GpuMemory")
      .def(nb::init<int, uint64_t, uint64_t>(), nb::arg("gpu"), nb::arg("begin"), nb::arg("end"))
      .def_prop_ro("gpu", [](const GpuMemory& self) { return self.memory->gpu(); })
      .def_prop_ro("on_gpu", [](const GpuMemory& self) { return self.memory->on_gpu(); })
      .def(
          "map",
          [](GpuMemory& self, uint64_t offset, int64_t bytes, int descriptor) {
            check(self.memory->map(offset, bytes, descriptor));
          },
          nb::arg("offset"), nb::arg("bytes"), nb::arg("descriptor"))
      // PyTorch's tensor of these bytes, by DLPack; it keeps the memory mapped.
      .def(
          "tensor",
          [](nb::handle self, uint64_t offset, int64_t bytes) {
            const PeerMemory& memory = *nb::cast<const GpuMemory&>(self).memory;
            const size_t shape[] = {static_cast<size_t>(bytes)};
            return nb::ndarray<nb::pytorch, uint8_t>(
                value_of(memory.data(offset, bytes)), 1, shape, self, nullptr, nb::dtype<uint8_t>(),
                memory.on_gpu() ? nb::device::cuda::value : nb::device::cpu::value, memory.on_gpu() ? memory.gpu() : 0);
          },
          nb::arg("offset"), nb::arg("bytes"));
}

}  // namespace scalai::python
