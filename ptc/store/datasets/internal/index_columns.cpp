#include "ptc/store/datasets/internal/index_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

constexpr int64_t kRowsABlock = kBlockBytes / 8;
constexpr size_t kMostKept = 16;
// So many rows of one block in a row are no accident: it is read whole again.
constexpr int kMostMisses = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<const IndexColumns>> IndexColumns::open(ByteSourcePtr source,
                                                                       const IndexHeader& header) {
  std::unique_ptr<IndexColumns> opened(new IndexColumns(std::move(source)));
  for (int i = 0; i < columns_of(header.format); ++i) {
    Column column{.begin = column_offset(header, i), .rows = rows_of(header, i)};
    const int64_t blocks = blocks_of(header, i);
    column.sums.resize(static_cast<size_t>(blocks * kBlockSumBytes));
    column.checked.resize(static_cast<size_t>(blocks));
    const auto sums = std::as_writable_bytes(std::span(column.sums));
    SCALAI_RETURN_IF_ERROR(opened->source_->read(sums_offset(header, i), sums));
    if (checksum_of(column.sums) != header.checksums[static_cast<size_t>(i)]) {
      return invalid(fmt::format("{}: the checksums of column {} are damaged; build it again with `scalai data index`",
                                 opened->source_->name(), i));
    }
    opened->columns_.push_back(std::move(column));
  }
  return std::unique_ptr<const IndexColumns>(std::move(opened));
}

IndexColumns::BlockPtr IndexColumns::recall(int column, int64_t number, bool& single) const {
  const std::lock_guard lock(mutex_);
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if ((*it)->number != number || (*it)->column != column) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front();
  }
  Column& of = columns_[static_cast<size_t>(column)];
  of.misses = of.missed_block == number ? of.misses + 1 : 1;
  of.missed_block = number;
  single = of.checked[static_cast<size_t>(number)] != 0 && of.misses < kMostMisses;
  return nullptr;
}

absl::StatusOr<IndexColumns::BlockPtr> IndexColumns::load(int column, int64_t number) const {
  const Column& of = columns_[static_cast<size_t>(column)];
  const int64_t offset = number * kBlockBytes;
  auto block = std::make_shared<Block>(Block{.column = column, .number = number});
  block->bytes.resize(static_cast<size_t>(std::min(kBlockBytes, 8 * of.rows - offset)));
  SCALAI_RETURN_IF_ERROR(source_->read(of.begin + offset, std::as_writable_bytes(std::span(block->bytes))));
  const std::string_view sum = std::string_view(of.sums).substr(static_cast<size_t>(number * kBlockSumBytes),
                                                                static_cast<size_t>(kBlockSumBytes));
  if (block_sum_of(block->bytes) == sum) return BlockPtr(std::move(block));
  return invalid(
      fmt::format("{}: the checksum of block {} of column {} does not fit: the index is damaged; build it again with "
                  "`scalai data index`",
                  source_->name(), number, column));
}

void IndexColumns::keep(const BlockPtr& block) const {
  const std::lock_guard lock(mutex_);
  columns_[static_cast<size_t>(block->column)].checked[static_cast<size_t>(block->number)] = 1;
  for (const BlockPtr& other : recent_) {
    if (other->number == block->number && other->column == block->column) return;  // another thread was as quick
  }
  recent_.push_front(block);
  if (recent_.size() > kMostKept) recent_.pop_back();
}

absl::Status IndexColumns::read(int column, int64_t first, std::span<int64_t> rows) const {
  const Column& of = columns_[static_cast<size_t>(column)];
  SCALAI_CHECK(first >= 0 && static_cast<int64_t>(rows.size()) <= of.rows - first);
  while (!rows.empty()) {
    const int64_t number = first / kRowsABlock, inside = first % kRowsABlock;
    const std::span<int64_t> here = rows.first(std::min(rows.size(), static_cast<size_t>(kRowsABlock - inside)));
    bool single = false;
    BlockPtr block = recall(column, number, single);
    if (!block && single) {
      SCALAI_RETURN_IF_ERROR(source_->read(of.begin + 8 * first, std::as_writable_bytes(here)));
    } else {
      if (!block) {
        SCALAI_ASSIGN_OR_RETURN(block, load(column, number));
        keep(block);
      }
      std::memcpy(here.data(), block->bytes.data() + 8 * inside, here.size_bytes());
    }
    rows = rows.subspan(here.size());
    first += static_cast<int64_t>(here.size());
  }
  return absl::OkStatus();
}

absl::Status IndexColumns::check_all() const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const auto blocks = static_cast<int64_t>(columns_[i].checked.size());
    for (int64_t number = 0; number < blocks; ++number) {
      SCALAI_RETURN_IF_ERROR(load(static_cast<int>(i), number).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace scalai::datasets
