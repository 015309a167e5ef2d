#pragma once
// Data files of the four formats, byte by byte, for tests. Written from the published formats and sharing nothing with
// the readers, the CRC least of all.

#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace scalai::datasets::test {

// A folder that is removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "scalai_data_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(folder_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(const std::string& name = "") const { return name.empty() ? folder_ : folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string folder_;
};

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  return bytes;
}

// --- Megatron --------------------------------------------------------------------------------------------------------

// `lengths` in tokens of each sequence; `documents`: how many sequences each has.
inline std::string idx_bytes(uint8_t dtype_code, int64_t token_bytes, const std::vector<int32_t>& lengths,
                             const std::vector<int64_t>& documents) {
  std::string bytes("MMIDIDX\0\0", 9);
  bytes += little_endian<uint64_t>(1) + static_cast<char>(dtype_code);
  bytes += little_endian<uint64_t>(lengths.size()) + little_endian<uint64_t>(documents.size() + 1);
  for (const int32_t length : lengths) bytes += little_endian(length);
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    bytes += little_endian(pointer);
    pointer += length * token_bytes;
  }
  int64_t first = 0;
  bytes += little_endian(first);
  for (const int64_t sequences : documents) bytes += little_endian(first += sequences);
  return bytes;
}

// Tokens first, first + 1, … of 32 bits.
inline std::string tokens_bytes(int32_t first, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += little_endian(static_cast<int32_t>(first + i));
  return bytes;
}

// --- TFRecord --------------------------------------------------------------------------------------------------------

inline uint32_t slow_masked_crc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool differs = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (differs ? 0x82F63B78u : 0);
    }
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

inline std::string record_bytes(const std::string& data) {
  const std::string length = little_endian<uint64_t>(data.size());
  return length + little_endian(slow_masked_crc(length)) + data + little_endian(slow_masked_crc(data));
}

// --- tar -------------------------------------------------------------------------------------------------------------

inline std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

inline void put(std::string& block, size_t at, const std::string& text) { block.replace(at, text.size(), text); }

inline std::string octal(int64_t value, int digits) {
  char text[32] = {};
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<long long>(value));
  return text;
}

// Writes the sum over a header block into it.
inline std::string summed(std::string block) {
  put(block, 148, std::string(8, ' '));
  int64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(block, 148, octal(sum, 6) + std::string("\0 ", 2));
  return block;
}

// A header block for a member of that size.
inline std::string tar_header(const std::string& name, int64_t size, char type = '0', const std::string& prefix = "") {
  std::string block(512, '\0');
  put(block, 0, name.substr(0, 100));
  put(block, 100, "0000644");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, octal(size, 11));
  put(block, 136, "00000000000");
  block[156] = type;
  put(block, 257,
      std::string("ustar\0"
                  "00",
                  8));
  put(block, 345, prefix);
  return summed(block);
}

inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  return tar_header(name, static_cast<int64_t>(data.size()), type) + padded(data);
}

inline std::string pax_record(const std::string& key, const std::string& value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return std::to_string(length) + " " + key + "=" + value + "\n";
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace scalai::datasets::test
