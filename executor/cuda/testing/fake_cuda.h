#pragma once
// A stand-in for the CUDA runtime, the driver's memory management and the kernels' launchers, linked by tests in place
// of them: GPUs are host memory, kernels are their cores run by the CPU. So what the back end asks of CUDA is tested
// where there is no GPU. Three GPUs; 0 and 1 reach each other, nobody reaches 2 or is reached by it.
//
// Streams are simulated: work happens at some moment after it was put in, in the order of its stream, after the events
// it waits for, and when somebody waits for it at the latest. When is drawn at random, from one seed: a missing wait is
// a wrong byte sooner or later. Work that touches memory its GPU does not reach, and copies of pageable memory, are a
// CHECK.

#include <functional>

namespace scalai::executor::cuda {

// From now on waiting for work of this GPU says that a kernel has touched a wrong address; −1: all is well again.
void break_fake_gpu(int gpu);

// Which chunks of host memory the driver takes from now on: of a node, of any. Both, until somebody says otherwise.
void allow_fake_host_memory(bool of_node, bool of_any);
// So many mappings succeed from now on, the next fails, and all after it succeed.
void fail_fake_map_after(int count);
// Chunks that are there: of all GPUs, and of the host.
struct FakeChunks {
  int on_gpus = 0;
  int on_host = 0;
};
FakeChunks fake_chunks();

// For the launchers: a kernel in a stream, whose GPU is current and has the descriptors, if there are some; and whether
// that GPU reaches an address.
void put_fake_kernel(void* stream, const void* descriptors, std::function<void()> happen);
bool fake_reaches(void* stream, const void* address);

}  // namespace scalai::executor::cuda
