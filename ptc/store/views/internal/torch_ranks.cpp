#include "ptc/store/views/internal/torch_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {
namespace {

constexpr std::string_view kRank = "mp_rank_";
constexpr const char* kFile = "model_optim_rng.pt";
constexpr int kMostRanks = 1 << 18;

using RankPlace = std::array<int, 3>;  // pp, ep, tp: the order of ranks

std::optional<int64_t> whole_number(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<int> number_of(std::string_view digits) {
  const std::optional<int64_t> value = whole_number(digits);
  return value && *value < kMostRanks ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// "mp_rank_01_000_002": tp 1, pp 0, ep 2. Without pp, a second number of three digits that grows with ep alone looks
// the same as one of pp; Megatron writes both or the first.
std::optional<RankPlace> place_of(std::string_view name) {
  if (!name.starts_with(kRank)) return std::nullopt;
  name.remove_prefix(kRank.size());
  std::vector<int> numbers;
  while (true) {
    const size_t end = std::min(name.find('_'), name.size());
    const std::optional<int> number = number_of(name.substr(0, end));
    if (!number || numbers.size() == 3) return std::nullopt;
    numbers.push_back(*number);
    if (end == name.size()) break;
    name.remove_prefix(end + 1);
  }
  numbers.resize(3, 0);
  return RankPlace{numbers[1], numbers[2], numbers[0]};
}

// "model1.decoder…": the number of the virtual stage.
std::optional<int> chunk_of(std::string_view name) {
  constexpr std::string_view kChunk = "model";
  const size_t dot = name.find('.');
  if (!name.starts_with(kChunk) || dot == std::string_view::npos) return std::nullopt;
  return number_of(name.substr(kChunk.size(), dot - kChunk.size()));
}

int chunks_of(const TorchFile& file) {
  int chunks = 1;
  for (const StoredTensor& tensor : file.tensors) chunks = std::max(chunks, chunk_of(tensor.name).value_or(0) + 1);
  return chunks;
}

}  // namespace

absl::StatusOr<std::string> newest_iteration(const Folder& folder) {
  constexpr int64_t kMostBytes = 64;
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> text, folder.text(kNewestIteration, kMostBytes));
  if (!text) return std::string();
  const std::string word = text->substr(0, text->find_first_of(" \n\r\t"));
  if (word == "release") return std::string("release/");
  const std::optional<int64_t> iteration = whole_number(word);
  if (!iteration) return invalid(fmt::format("{}: neither a number nor \"release\"", folder.path_of(kNewestIteration)));
  return fmt::format("iter_{:07}/", *iteration);
}

std::string newest_text(int64_t step) { return step < 0 ? "release" : fmt::format("{}", step); }
std::string iteration_folder(int64_t step) { return step < 0 ? "release/" : fmt::format("iter_{:07}/", step); }

collection::ParallelConfig without_copies(collection::ParallelConfig config) {
  config.dp = config.ep;
  config.cp = 1;
  config.zero = 0;
  config.order = collection::ParallelConfig().order;
  return config;
}

// The order of ranks is tp, dp (here ep), pp.
std::string torch_rank_file(const collection::ParallelConfig& config, int rank) {
  const int tp = rank % config.tp, ep = rank / config.tp % config.ep, pp = rank / config.tp / config.ep;
  std::string name = fmt::format("{}{:02}", kRank, tp);
  if (config.pp > 1) name += fmt::format("_{:03}", pp);
  if (config.ep > 1) name += fmt::format("_{:03}", ep);
  return name + "/" + kFile;
}

bool is_of_chunk(std::string_view name) { return chunk_of(name).has_value(); }

int64_t iteration_of(const std::string& path) {
  constexpr std::string_view kFolder = "iter_";
  const std::string_view last = std::string_view(path).substr(path.rfind('/') + 1);
  return last.starts_with(kFolder) ? whole_number(last.substr(kFolder.size())).value_or(-1) : -1;
}

absl::StatusOr<std::optional<TorchRanks>> torch_ranks(const Folder& folder) {
  if (!folder.local()) return std::optional<TorchRanks>();
  SCALAI_ASSIGN_OR_RETURN(const std::string below, newest_iteration(folder));
  std::map<RankPlace, std::string> found;
  RankPlace counts = {0, 0, 0};
  std::error_code error;
  const std::string path = folder.path() + "/" + below;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<RankPlace> place = place_of(name);
    if (!place) continue;
    const auto [other, fresh] = found.emplace(*place, name);
    if (!fresh) return invalid(fmt::format("{}: {} and {} are the same rank", path, other->second, name));
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = std::max(counts[i], (*place)[i] + 1);
  }
  if (found.empty()) return std::optional<TorchRanks>();
  const auto [pp, ep, tp] = counts;
  ProblemList problems;
  TorchRanks ranks;
  constexpr int64_t kMostMissing = 1'000;
  if (int64_t{pp} * ep * tp - std::ssize(found) > kMostMissing)
    return invalid(fmt::format("{}: {} ranks are there, tp{},pp{},ep{} has {}", path, found.size(), tp, pp, ep,
                               int64_t{pp} * ep * tp));
  for (int stage = 0; stage < pp; ++stage) {
    for (int expert = 0; expert < ep; ++expert) {
      for (int shard = 0; shard < tp; ++shard) {
        const auto rank = found.find({stage, expert, shard});
        if (rank != found.end())
          ranks.files.push_back(fmt::format("{}{}/{}", below, rank->second, kFile));
        else
          problems.add(fmt::format("{}: the rank with tp {}, pp {}, ep {} is missing", path, shard, stage, expert));
      }
    }
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, folder.source(ranks.files.front()));
  SCALAI_ASSIGN_OR_RETURN(const TorchFile first, read_torch_file(*source));
  ranks.iteration = first.iteration;
  ranks.layout = fmt::format("tp{},pp{}", tp, pp);
  if (ep > 1) ranks.layout += fmt::format(",dp{},ep{}", ep, ep);
  if (const int chunks = chunks_of(first); chunks > 1) ranks.layout += fmt::format(",vpp{}", chunks);
  return ranks;
}

}  // namespace scalai::store::internal
