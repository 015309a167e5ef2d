#include "ptc/store/torch/internal/pickle_writer.h"

#include <bit>
#include <limits>

#include "ptc/store/torch/internal/little_endian.h"

namespace scalai::store::internal {

PickleWriter& PickleWriter::op(std::string_view opcodes) {
  bytes_ += opcodes;
  return *this;
}

PickleWriter& PickleWriter::once(std::string opcodes) {
  const auto [found, fresh] = written_.try_emplace(std::move(opcodes), static_cast<uint32_t>(written_.size()));
  if (fresh) bytes_ += found->first;
  bytes_ += fresh ? 'r' : 'j';
  append_number(bytes_, found->second, 4);
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view value) {
  std::string opcodes = "X";
  append_number(opcodes, value.size(), 4);
  opcodes += value;
  return once(std::move(opcodes));
}

PickleWriter& PickleWriter::name(std::string_view module, std::string_view object) {
  std::string opcodes = "c";
  ((opcodes += module) += '\n') += object;
  opcodes += '\n';
  return once(std::move(opcodes));
}

PickleWriter& PickleWriter::number(int64_t value) {
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    append_number(bytes_, static_cast<uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += 'J';
    append_number(bytes_, static_cast<uint64_t>(value), 4);
  } else {
    bytes_ += "\x8a\x08";
    append_number(bytes_, static_cast<uint64_t>(value), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::real(double value) {
  bytes_ += 'G';
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int byte = 7; byte >= 0; --byte) bytes_ += static_cast<char>(bits >> (8 * byte));
  return *this;
}

PickleWriter& PickleWriter::numbers(const std::vector<int64_t>& values) {
  op("(");
  for (const int64_t value : values) number(value);
  return op("t");
}

}  // namespace scalai::store::internal
