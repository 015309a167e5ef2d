#pragma once
// "127.0.0.1:7000", "[::1]:0", "node7:7000": gRPC says only that it could not listen, so this finds out why.

#include <string>

#include "absl/status/statusor.h"

namespace scalai::executor::internal {

struct BindAddress {
  std::string host;  // as written, with brackets
  bool loopback = false;
};

// Binds to it for a moment. Errors: InvalidArgument (not HOST:PORT), Unavailable (in use, no such address; named).
absl::StatusOr<BindAddress> try_to_bind(const std::string& address);

}  // namespace scalai::executor::internal
