#include "ptc/base/url.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

namespace scalai {

bool is_http(std::string_view location) { return location.starts_with("http://") || location.starts_with("https://"); }

std::string percent_encoded(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool ascii = byte < 0x80;
    const bool plain = ascii && (std::isalnum(byte) != 0 || c == '/' || c == '-' || c == '_' || c == '.' || c == '~');
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

std::string percent_decoded(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool coded =
        text[i] == '%' && text.size() - i > 2 && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    path += coded ? static_cast<char>(byte) : text[i];
    if (coded) i += 2;
  }
  return path;
}

std::string location_in(std::string_view folder, std::string_view name) {
  return fmt::format("{}/{}", folder, is_http(folder) ? percent_encoded(name) : std::string(name));
}

}  // namespace scalai
