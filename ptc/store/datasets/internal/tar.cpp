#include "ptc/store/datasets/internal/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::datasets {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kTarBuffer = 65536;  // headers lie apart: a large buffer would read data in vain
constexpr int64_t kMostExtension = 65536;

std::string_view text_at(std::string_view block, size_t offset, size_t size) {
  const std::string_view field = block.substr(offset, size);
  return field.substr(0, std::min(field.find('\0'), size));
}

// Octal digits between blanks, or base 256 when the first bit is set. nullopt: neither, or beyond 2^62.
std::optional<int64_t> number_at(std::string_view block, size_t offset, size_t size) {
  const std::string_view field = block.substr(offset, size);
  int64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    for (size_t i = 0; i < size; ++i) {
      const int64_t digit = static_cast<unsigned char>(field[i]) & (i == 0 ? 0x7F : 0xFF);
      if (value >= int64_t{1} << 54) return std::nullopt;
      value = value * 256 + digit;
    }
    return value;
  }
  std::string_view text = text_at(block, offset, size);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (const char c : text) {
    if (c < '0' || c > '7' || value >= int64_t{1} << 59) return std::nullopt;
    value = value * 8 + (c - '0');
  }
  return value;
}

// The checksum counts its own field as blanks; old writers summed signed bytes.
bool checksum_fits(std::string_view block) {
  int64_t sum = 0, sum_signed = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    sum_signed += static_cast<signed char>(c);
  }
  const std::optional<int64_t> stored = number_at(block, 148, 8);
  return stored && (*stored == sum || *stored == sum_signed);
}

std::string name_in(std::string_view block) {
  std::string name(text_at(block, 0, 100));
  const bool posix = block.substr(257, 6) == std::string_view("ustar\0", 6);  // GNU uses the prefix for other things
  const std::string_view prefix = text_at(block, 345, 155);
  return posix && !prefix.empty() ? fmt::format("{}/{}", prefix, name) : name;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t padded(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

std::string shown_name(std::string_view name) { return fmt::format("\"{}\"", clipped(name, 120)); }

TarScanner::TarScanner(ByteSourcePtr source, int64_t begin) : scanner_(std::move(source), begin, -1, kTarBuffer) {}

absl::Status TarScanner::error(const std::string& what) const {
  return invalid(fmt::format("{}: tar header at byte {}: {}", scanner_.name(), at_, what));
}

absl::StatusOr<std::optional<TarScanner::Header>> TarScanner::header() {
  at_ = scanner_.position();
  if (scanner_.remaining() == 0) return error("the file ends without a block of zeros; was it cut?");
  if (scanner_.remaining() < kBlock) return error("the file was cut inside it");
  SCALAI_ASSIGN_OR_RETURN(const auto bytes, scanner_.take(kBlock));
  const std::string_view block = as_text(bytes);
  if (block.find_first_not_of('\0') == std::string_view::npos) return std::optional<Header>();
  if (at_ == 0 && (block.starts_with("\x1f\x8b") || block.starts_with("BZh") ||
                   block.starts_with("\xfd"
                                     "7zXZ"))) {
    return error("the file is compressed; samples of a compressed tar cannot be found alone: uncompress it");
  }
  if (!checksum_fits(block)) return error("is none: its checksum does not fit");
  Header header{.name = name_in(block), .type = block[156]};
  const std::optional<int64_t> size = number_at(block, 124, 12);
  if (!size) return error(fmt::format("member {}: its size is no number", shown_name(header.name)));
  header.bytes = *size;
  return header;
}

absl::StatusOr<std::string> TarScanner::extension_data(int64_t bytes) {
  if (bytes > kMostExtension) return error(fmt::format("an extension of {} bytes is too large", bytes));
  if (padded(bytes) > scanner_.remaining()) return error("the file was cut inside its data");
  SCALAI_ASSIGN_OR_RETURN(const auto data, scanner_.take(padded(bytes)));
  return std::string(as_text(data.first(static_cast<size_t>(bytes))));
}

// Records are "LENGTH KEY=VALUE\n", LENGTH counting all of it.
absl::Status TarScanner::read_pax(std::string_view records, bool global, Extension& extension) const {
  while (!records.empty()) {
    size_t length = 0;
    const auto [end, code] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(end - records.data());
    if (code != std::errc() || length > records.size() || length < digits + 2 || records[digits] != ' ' ||
        records[length - 1] != '\n') {
      return error("pax records are damaged");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return error("a pax record without \"=\"");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse.")) return error("sparse members are not supported");
    if (key != "path" && key != "size") continue;
    if (global) return error(fmt::format("a global pax header sets {} of all members", shown_name(key)));
    if (key == "path") {
      extension.name = value;
      continue;
    }
    int64_t bytes = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || bytes < 0) {
      return error("a pax size that is no number");
    }
    extension.bytes = bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TarScanner::read_extension(const Header& header, Extension& extension) {
  if (header.type != 'x' && header.type != 'g' && header.type != 'L') return false;
  SCALAI_ASSIGN_OR_RETURN(const std::string data, extension_data(header.bytes));
  if (header.type == 'L') {
    extension.name = std::string(text_at(data, 0, data.size()));
  } else {
    SCALAI_RETURN_IF_ERROR(read_pax(data, header.type == 'g', extension));
  }
  return true;
}

absl::Status TarScanner::check_only_zeros() {
  while (scanner_.remaining() > 0) {
    const int64_t at = scanner_.position();
    SCALAI_ASSIGN_OR_RETURN(const auto bytes, scanner_.take(std::min(scanner_.remaining(), scanner_.most())));
    if (as_text(bytes).find_first_not_of('\0') != std::string_view::npos) {
      return error(
          fmt::format("the archive ends here, but more follows after byte {}; are these several tar files?", at));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TarMember>> TarScanner::next() {
  TarMember member{.name = {}, .begin = scanner_.position()};
  Extension extension;
  while (true) {
    SCALAI_ASSIGN_OR_RETURN(const std::optional<Header> found, header());
    if (!found) {
      if (extension.name || extension.bytes) return error("an extension of a member that does not follow");
      SCALAI_RETURN_IF_ERROR(check_only_zeros());
      return std::optional<TarMember>();
    }
    SCALAI_ASSIGN_OR_RETURN(const bool is_extension, read_extension(*found, extension));
    if (is_extension) {
      // A global header says nothing of a member, so no member begins with it.
      if (found->type == 'g' && !extension.name && !extension.bytes) member.begin = scanner_.position();
      continue;
    }
    member.name = extension.name.value_or(found->name);
    member.bytes = extension.bytes.value_or(found->bytes);
    const bool file = found->type == '0' || found->type == '\0' || found->type == '7';
    if (!file && found->type != '5') {
      return error(fmt::format("member {} is a link, device, sparse or unknown file (type {})", shown_name(member.name),
                               shown_name(std::string_view(&found->type, 1))));
    }
    member.regular = file && !member.name.ends_with('/');
    if (!member.regular) member.bytes = 0;
    if (member.bytes > scanner_.remaining() || padded(member.bytes) > scanner_.remaining()) {
      return error(
          fmt::format("member {}: the file was cut inside its {} bytes", shown_name(member.name), member.bytes));
    }
    scanner_.skip(padded(member.bytes));
    member.end = scanner_.position();
    return std::optional<TarMember>(std::move(member));
  }
}

std::optional<std::string_view> sample_key(std::string_view path, std::string_view* extension) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  if (extension != nullptr) *extension = path.substr(dot + 1);
  return path.substr(0, dot);
}

}  // namespace scalai::datasets
