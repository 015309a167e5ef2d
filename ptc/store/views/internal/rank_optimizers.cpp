#include "ptc/store/views/internal/rank_optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/store/torch/megatron_record.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/internal/dcp_buckets.h"
#include "ptc/store/views/internal/numbered_states.h"
#include "ptc/store/views/internal/opened_files.h"

namespace scalai::store::internal {
namespace {

constexpr const char* kOptimizer = "distrib_optim.pt";

// "0.?.param", or "1.0.?.param" of the second optimizer; the key of the dtypes is no text.
bool take_name(std::string_view name, BucketTensor& bucket) {
  const size_t key = name.rfind('.'), dtypes = name.rfind(".?.");
  if (dtypes == std::string_view::npos || dtypes + 2 != key) return false;
  const std::string_view buffer = name.substr(0, dtypes);
  const size_t dot = buffer.find('.');
  if (dot != std::string_view::npos) {
    const auto [end, error] = std::from_chars(buffer.data(), buffer.data() + dot, bucket.chain);
    if (error != std::errc() || end != buffer.data() + dot) return false;
  }
  bucket.bucket = buffer;
  bucket.key = name.substr(key + 1);
  return true;
}

// Rows of the vocabulary with their padding.
int64_t padded_rows(const Opened& opened, int tp) {
  for (const OpenedTensor& tensor : opened.files.front().tensors) {
    if (tensor.name.ends_with("embedding.word_embeddings.weight"))
      return tensor.elements / std::max<int64_t>(opened.model->model.hidden, 1) * tp;
  }
  return 0;
}

absl::Status open_distributed_optimizers(const Folder& folder, const TorchRanks& ranks, const Naming& naming,
                                         Opened& opened) {
  SCALAI_ASSIGN_OR_RETURN(const collection::ParallelConfig config, collection::parse_layout(opened.info.layout));
  std::vector<BucketTensor> buckets;
  std::map<std::string, std::vector<SummedStorage>> sums;  // by file
  LeftOut unknown, all;                                    // by their files
  const auto left_out = [&](LeftOut& left, std::string_view reason) {
    return leave_out(folder.options(), folder.path(), std::move(left), opened,
                     fmt::format("the optimizer's state in {}", kOptimizer), reason);
  };
  for (size_t rank = 0; rank < ranks.files.size(); ++rank) {
    const std::string& beside = ranks.files[rank];
    const std::string name = beside.substr(0, beside.rfind('/') + 1) + kOptimizer;
    SCALAI_ASSIGN_OR_RETURN(const bool has, folder.has(name));
    if (!has) continue;
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, folder.source(name));
    SCALAI_ASSIGN_OR_RETURN(const TorchFile file, read_torch_file(*source));
    sums[name] = file.sums;
    const int index = static_cast<int>(rank), stage = index / config.tp / config.ep;
    for (const StoredTensor& tensor : file.tensors) {
      if (tensor.bytes == 0) continue;
      BucketTensor bucket;
      const std::string named = fmt::format("{}: {}", name, tensor.name);
      all.optimizer.push_back(named);
      if (tensor.shape.size() != 1 || !take_name(tensor.name, bucket)) {
        unknown.optimizer.push_back(named);
        continue;
      }
      // Experts' is on each rank of ep, and the others' on the first of them.
      bucket.group = bucket.chain > 0 ? index : index % config.tp + config.tp * stage;
      DcpChunk chunk{
          .offsets = {0}, .sizes = tensor.shape, .file = name, .begin = tensor.offset, .bytes = tensor.bytes};
      chunk.elements = tensor.shape.front();
      chunk.bare = true;
      bucket.tensor = {.path = {tensor.name}, .dtype = tensor.dtype, .shape = tensor.shape, .chunks = {chunk}};
      buckets.push_back(std::move(bucket));
    }
  }
  if (buckets.empty()) return left_out(all, "it is in a form before that of 2024");
  const BucketLayout layout{config.tp, config.tp, padded_rows(opened, config.tp)};
  const absl::Status status = open_buckets(folder, naming, buckets, layout, Joined::kYes, opened);
  if (absl::IsFailedPrecondition(status)) return left_out(all, message_of(status));
  SCALAI_RETURN_IF_ERROR(status);
  SCALAI_RETURN_IF_ERROR(left_out(unknown, "nothing here is called so"));
  for (OpenedFile& file : opened.files) {
    for (const SummedStorage& sum : sums[file.name]) file.sums.push_back({sum.offset, sum.bytes, sum.checksum});
  }
  // Every rank has the same learning rates.
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr first, folder.source(ranks.files.front()));
  absl::StatusOr<std::string> record = record_of_rank(*first);
  if (record.ok()) {
    opened.info.common = {.bytes = *std::move(record), .listed = false};
    return absl::OkStatus();
  }
  if (!absl::IsInvalidArgument(record.status())) return record.status();
  opened.info.notes.push_back(fmt::format("left out: the optimizer's learning rates; {}", message_of(record.status())));
  return absl::OkStatus();
}

}  // namespace

absl::Status open_rank_optimizers(const Folder& folder, const TorchRanks& ranks, const Naming& naming, LeftOut left,
                                  Opened& opened) {
  const absl::Status numbered = open_numbered_states(opened);
  if (!numbered.ok() && !absl::IsFailedPrecondition(numbered)) return numbered;
  std::set<std::string> taken;
  for (const OpenedFile& file : opened.files) {
    for (const OpenedTensor& tensor : file.tensors) {
      if (!tensor.pieces.empty()) taken.insert(fmt::format("{}: {}", file.name, tensor.name));
    }
  }
  std::erase_if(left.optimizer, [&](const std::string& each) { return taken.count(each) != 0; });
  std::erase_if(left.ignored, [](const std::string& each) { return each.ends_with(".step"); });  // the job's iteration
  const std::string reason = numbered.ok() ? "nothing here is called so" : message_of(numbered);
  SCALAI_RETURN_IF_ERROR(
      leave_out(folder.options(), folder.path(), std::move(left), opened, "the optimizer's state", reason));
  return open_distributed_optimizers(folder, ranks, naming, opened);
}

}  // namespace scalai::store::internal
