#include "ptc/store/datasets/views/rank_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/datasets/views/internal/idx_image.h"
#include "ptc/store/datasets/views/internal/shard_image.h"

namespace scalai::datasets {
namespace {

constexpr int64_t kTarEndBytes = 2 * 512;

std::vector<std::string_view> suffixes_of(Format format) {
  switch (format) {
    case Format::kMegatron: return {".bin", ".idx"};
    case Format::kTfRecord: return {".tfrecord"};
    case Format::kTar: return {".tar"};
    case Format::kFixed: return {".bin"};
  }
  SCALAI_CHECK(false);
  return {};
}

int64_t end_bytes_of(Format format) { return format == Format::kTar ? kTarEndBytes : 0; }

std::string text_of(std::string_view digest) { return digest.empty() ? "no index" : "index " + std::string(digest); }

absl::Status check_request(const RankView::Request& request) {
  const State& state = request.state;
  const Samples& samples = *request.samples;
  SCALAI_RETURN_IF_ERROR(validate(state));
  if (state.index != samples.index().digest()) {
    return invalid(fmt::format("{} has digest {}, the state is of {}", samples.index().path(), samples.index().digest(),
                               text_of(state.index)));
  }
  if (state.sequence != samples.sequence() || state.samples != samples.count()) {
    return invalid(fmt::format("the state counts {} samples (sequence {}), the dataset has {} (sequence {})",
                               state.samples, state.sequence, samples.count(), samples.sequence()));
  }
  if (request.who.dp < 1 || request.who.rank < 0 || request.who.rank >= request.who.dp) {
    return invalid(fmt::format("there is no rank {} with dp {}", request.who.rank, request.who.dp));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RankView>> RankView::make(Request request) {
  SCALAI_CHECK(request.samples != nullptr && request.files != nullptr);
  SCALAI_CHECK(&request.files->index() == &request.samples->index());
  SCALAI_RETURN_IF_ERROR(check_request(request));
  if (request.tables == nullptr) request.tables = std::make_shared<ShardTables>();
  const RankShare share(Steps(request.state), request.state.step, request.who);
  return std::shared_ptr<const RankView>(new RankView(std::move(request), share));
}

RankView::RankView(Request request, RankShare share)
    : samples_(std::move(request.samples)),
      files_(std::move(request.files)),
      tables_(std::move(request.tables)),
      id_(tables_->new_view()),
      share_(share),
      order_(samples_->count(), request.state.shuffle, request.state.seed),
      name_(fmt::format("dp{}/step-{}/{}", request.who.dp, request.state.step, folder_of(request.who.rank))) {}

std::string RankView::folder_of(int rank) { return fmt::format("rank_{:02}", rank); }

int64_t RankView::shards() const { return (share_.count() + kShardSamples - 1) / kShardSamples; }

int64_t RankView::samples_in(int64_t shard) const {
  return std::min(kShardSamples, share_.count() - shard * kShardSamples);
}

int64_t RankView::files() const {
  return shards() * static_cast<int64_t>(suffixes_of(samples_->index().format()).size());
}

std::string RankView::file_name(int64_t file) const {
  SCALAI_CHECK(file >= 0 && file < files());
  const std::vector<std::string_view> suffixes = suffixes_of(samples_->index().format());
  const auto per_shard = static_cast<int64_t>(suffixes.size());
  return fmt::format("shard_{:05}{}", file / per_shard, suffixes[static_cast<size_t>(file % per_shard)]);
}

std::optional<int64_t> RankView::find(std::string_view file_name) const {
  constexpr std::string_view kPrefix = "shard_";
  if (file_name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  int64_t shard = 0;
  const char* const end = file_name.data() + file_name.size();
  const std::from_chars_result number = std::from_chars(file_name.data() + kPrefix.size(), end, shard);
  if (number.ec != std::errc{} || shard < 0 || shard >= shards()) return std::nullopt;
  const std::vector<std::string_view> suffixes = suffixes_of(samples_->index().format());
  const auto suffix = std::find(suffixes.begin(), suffixes.end(), std::string_view(number.ptr, end - number.ptr));
  if (suffix == suffixes.end()) return std::nullopt;
  const int64_t file = shard * static_cast<int64_t>(suffixes.size()) + (suffix - suffixes.begin());
  if (this->file_name(file) != file_name) return std::nullopt;  // such as shard_1.bin
  return file;
}

absl::StatusOr<ShardTablePtr> RankView::make_table(int64_t shard) const {
  const auto count = static_cast<size_t>(samples_in(shard));
  const bool sequences = samples_->index().format() == Format::kMegatron && samples_->bytes_each() == 0;
  auto table = std::make_shared<ShardTable>();
  table->bytes_each = samples_->bytes_each();
  table->samples.reserve(count);
  if (table->bytes_each == 0) table->ends.reserve(count);
  if (sequences) table->sequence_ends.reserve(count);
  std::vector<int32_t> lengths;
  int64_t bytes = 0, sequences_end = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t sample = sample_at(shard * kShardSamples + static_cast<int64_t>(i));
    table->samples.push_back(sample);
    if (table->bytes_each > 0) continue;
    SCALAI_ASSIGN_OR_RETURN(const int64_t of_sample, samples_->bytes(sample));
    table->ends.push_back(bytes += of_sample);
    if (!sequences) continue;
    lengths.clear();
    SCALAI_RETURN_IF_ERROR(samples_->sequence_lengths(sample, lengths));
    table->sequence_ends.push_back(sequences_end += static_cast<int64_t>(lengths.size()));
  }
  return table;
}

absl::StatusOr<ShardTablePtr> RankView::table_of(int64_t shard) const {
  if (ShardTablePtr table = tables_->find(id_, shard)) return table;
  SCALAI_ASSIGN_OR_RETURN(ShardTablePtr table, make_table(shard));
  tables_->keep(id_, shard, table);
  return table;
}

absl::StatusOr<int64_t> RankView::file_bytes(int64_t file) const {
  SCALAI_CHECK(file >= 0 && file < files());
  const Format format = samples_->index().format();
  const auto per_shard = static_cast<int64_t>(suffixes_of(format).size());
  const int64_t shard = file / per_shard;
  const int64_t count = samples_in(shard);
  const bool index = file % per_shard == 1;
  if (const int64_t each = samples_->bytes_each(); each > 0) {
    return index ? internal::idx_bytes(count, count) : count * each + end_bytes_of(format);
  }
  SCALAI_ASSIGN_OR_RETURN(const ShardTablePtr table, table_of(shard));
  return index ? internal::idx_bytes(table->sequence_ends.back(), count) : table->ends.back() + end_bytes_of(format);
}

absl::StatusOr<ByteSourcePtr> RankView::open(int64_t file) const {
  SCALAI_CHECK(file >= 0 && file < files());
  const Format format = samples_->index().format();
  const auto per_shard = static_cast<int64_t>(suffixes_of(format).size());
  SCALAI_ASSIGN_OR_RETURN(ShardTablePtr table, table_of(file / per_shard));
  internal::ShardParts parts = {
      .name = name_ + "/" + file_name(file), .samples = samples_, .files = files_, .table = std::move(table)};
  if (file % per_shard == 1) return internal::make_idx_image(std::move(parts));
  return internal::make_shard_image(std::move(parts), end_bytes_of(format));
}

}  // namespace scalai::datasets
