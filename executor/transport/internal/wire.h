#pragma once
// What the transports of two machines say to each other: active messages with a fixed header, in the byte order of the
// machines (all of one kind). The address of a transport carries the version of this.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/base/ids.h"

namespace scalai::executor::internal {

// Body: the asking worker's own UCX address, then the request.
struct AskHeader {
  static constexpr unsigned kId = 1;
  uint64_t fetch = 0;       // the asker's number of it; 0 = a greeting, which only makes the connection
  uint64_t connection = 0;  // the asker's number of its connection, growing
  int64_t address_bytes = 0;
};

// Body: bytes [offset, offset + body) of the answer, or the message of an error.
struct AnswerHeader {
  static constexpr unsigned kId = 2;
  uint64_t fetch = 0;
  int64_t offset = 0;
  int64_t total = 0;
  int64_t code = 0;  // an absl::StatusCode; 0 = no error
};

// The asker no longer waits. Body: its UCX address.
struct CancelHeader {
  static constexpr unsigned kId = 3;
  uint64_t fetch = 0;
};

// A UCX address in what others are given: with a mark and a digest, since UCX crashes on an address that is none.
std::string wrap_address(std::string_view ucx_address);
// InvalidArgument names the peer.
absl::StatusOr<std::string> unwrap_address(HostId peer, std::string_view address);

}  // namespace scalai::executor::internal
