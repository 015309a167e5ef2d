#pragma once
// The one place where codes of the CUDA runtime and driver become a Status. Included by .cpp files of this folder only:
// it knows CUDA's types.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string_view>
#if __has_include(<source_location>)
#include <source_location>
#endif

#include "absl/status/status.h"

namespace scalai::executor::cuda::internal {

#if defined(__cpp_lib_source_location)
using SourceLocation = std::source_location;
#else  // clang 14 with GCC's library
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    SourceLocation here;
    here.file_ = file;
    here.line_ = line;
    return here;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
};
#endif

// OK, or what happened while `doing` ("making a stream"), on which GPU (the current device) and where in our code.
//   out of memory                          ResourceExhausted, with the free and the total bytes of the GPU
//   no driver, no GPU, a driver too old    NotFound (missing()), with what to do
//   anything else                          Aborted (failed())
// The runtime's own memory of the error is cleared, where it can be.
absl::Status cuda_status(cudaError_t code, std::string_view doing, SourceLocation where = SourceLocation::current());
absl::Status driver_status(CUresult code, std::string_view doing, SourceLocation where = SourceLocation::current());

// A function of the driver, asked for by name, so that the binary starts where there is no driver.
template <class Function>
absl::Status find_driver_function(const char* name, unsigned cuda_version, Function& function);
absl::Status find_driver_symbol(const char* name, unsigned cuda_version, void** function);

template <class Function>
absl::Status find_driver_function(const char* name, unsigned cuda_version, Function& function) {
  void* found = nullptr;
  absl::Status status = find_driver_symbol(name, cuda_version, &found);
  function = reinterpret_cast<Function>(found);
  return status;
}

}  // namespace scalai::executor::cuda::internal
