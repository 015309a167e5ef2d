// Any bytes as what a dataset is described by. The first byte chooses: an index file, as it is or put together from
// numbers, Megatron's .idx, a tar file or the text of a state. Refusing is fine; what is accepted is read through and
// must hold together.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/store/datasets/internal/index_format.h"
#include "ptc/store/datasets/reader.h"
#include "ptc/store/datasets/share.h"
#include "tests/fuzz/data_fuzz_support.h"

namespace {

using namespace scalai;

// With the columns' checksums made to fit, where the header is one.
std::string with_block_sums(const std::string& bytes, size_t header_bytes) {
  auto header = datasets::parse_header(bytes.substr(0, header_bytes));
  if (!header.ok()) return bytes;
  std::string sums;
  for (int i = 0; i < datasets::columns_of(header->format); ++i) {
    const auto begin = static_cast<size_t>(datasets::column_offset(*header, i));
    const std::string_view column =
        std::string_view(bytes).substr(begin, static_cast<size_t>(8 * datasets::rows_of(*header, i)));
    const std::string of_column = datasets::block_sums_of(column);
    header->checksums[static_cast<size_t>(i)] = datasets::checksum_of(of_column);
    sums += of_column;
  }
  const auto rows_end = static_cast<size_t>(datasets::sums_offset(*header, 0));
  return datasets::encode_header(*header) + bytes.substr(header_bytes, rows_end - header_bytes) + sums;
}

// With the header's sizes and checksum made to fit, or no input would ever get past them.
std::string repaired(std::string bytes) {
  const auto sizes = datasets::parse_sizes(bytes);
  const auto header_bytes = sizes.ok() ? sizes->header_bytes : 0;
  if (header_bytes < 64 || header_bytes > static_cast<int64_t>(bytes.size())) return bytes;
  const auto covered = static_cast<size_t>(header_bytes) - 32;
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  std::memcpy(bytes.data() + 24, &file_bytes, sizeof file_bytes);
  bytes.replace(covered, 32, datasets::checksum_of(std::string_view(bytes).substr(0, covered)));
  return with_block_sums(bytes, static_cast<size_t>(header_bytes));
}

void try_index(const std::string& bytes) {
  static const std::string path = fuzz::scratch("raw");
  std::ofstream(path, std::ios::binary) << repaired(bytes);
  const auto index = datasets::Index::open(path);
  std::filesystem::remove(path);
  if (!index.ok()) {
    SCALAI_CHECK(!message_of(index.status()).empty());
    return;
  }
  (void)(*index)->verify();
  const int64_t last = std::min<int64_t>((*index)->documents(), 1000);
  for (int64_t i = 0; i < last; ++i) {
    const auto extent = (*index)->document(i);
    std::vector<int32_t> lengths;
    const absl::Status sequences = (*index)->sequence_lengths(i, lengths);
    if (!extent.ok()) continue;
    const auto& files = (*index)->files();
    SCALAI_CHECK(extent->file >= 0 && static_cast<size_t>(extent->file) < files.size());
    const int64_t size = files[static_cast<size_t>(extent->file)].bytes;
    SCALAI_CHECK(extent->offset >= 0 && extent->bytes >= 0 && extent->bytes <= size - extent->offset);
  }
  for (const int64_t sequence : {1, 7}) {
    const auto samples = datasets::Samples::make(*index, sequence);
    if (!samples.ok()) continue;
    std::vector<datasets::Extent> extents;
    SCALAI_CHECK((*samples)->extents((*samples)->count() - 1, extents).ok());
  }
}

// Numbers taken from the input, front to back; 0 when there is no more.
class Numbers {
 public:
  explicit Numbers(std::string_view bytes) : rest_(bytes) {}
  int64_t next(size_t bytes) {
    uint64_t value = 0;
    const size_t n = std::min(bytes, rest_.size());
    std::memcpy(&value, rest_.data(), n);
    rest_.remove_prefix(n);
    return static_cast<int64_t>(value);
  }
  std::string rest() const { return std::string(rest_); }

 private:
  std::string_view rest_;
};

// A header of any numbers and, as columns, the rest of the input.
void try_header(const std::string& bytes) {
  Numbers numbers(bytes);
  datasets::IndexHeader header;
  header.format = static_cast<datasets::Format>(1 + (numbers.next(1) & 3));
  header.dtype_code = static_cast<int>(numbers.next(1) & 15);
  const int64_t files = 1 + (numbers.next(1) & 3);
  header.documents = numbers.next(2);
  header.sequences = numbers.next(2);
  header.tokens = numbers.next(2);
  header.record_bytes = numbers.next(1);
  for (int64_t i = 0; i < files; ++i) {
    const int64_t size = numbers.next(2);
    header.files.push_back({.location = "f", .bytes = size, .modified_ns = 0, .edges = std::string(32, '0')});
  }
  header.checksums.assign(static_cast<size_t>(datasets::columns_of(header.format)), std::string(32, '0'));
  const int64_t columns =
      datasets::column_offset(header, datasets::columns_of(header.format)) - datasets::header_bytes_of(header);
  std::string rows = numbers.rest();
  rows.resize(static_cast<size_t>(columns), '\0');
  const int64_t sums =
      datasets::sums_offset(header, datasets::columns_of(header.format)) - datasets::sums_offset(header, 0);
  try_index(datasets::encode_header(header) + rows + std::string(static_cast<size_t>(sums), '\0'));
}

// Of all blocks that look like headers.
std::string with_tar_checksums(std::string bytes) {
  for (size_t at = 0; at + 512 <= bytes.size(); at += 512) {
    if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
    bytes.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[at + i]);
    bytes.replace(at + 148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  }
  return bytes;
}

// The .bin is as large as the .idx wants it, when that is little.
void try_idx(const std::string& idx) {
  int64_t bytes = 0;
  for (size_t at = 34; at + 4 <= idx.size() && bytes >= 0 && bytes < 100'000; at += 4) {
    int32_t length = 0;
    std::memcpy(&length, idx.data() + at, sizeof length);
    fuzz::build(datasets::Format::kMegatron, "fuzz://d",
                {{"fuzz://d.idx", idx}, {"fuzz://d.bin", std::string(static_cast<size_t>(bytes), 'x')}});
    if (at > 34 + 16) break;
    bytes += std::max(0, length);
  }
}

void try_tar(const std::string& bytes) {
  const fuzz::Built built = fuzz::build(datasets::Format::kTar, "fuzz://t", {{"fuzz://t", bytes}});
  if (!built.index) return;
  const datasets::Reader reader(datasets::Samples::make(built.index).value(), built.opener);
  for (int64_t i = 0; i < reader.samples().count(); ++i) SCALAI_CHECK(reader.read(i).ok());
}

void try_state(const std::string& text) {
  const auto state = datasets::parse_state(text);
  if (!state.ok()) {
    SCALAI_CHECK(!message_of(state.status()).empty());
    return;
  }
  const auto again = datasets::parse_state(datasets::state_text(*state));
  SCALAI_CHECK(again.ok() && *again == *state, "a state changed when written and read");
  const datasets::Steps steps(*state);
  const int64_t step = steps.first().step;
  const datasets::RankShare share(steps, step, {2, 5});
  if (share.count() > 0) SCALAI_CHECK(share.index_of(share.position(share.count() - 1)) == share.count() - 1);
  SCALAI_CHECK(steps.step_of(steps.first().pass, steps.first().consumed).value_or(-1) == step);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'I': try_idx(rest); break;
    case 'H': try_header(rest); break;
    case 'T': try_tar(with_tar_checksums(rest)); break;
    case 'S': try_state(rest); break;
    default: try_index(rest); break;
  }
  return 0;
}
