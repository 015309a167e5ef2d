#pragma once
// LiveBytes: what a LiveRun has read and given since its begin.

#include <cstdint>

namespace scalai::executor::live {

struct LiveBytes {
  int64_t from_memory = 0;   // of workers on this machine
  int64_t from_workers = 0;  // on others
  int64_t from_readers = 0;
  int64_t to_readers = 0;
  int64_t questions = 0;  // to the controller, which readers have what
};

}  // namespace scalai::executor::live
