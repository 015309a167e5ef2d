#pragma once
// A thread whose start can fail without ending the program. Any thread.

#include <fmt/format.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

// ResourceExhausted: the system has no room for another thread (limits of threads or memory), where std::thread throws.
inline absl::StatusOr<std::thread> start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format("no room for another thread (ulimit -u, -v): {}", error.what()));
  }
}

}  // namespace scalai
