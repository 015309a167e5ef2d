#include "executor/secret/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <climits>
#include <cstdint>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::executor::secret {
namespace {

void append(std::string& text, std::string_view part) {
  std::array<char, sizeof(uint64_t)> length{};
  const auto size = static_cast<uint64_t>(part.size());
  std::memcpy(length.data(), &size, sizeof size);
  text.append(length.data(), length.size());
  text.append(part);
}

}  // namespace

absl::StatusOr<std::string> random_bytes(size_t count) {
  SCALAI_CHECK(count <= INT_MAX);
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1) return bytes;
  return absl::UnavailableError("the system has no random bytes");
}

std::string mac_of(std::string_view key, std::initializer_list<std::string_view> parts) {
  SCALAI_CHECK(!key.empty() && key.size() <= INT_MAX, "a code without a key says nothing");
  std::string text;
  for (const std::string_view part : parts) append(text, part);
  std::string mac(kMacBytes, '\0');
  unsigned bytes = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  SCALAI_CHECK(made != nullptr && bytes == kMacBytes, "libcrypto has no HMAC-SHA256");
  return mac;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string key_for(std::string_view token, std::string_view purpose) { return mac_of(token, {"key", purpose}); }

}  // namespace scalai::executor::secret
