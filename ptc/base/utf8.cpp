#include "ptc/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace scalai {
namespace {

unsigned char byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Bytes of the valid character that `text` starts with, or 0.
size_t valid_length(std::string_view text) {
  const size_t length = announced_length(byte_at(text, 0));
  if (length < 2) return length;
  if (text.size() < length) return 0;
  uint32_t code = byte_at(text, 0) & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte_at(text, i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const size_t length = valid_length(text);
    result.push_back(text.substr(0, length == 0 ? 1 : length));
    text.remove_prefix(result.back().size());
  }
  return result;
}

std::string_view printable(std::string_view character) {
  if (character == "\t") return " ";
  const unsigned char lead = byte_at(character, 0);
  const bool broken = character.size() == 1 && lead >= 0x80;
  const bool control = lead < 0x20 || lead == 0x7F;
  const bool late_control = lead == 0xC2 && character.size() == 2 && byte_at(character, 1) < 0xA0;  // U+0080…9F
  return broken || control || late_control ? "?" : character;
}

std::string printable_text(std::string_view text) {
  std::string result;
  for (const std::string_view character : characters(text)) result += printable(character);
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const std::string_view character : characters(text)) {
    if (character == "\n" || character == "\t" || printable(character) == character) {
      result += character;
      continue;
    }
    for (const char byte : character) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return result;
}

std::string clipped(std::string_view text, size_t columns) {
  const std::vector<std::string_view> all = characters(text);
  if (all.size() <= columns) return printable_text(text);
  std::string result;
  for (size_t i = 0; i + 1 < columns; ++i) result += printable(all[i]);
  return columns == 0 ? result : result + "…";
}

std::string clipped_middle(std::string_view text, size_t columns) {
  const std::vector<std::string_view> all = characters(text);
  if (all.size() <= columns) return printable_text(text);
  if (columns == 0) return "";
  const size_t first = columns / 2, last = columns - 1 - first;
  std::string result;
  for (size_t i = 0; i < first; ++i) result += printable(all[i]);
  result += "…";
  for (size_t i = all.size() - last; i < all.size(); ++i) result += printable(all[i]);
  return result;
}

std::vector<std::string> wrapped(std::string_view text, size_t columns) {
  std::vector<std::string> lines = {""};
  size_t used = 0;
  const auto add = [&](std::string_view word) {
    const std::vector<std::string_view> all = characters(word);
    const size_t gap = used > 0 ? 1 : 0;
    if (columns > 0 && used > 0 && used + gap + all.size() > columns) {
      lines.emplace_back();
      used = 0;
    } else if (gap > 0) {
      lines.back() += ' ';
      ++used;
    }
    for (const std::string_view character : all) {
      if (columns > 0 && used == columns) {
        lines.emplace_back();
        used = 0;
      }
      lines.back() += printable(character);
      ++used;
    }
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) add(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

size_t columns_of(std::string_view text) { return characters(text).size(); }

}  // namespace scalai
