#include "ptc/store/views/internal/dcp_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/store/views/internal/bucket_params.h"
#include "ptc/store/views/internal/chunk_files.h"
#include "ptc/store/views/internal/optimizer_keys.h"

namespace scalai::store::internal {
namespace {

using model::StateKind;

constexpr std::string_view kMasters = "param";

absl::Status cannot_tell(const std::string& reason) { return absl::FailedPreconditionError(reason); }

// Takes `mark` and the number behind it from the front.
bool take_number(std::string_view& text, std::string_view mark, int& number) {
  if (!text.starts_with(mark)) return false;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + mark.size(), end, number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(after - text.data()));
  return true;
}

std::optional<BucketTensor> as_bucket(const DcpTensor& tensor) {
  BucketTensor found;
  std::string_view name = tensor.path.back();
  if (take_number(name, "chained_", found.chain)) {
    if (!name.starts_with('.')) return std::nullopt;
    name.remove_prefix(1);
  }
  if (tensor.shape.size() != 1 || !take_number(name, "optimizer.distributed.dp_group_idx_", found.group))
    return std::nullopt;
  const size_t key = name.rfind('.');
  if (!name.starts_with(".gbuf_idx_") || name.find(".bucket_idx_") == std::string_view::npos) return std::nullopt;
  found.bucket = name.substr(0, key);
  found.key = name.substr(key + 1);
  found.tensor = tensor;
  return found;
}

// The masters of one bucket, from its chunks.
class Masters {
 public:
  static absl::StatusOr<Masters> open(const DcpTensor& tensor, ChunkFiles& files, const Opened& opened) {
    Masters masters(tensor.dtype, opened);
    for (const DcpChunk& chunk : tensor.chunks) {
      SCALAI_ASSIGN_OR_RETURN(const ChunkFiles::Located found, files.locate(tensor, chunk, tensor.path.back()));
      masters.chunks_[chunk.offsets.front()] = {found.file, found.tensor.offset, found.tensor.elements};
    }
    return masters;
  }

  absl::StatusOr<bool> are_of(const Sample& sample, int64_t begin, tensor::DType dtype) {
    if (!tensor::convertible(dtype_, dtype)) return false;
    const auto count = std::ssize(sample.known);
    std::vector<std::byte>& cast = read_[{begin, count}];
    if (cast.empty()) {
      std::vector<std::byte> stored(static_cast<size_t>(count * tensor::size_of(dtype_)));
      SCALAI_RETURN_IF_ERROR(read(begin, count, stored));
      cast.resize(static_cast<size_t>(count * tensor::size_of(dtype)));
      tensor::convert(dtype_, dtype, count, stored.data(), cast.data());
    }
    const auto size = static_cast<size_t>(tensor::size_of(dtype));
    for (size_t i = 0; i < sample.known.size(); ++i) {
      if (sample.known[i] && std::memcmp(&cast[i * size], &sample.bytes[i * size], size) != 0) return false;
    }
    return true;
  }

 private:
  struct Chunk {
    size_t file = 0;
    int64_t offset = 0, elements = 0;
  };
  Masters(tensor::DType dtype, const Opened& opened) : dtype_(dtype), opened_(&opened) {}

  // What no chunk has stays 0.
  absl::Status read(int64_t begin, int64_t count, std::span<std::byte> out) const {
    const int64_t size = tensor::size_of(dtype_);
    auto chunk = chunks_.upper_bound(begin);
    if (chunk != chunks_.begin()) --chunk;
    for (; chunk != chunks_.end() && chunk->first < begin + count; ++chunk) {
      const int64_t from = std::max(begin, chunk->first);
      const int64_t to = std::min(begin + count, chunk->first + chunk->second.elements);
      if (from >= to) continue;
      SCALAI_RETURN_IF_ERROR(opened_->files[chunk->second.file].source->read(
          chunk->second.offset + (from - chunk->first) * size,
          out.subspan(static_cast<size_t>((from - begin) * size), static_cast<size_t>((to - from) * size))));
    }
    return absl::OkStatus();
  }

  tensor::DType dtype_;
  const Opened* opened_;
  std::map<int64_t, Chunk> chunks_;  // by their first element
  std::map<std::pair<int64_t, int64_t>, std::vector<std::byte>> read_;
};

// A bucket of one rank, and what it has of the states.
struct Bucket {
  int rank = 0;
  BufferOf of = BufferOf::kAll;
  int64_t elements = 0;
  std::map<StateKind, const BucketTensor*> states;
  // Once they are found: the parameters in it.
  std::vector<std::pair<ArrangedTensor, int64_t>> params;
};

// The buckets, and the layout without pp whose ranks they are of.
struct Buckets {
  collection::ParallelConfig config;
  BufferOf dense = BufferOf::kAll;
  std::vector<Bucket> all;
  Joined joined = Joined::kNo;
};

absl::StatusOr<Buckets> buckets_of(const std::vector<BucketTensor>& tensors, const BucketLayout& layout, bool experts) {
  int last = -1, first = tensors.front().chain;
  for (const BucketTensor& tensor : tensors) {
    last = std::max(last, tensor.chain);
    first = std::min(first, tensor.chain);
  }
  const bool apart = experts && last > first;
  std::set<int> dense_groups, expert_groups;
  for (const BucketTensor& tensor : tensors)
    (apart && tensor.chain == last ? expert_groups : dense_groups).insert(tensor.group);
  // Each is there, from 0 on; so there are not more of them than tensors.
  const int64_t dense = std::ssize(dense_groups), of_experts = std::ssize(expert_groups);
  const int64_t tp = layout.tp, etp = apart ? layout.etp : layout.tp;
  const int64_t pp = dense / tp, in_stage = etp <= std::max<int64_t>(of_experts, 1) ? etp * pp : 0;
  const bool all = *dense_groups.rbegin() == dense - 1 && (!apart || *expert_groups.rbegin() == of_experts - 1);
  constexpr int64_t kMostRanks = 1 << 20;
  const int64_t ep = apart && in_stage > 0 ? of_experts / in_stage : 1;
  const int64_t world = dense % tp == 0 ? std::lcm(tp, apart ? etp * ep : 1) : 0;
  if (!all || dense % tp != 0 || (apart && (in_stage == 0 || of_experts % in_stage != 0)) || world > kMostRanks)
    return cannot_tell(fmt::format("they are of {} ranks ({} with experts), the parameters of tp{}, etp{}", dense,
                                   of_experts, tp, etp));
  Buckets result;
  result.config.tp = static_cast<int>(tp);
  result.config.etp = static_cast<int>(etp);
  result.config.ep = static_cast<int>(ep);
  result.config.dp = static_cast<int>(world / tp);
  result.dense = apart ? BufferOf::kDense : BufferOf::kAll;
  std::map<std::tuple<int, int, std::string>, Bucket> by_name;
  for (const BucketTensor& tensor : tensors) {
    const bool expert = apart && tensor.chain == last;
    Bucket& bucket = by_name[{tensor.chain, tensor.group, tensor.bucket}];
    bucket.rank = tensor.group % (expert ? result.config.etp * result.config.ep : result.config.tp);
    bucket.of = expert ? BufferOf::kExperts : result.dense;
    const std::optional<StateKind> kind = tensor.key == kMasters ? StateKind::kMaster : kind_of_key(tensor.key);
    if (!kind) return cannot_tell(fmt::format("nothing here is called \"{}\"", clipped(tensor.key, 40)));
    if (!bucket.states.emplace(*kind, &tensor).second)
      return cannot_tell(fmt::format("\"{}\" of a bucket is there twice", clipped(tensor.key, 40)));
    bucket.elements = tensor.tensor.shape.front();
  }
  for (auto& [name, bucket] : by_name) {
    if (bucket.states.count(StateKind::kMaster) == 0)
      return cannot_tell(fmt::format("\"{}\" has no masters", clipped(std::get<2>(name), 120)));
    for (const auto& [kind, tensor] : bucket.states) {
      if (tensor->tensor.shape.front() != bucket.elements)
        return cannot_tell(fmt::format("the tensors of \"{}\" differ in size", clipped(std::get<2>(name), 120)));
    }
    result.all.push_back(std::move(bucket));
  }
  return result;
}

// Finds the parameters of all buckets in this order; whether all are there.
absl::StatusOr<bool> find_params(const BufferOrder& order, LayoutRanks& ranks, std::vector<Masters>& masters,
                                 Buckets& buckets) {
  std::map<std::pair<int, BufferOf>, std::vector<RankParams>> made;
  std::set<std::tuple<int, BufferOf, std::string>> wanted, placed;
  for (size_t b = 0; b < buckets.all.size(); ++b) {
    Bucket& bucket = buckets.all[b];
    const auto [held, fresh] = made.try_emplace({bucket.rank, bucket.of});
    if (fresh) {
      SCALAI_ASSIGN_OR_RETURN(held->second, ranks.params(bucket.rank, bucket.of, order));
    }
    bucket.params.clear();
    for (const RankParams& params : held->second) {
      for (const ArrangedTensor& tensor : params.tensors) wanted.emplace(bucket.rank, bucket.of, tensor.name);
      const AreMasters are_masters = [&](const Sample& sample, int64_t begin) {
        return masters[b].are_of(sample, begin, params.dtype);
      };
      SCALAI_ASSIGN_OR_RETURN(const auto found,
                              find_in_bucket(params.params, bucket.elements, buckets.joined, are_masters));
      for (const InBucket& each : found) {
        bucket.params.emplace_back(params.tensors[each.param], each.begin);
        placed.emplace(bucket.rank, bucket.of, params.tensors[each.param].name);
      }
      if (!found.empty()) break;
    }
    if (bucket.params.empty()) return false;
  }
  return placed == wanted;
}

// The states of a bucket: its chunks with the parameters in them.
absl::Status add_bucket(const Bucket& bucket, ChunkFiles& files, Opened& opened) {
  for (const auto& [kind, state] : bucket.states) {
    for (const DcpChunk& chunk : state->tensor.chunks) {
      SCALAI_ASSIGN_OR_RETURN(ChunkFiles::Located found, files.locate(state->tensor, chunk, state->tensor.path.back()));
      const int64_t begin = chunk.offsets.front(), end = begin + chunk.sizes.front();
      for (const auto& [param, at] : bucket.params) {
        const int64_t from = std::max(begin, at), to = std::min(end, at + elements_of(param));
        if (from >= to) continue;
        SCALAI_ASSIGN_OR_RETURN(std::vector<PlacedPiece> pieces, pieces_of_stretch(param, from - at, to - at));
        for (PlacedPiece& placed : pieces) {
          placed.logical += fmt::format(".{}", model::name_of(kind));
          placed.piece.offset += from - begin;
          found.tensor.pieces.push_back(std::move(placed));
        }
      }
      if (!found.tensor.pieces.empty()) opened.files[found.file].tensors.push_back(std::move(found.tensor));
    }
  }
  return absl::OkStatus();
}

// The states that buckets have of all parameters; behind those that are there.
absl::Status add_states(const Buckets& buckets, Opened& opened) {
  std::map<StateKind, tensor::DType> dtypes;
  for (const auto& [kind, state] : buckets.all.front().states) dtypes[kind] = state->tensor.dtype;
  for (const Bucket& bucket : buckets.all) {
    for (const auto& [kind, dtype] : dtypes) {
      const auto found = bucket.states.find(kind);
      if (bucket.states.size() != dtypes.size() || found == bucket.states.end() || found->second->tensor.dtype != dtype)
        return cannot_tell("they differ in what they have");
    }
  }
  const size_t params = opened.states.size();
  for (const auto& [kind, dtype] : dtypes) {
    for (size_t i = 0; i < params; ++i) {
      if (opened.states[i].kind != StateKind::kParam) continue;
      LogicalState state = opened.states[i];
      state.name += fmt::format(".{}", model::name_of(kind));
      state.kind = kind;
      state.dtype = dtype;
      opened.states.push_back(std::move(state));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<BucketTensor> take_buckets(std::vector<DcpTensor>& tensors) {
  std::vector<BucketTensor> buckets;
  std::erase_if(tensors, [&](const DcpTensor& tensor) {
    std::optional<BucketTensor> bucket = as_bucket(tensor);
    if (!bucket) return false;
    buckets.push_back(*std::move(bucket));
    return true;
  });
  return buckets;
}

BucketLayout bucket_layout(const std::vector<DcpTensor>& tensors) {
  BucketLayout layout;
  // How often the first chunk goes into the dimension.
  const auto parts = [](const DcpTensor& tensor, size_t dim) {
    return tensor.chunks.empty() ? 1 : tensor.shape[dim] / tensor.chunks.front().sizes[dim];
  };
  for (const DcpTensor& tensor : tensors) {
    const std::string& name = tensor.path.back();
    if (tensor.shape.size() < 2) continue;
    if (name == "embedding.word_embeddings.weight") {
      layout.tp = parts(tensor, 0);
      layout.vocabulary_rows = tensor.shape.front();
    }
    if (name.find(".mlp.experts.") != std::string::npos && name.ends_with(".linear_fc2.weight"))
      layout.etp = parts(tensor, tensor.shape.size() - 1);
  }
  return layout;
}

absl::Status open_buckets(const Folder& folder, const Naming& naming, const std::vector<BucketTensor>& tensors,
                          const BucketLayout& layout, Joined joined, Opened& opened) {
  SCALAI_CHECK(!tensors.empty());
  SCALAI_ASSIGN_OR_RETURN(Buckets buckets, buckets_of(tensors, layout, opened.model->model.experts > 0));
  buckets.joined = joined;
  absl::StatusOr<LayoutRanks> ranks = LayoutRanks::make(naming, buckets.config, layout.vocabulary_rows, opened);
  if (!ranks.ok()) return cannot_tell(message_of(ranks.status()));
  ChunkFiles files(folder, opened);
  std::vector<Masters> masters;
  for (const Bucket& bucket : buckets.all) {
    SCALAI_ASSIGN_OR_RETURN(Masters opened_masters,
                            Masters::open(bucket.states.at(StateKind::kMaster)->tensor, files, opened));
    masters.push_back(std::move(opened_masters));
  }
  bool found = false;
  for (const BufferOrder& order : kBufferOrders) {
    SCALAI_ASSIGN_OR_RETURN(found, find_params(order, *ranks, masters, buckets));
    if (found) break;
  }
  if (!found) return cannot_tell("their masters are not those of the parameters in any order known here");
  SCALAI_RETURN_IF_ERROR(add_states(buckets, opened));
  for (const Bucket& bucket : buckets.all) SCALAI_RETURN_IF_ERROR(add_bucket(bucket, files, opened));
  files.finish();
  return absl::OkStatus();
}

}  // namespace scalai::store::internal
