#include "executor/transport/internal/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/secret/secret.h"
#include "executor/transport/internal/errors.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

constexpr std::string_view kMark = "scalai-ucx-2:";
constexpr size_t kNumberBytes = 16;
constexpr size_t kLeastKeyBytes = 16;

std::string code_of(const std::string& key, std::string_view number, std::string_view ucx_address) {
  return secret::mac_of(key, {"address", number, ucx_address});
}

}  // namespace

absl::StatusOr<Self> make_self(const std::string& key, std::string_view ucx_address) {
  if (key.size() < kLeastKeyBytes)
    return invalid(fmt::format("a transport's key has at least {} bytes, not {}", kLeastKeyBytes, key.size()));
  Self self{.key = key, .number = "", .address = ""};
  SCALAI_ASSIGN_OR_RETURN(self.number, secret::random_bytes(kNumberBytes));
  self.address = std::string(kMark) + self.number + code_of(key, self.number, ucx_address) + std::string(ucx_address);
  return self;
}

absl::StatusOr<PeerAddress> read_address(const Self& self, HostId peer, std::string_view address) {
  constexpr size_t kBefore = kMark.size() + kNumberBytes + secret::kMacBytes;
  if (!address.starts_with(kMark) || address.size() <= kBefore) return invalid(bad_address(peer));
  const std::string_view number = address.substr(kMark.size(), kNumberBytes);
  const std::string_view code = address.substr(kMark.size() + kNumberBytes, secret::kMacBytes);
  const std::string_view ucx = address.substr(kBefore);
  if (!secret::same_secret(code, code_of(self.key, number, ucx))) return invalid(bad_address(peer));
  return PeerAddress{.number = std::string(number), .ucx = std::string(ucx)};
}

template <class Header>
Tag tag_of(const std::string& key, std::string_view from, std::string_view to, const Header& header,
           std::string_view text) {
  Header without = header;
  without.tag = {};
  const std::string_view bytes(reinterpret_cast<const char*>(&without), sizeof without);
  const std::string mac = secret::mac_of(key, {Header::kKind, from, to, bytes, text});
  Tag tag;
  std::copy_n(mac.begin(), tag.size(), tag.begin());
  return tag;
}

template <class Header>
bool is_sealed(const std::string& key, std::string_view from, std::string_view to, const Header& header,
               std::string_view text) {
  const Tag right = tag_of(key, from, to, header, text);
  return secret::same_secret({right.data(), right.size()}, {header.tag.data(), header.tag.size()});
}

template Tag tag_of(const std::string&, std::string_view, std::string_view, const AskHeader&, std::string_view);
template Tag tag_of(const std::string&, std::string_view, std::string_view, const AnswerHeader&, std::string_view);
template Tag tag_of(const std::string&, std::string_view, std::string_view, const CancelHeader&, std::string_view);
template bool is_sealed(const std::string&, std::string_view, std::string_view, const AskHeader&, std::string_view);
template bool is_sealed(const std::string&, std::string_view, std::string_view, const AnswerHeader&, std::string_view);
template bool is_sealed(const std::string&, std::string_view, std::string_view, const CancelHeader&, std::string_view);

}  // namespace scalai::executor::transport::internal
