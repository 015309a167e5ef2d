#pragma once
// What the transports of two machines say to each other: active messages with a fixed header, in the byte order of the
// machines (all of one kind). The address of a transport carries the version of this.
//
// Both ends have the run's key. Each message has a tag, and each address a code, that only who has the key can make:
//
//   tag = first 16 bytes of MAC(key, kind, from, to, header, text)
//
// `from` and `to` are the numbers of the two transports, so no message counts at another end than the one it is for, in
// another run, or as an answer of somebody else. `text` is all of an ask or a cancel, and the message of an error. Of
// state only the length is covered, as codes over all bytes would cost more than sending them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/base/ids.h"

namespace scalai::executor::transport::internal {

using Tag = std::array<char, 16>;

// Body: the asking transport's address, then the request.
struct AskHeader {
  static constexpr unsigned kId = 1;
  static constexpr std::string_view kKind = "ask";
  uint64_t fetch = 0;       // the asker's number of it; 0 = a greeting, which only makes the connection
  uint64_t connection = 0;  // the asker's number of its connection, growing
  int64_t address_bytes = 0;
  Tag tag{};
};

// Body: bytes [offset, offset + body) of the answer, or the message of an error.
struct AnswerHeader {
  static constexpr unsigned kId = 2;
  static constexpr std::string_view kKind = "answer";
  uint64_t fetch = 0;
  int64_t offset = 0;
  int64_t total = 0;
  int64_t code = 0;   // an absl::StatusCode; 0 = no error
  int64_t bytes = 0;  // of the body
  Tag tag{};
};

// The asker no longer waits. Body: its address.
struct CancelHeader {
  static constexpr unsigned kId = 3;
  static constexpr std::string_view kKind = "cancel";
  uint64_t fetch = 0;
  Tag tag{};
};

// The longest request, and the longest body of an ask.
inline constexpr int64_t kMostRequestBytes = int64_t{1} << 20;
inline constexpr int64_t kMostAskBytes = kMostRequestBytes + (int64_t{1} << 16);

// One end: the run's key and its own number, both random.
struct Self {
  std::string key;
  std::string number;   // 16 bytes
  std::string address;  // as others are given it
};

// Another end, of an address with the right code.
struct PeerAddress {
  std::string number;
  std::string ucx;  // address of its UCX worker
};

// InvalidArgument: the key is short. Unavailable: no random bytes.
absl::StatusOr<Self> make_self(const std::string& key, std::string_view ucx_address);
// UCX crashes on an address that is none, so only addresses with the run's code reach it. InvalidArgument names the
// peer.
absl::StatusOr<PeerAddress> read_address(const Self& self, HostId peer, std::string_view address);

// The tag of a header whose own tag does not count. `text` is as above.
template <class Header>
Tag tag_of(const std::string& key, std::string_view from, std::string_view to, const Header& header,
           std::string_view text);
// Whether the tag is right.
template <class Header>
bool is_sealed(const std::string& key, std::string_view from, std::string_view to, const Header& header,
               std::string_view text);

}  // namespace scalai::executor::transport::internal
