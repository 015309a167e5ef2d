#pragma once
// One read of several holders: the first that has it answers. Functions; any thread.

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace scalai::executor::live {

// Asks holders 0, 1, … until one answers. One that is busy (Unavailable, DeadlineExceeded, Aborted) is asked once more
// when all have been, after a pause; one that has it not (NotFound) is not. `fetch` may be repeated: it only reads.
// FailedPrecondition: nobody has it any more. Unavailable: a holder that may have it does not answer in time. Others:
// what kept the reader from asking a holder, or that one's error.
inline constexpr int kAskedMost = 2;
absl::Status ask_holders(size_t holders, const std::function<absl::Status(size_t holder)>& fetch,
                         const std::function<void(double seconds)>& pause);

}  // namespace scalai::executor::live
