#include "ptc/store/safetensors/internal/gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::store {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;
constexpr int64_t kDirectRunBytes = int64_t{1} << 16;
// Reading a gap of up to this many times the run costs less than another system call.
constexpr int64_t kNearRuns = 8;

// Dimensions [dim, rank) are one run: the inner ones are whole in both boxes.
int first_dim_of_run(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common) {
  int dim = common.rank;
  while (dim > 0) {
    --dim;
    if (common.extent(dim) != stored.extent(dim) || common.extent(dim) != wanted.extent(dim)) return dim;
  }
  return dim;
}

int64_t offset_in(const tensor::Box& box, const std::array<int64_t, tensor::kMaxRank>& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
    offset = offset * box.extent(static_cast<int>(d)) + index[d] - box.lo[d];
  }
  return offset;
}

// Short runs through one buffer of the file's bytes around them.
class BlockReader {
 public:
  BlockReader(const SafetensorsFile& file, const StoredTensor& tensor, int64_t end)
      : file_(file), tensor_(tensor), end_(end) {}

  absl::Status copy(int64_t offset, std::span<std::byte> dst) {
    const auto size = static_cast<int64_t>(dst.size());
    if (offset < begin_ || offset + size > begin_ + static_cast<int64_t>(block_.size())) {
      begin_ = offset;
      block_.resize(static_cast<size_t>(std::max(size, std::min(kBlockBytes, end_ - offset))));
      SCALAI_RETURN_IF_ERROR(file_.read(tensor_, begin_, block_));
    }
    std::memcpy(dst.data(), block_.data() + (offset - begin_), dst.size());
    return absl::OkStatus();
  }

 private:
  const SafetensorsFile& file_;
  const StoredTensor& tensor_;
  int64_t end_;  // of the last run: nothing after it is read
  int64_t begin_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace

Runs runs_of(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common) {
  SCALAI_CHECK(!common.empty() && stored.contains(common) && wanted.contains(common));
  Runs runs{.elements = 1, .count = 1};
  const int first = first_dim_of_run(stored, wanted, common);
  for (int dim = 0; dim < common.rank; ++dim) (dim < first ? runs.count : runs.elements) *= common.extent(dim);
  return runs;
}

Run first_run_of(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common) {
  return {offset_in(stored, common.lo), offset_in(wanted, common.lo)};
}

absl::Status for_each_run(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common,
                          const std::function<absl::Status(const Run&)>& visit) {
  const Runs runs = runs_of(stored, wanted, common);
  const int first = first_dim_of_run(stored, wanted, common);
  std::array<int64_t, tensor::kMaxRank> index = common.lo;
  for (int64_t i = 0; i < runs.count; ++i) {
    SCALAI_RETURN_IF_ERROR(visit({offset_in(stored, index), offset_in(wanted, index)}));
    for (int dim = first - 1; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++index[d] < common.hi[d]) break;
      index[d] = common.lo[d];
    }
  }
  return absl::OkStatus();
}

absl::Status read_common(const SafetensorsFile& file, const StoredTensor& tensor, const tensor::Box& stored,
                         const tensor::Box& wanted, const tensor::Box& common, std::span<std::byte> dst) {
  const int64_t size = tensor::size_of(tensor.dtype);
  const Runs runs = runs_of(stored, wanted, common);
  const int64_t run_bytes = runs.elements * size;
  std::array<int64_t, tensor::kMaxRank> last = common.hi;
  for (size_t d = 0; d < static_cast<size_t>(common.rank); ++d) --last[d];
  const int64_t begin = offset_in(stored, common.lo) * size;
  const int64_t end = (offset_in(stored, last) + 1) * size;
  const bool near = (end - begin) / run_bytes <= kNearRuns * runs.count;
  const bool direct = run_bytes >= kDirectRunBytes || !near;
  BlockReader blocks(file, tensor, end);
  return for_each_run(stored, wanted, common, [&](const Run& run) {
    const std::span<std::byte> to = dst.subspan(static_cast<size_t>(run.dst * size), static_cast<size_t>(run_bytes));
    return direct ? file.read(tensor, run.src * size, to) : blocks.copy(run.src * size, to);
  });
}

}  // namespace scalai::store
