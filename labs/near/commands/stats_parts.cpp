#include "labs/near/commands/stats_parts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/checkpoint/checkpoint_options.h"
#include "apps/checkpoint/commands.h"
#include "apps/checkpoint/stats.h"
#include "apps/checkpoint/stats_json.h"
#include "apps/common/output.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using nlohmann::json;
using store::CopyBlock;

int64_t bytes_of(const StatsSide& side, int64_t elements) { return elements * tensor::size_of(side.dtype); }

absl::StatusOr<std::vector<std::byte>> gathered(const StatsSide& side, int64_t elements,
                                                const std::vector<ByteSourcePtr>& sources) {
  std::vector<std::byte> bytes(static_cast<size_t>(bytes_of(side, elements)));
  store::Gatherer gatherer;
  for (const CopyBlock& block : side.blocks)
    SCALAI_RETURN_IF_ERROR(gatherer.copy(block, *sources.at(block.file), 0, bytes));
  return bytes;
}

json json_of(const CopyBlock& block) {
  const auto some = [&](const auto& all) { return json(std::vector<int64_t>(all.begin(), all.begin() + block.dims)); };
  return json::array(
      {block.file, block.src, block.dst, some(block.extent), some(block.src_stride), some(block.dst_stride)});
}

json json_of(const std::vector<CopyBlock>& blocks) {
  json all = json::array();
  for (const CopyBlock& block : blocks) all.push_back(json_of(block));
  return all;
}

struct StatsWork {
  std::vector<StatsFile> files;
  std::vector<StatsPart> parts;
};

// nullopt: a block that does not fit the file or the part.
std::optional<CopyBlock> block_of(const json& text, const std::vector<StatsFile>& files, int64_t dst_bytes) {
  const auto extents = text.at(3).get<std::vector<int64_t>>(), from = text.at(4).get<std::vector<int64_t>>(),
             to = text.at(5).get<std::vector<int64_t>>();
  const size_t dims = extents.size();
  if (dims == 0 || dims > CopyBlock::kMaxDims || from.size() != dims || to.size() != dims) return std::nullopt;
  CopyBlock block{.file = text.at(0).get<uint32_t>(),
                  .dims = static_cast<uint32_t>(dims),
                  .src = text.at(1).get<int64_t>(),
                  .dst = text.at(2).get<int64_t>()};
  if (block.file >= files.size()) return std::nullopt;
  const int64_t src_bytes = files[block.file].bytes;
  const auto within = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
  if (!within(block.src, 0, src_bytes) || !within(block.dst, 0, dst_bytes)) return std::nullopt;
  int64_t src_end = block.src, dst_end = block.dst;
  const auto reach = [](int64_t& end, int64_t extent, int64_t stride) {
    int64_t span = 0;
    return !__builtin_mul_overflow(extent - 1, stride, &span) && !__builtin_add_overflow(end, span, &end);
  };
  for (size_t d = 0; d < dims; ++d) {
    if (!within(extents[d], 1, dst_bytes) || !within(from[d], 0, src_bytes) || !within(to[d], 0, dst_bytes))
      return std::nullopt;
    block.extent[d] = extents[d], block.src_stride[d] = from[d], block.dst_stride[d] = to[d];
    if (!reach(src_end, extents[d], from[d]) || !reach(dst_end, extents[d], to[d])) return std::nullopt;
  }
  if (src_end >= src_bytes || dst_end >= dst_bytes || from.back() != 1 || to.back() != 1) return std::nullopt;
  return block;
}

absl::StatusOr<StatsSide> side_of(const json& blocks, const std::string& dtype, const StatsWork& work,
                                  int64_t elements) {
  StatsSide side;
  SCALAI_ASSIGN_OR_RETURN(side.dtype, tensor::parse_dtype(dtype));
  int64_t written = 0;
  for (const json& text : blocks) {
    const auto block = block_of(text, work.files, bytes_of(side, elements));
    if (!block) return invalid("a block that does not fit its file or its part");
    side.blocks.push_back(*block);
    written += block->bytes();
  }
  if (written != bytes_of(side, elements)) return invalid("blocks that are not the part's elements");
  return side;
}

absl::StatusOr<StatsWork> read_work(const std::string& path) try {
  constexpr int64_t kMostElements = int64_t{1} << 32;
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  SCALAI_ASSIGN_OR_RETURN(const json all, read_json(text, path));
  StatsWork work;
  for (const json& file : all.at("files")) {
    const std::optional<std::string> name = bytes_of_json(file.at(0));
    if (!name) return invalid(path + ": a file without a name");
    work.files.push_back({*name, file.at(1).get<int64_t>()});
  }
  for (const json& one : all.at("parts")) {
    StatsPart part{.elements = one.at("elements").get<int64_t>(), .now = {}, .before = {}};
    if (part.elements < 1 || part.elements > kMostElements) return invalid(path + ": a part without elements");
    SCALAI_ASSIGN_OR_RETURN(part.now,
                            side_of(one.at("blocks"), one.at("dtype").get<std::string>(), work, part.elements));
    if (one.contains("before")) {
      SCALAI_ASSIGN_OR_RETURN(
          part.before, side_of(one.at("before"), one.at("before_dtype").get<std::string>(), work, part.elements));
    }
    work.parts.push_back(std::move(part));
  }
  return work;
} catch (const json::exception& error) {  // of another release
  return invalid(fmt::format("{}: is no work of this release: {}", path, error.what()));
}

absl::StatusOr<std::vector<ByteSourcePtr>> open_files(const std::vector<StatsFile>& files) {
  std::vector<ByteSourcePtr> sources;
  for (const StatsFile& file : files) {
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, open_file_source(file.path));
    if (source->size() != file.bytes)
      return invalid(fmt::format("{}: has {} bytes now, and had {}", file.path, source->size(), file.bytes));
    sources.push_back(std::move(source));
  }
  return sources;
}

int stats_parts_main(const Arguments& arguments) {
  raise_open_files();  // a checkpoint of a thousand ranks has as many files
  const auto work = read_work(arguments.positional()[0]);
  if (!work.ok()) return report_error(work.status());
  const auto sources = open_files(work->files);
  if (!sources.ok()) return report_error(sources.status());
  std::vector<PartStats> stats(work->parts.size());
  const absl::Status looked =
      try_parallel_for(static_cast<int>(hardware_threads()), stats.size(), [&](size_t i) -> absl::Status {
        SCALAI_ASSIGN_OR_RETURN(stats[i], stats_of_part(work->parts[i], *sources));
        return absl::OkStatus();
      });
  if (!looked.ok()) return report_error(looked);
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const PartStats& one : stats) {
    nlohmann::ordered_json part = apps::json_of(one.elements);
    part["magnitudes"] = json_of_magnitudes(one.elements);
    if (one.change) part["change"] = apps::json_of(*one.change);
    parts.push_back(std::move(part));
  }
  print("{}\n", json_text(nlohmann::ordered_json{{"parts", std::move(parts)}}));
  return 0;
}

}  // namespace

absl::StatusOr<PartStats> stats_of_part(const StatsPart& part, const std::vector<ByteSourcePtr>& sources) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> now, gathered(part.now, part.elements, sources));
  PartStats stats{.elements = tensor::stats_of(part.now.dtype, part.elements, now.data()), .change = {}};
  if (!part.before) return stats;
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> before, gathered(*part.before, part.elements, sources));
  stats.change = tensor::change_of(part.elements, part.now.dtype, now.data(), part.before->dtype, before.data());
  return stats;
}

std::string work_text(const std::vector<StatsFile>& files, const std::vector<const StatsPart*>& parts) {
  json all = {{"files", json::array()}, {"parts", json::array()}};
  for (const StatsFile& file : files) all["files"].push_back(json::array({json_of_bytes(file.path), file.bytes}));
  for (const StatsPart* part : parts) {
    json one = {{"dtype", tensor::name_of(part->now.dtype)},
                {"elements", part->elements},
                {"blocks", json_of(part->now.blocks)}};
    if (part->before) {
      one["before_dtype"] = tensor::name_of(part->before->dtype);
      one["before"] = json_of(part->before->blocks);
    }
    all["parts"].push_back(std::move(one));
  }
  return json_text(all);
}

absl::StatusOr<std::vector<PartStats>> read_answer(const std::string& text,
                                                   const std::vector<const StatsPart*>& parts) try {
  SCALAI_ASSIGN_OR_RETURN(const json all, read_json(text));
  std::vector<PartStats> stats;
  for (const json& one : all.at("parts")) {
    const auto elements = elements_of_json(one);
    if (!elements || stats.size() == parts.size() || elements->elements != parts[stats.size()]->elements)
      return invalid("its answer is of other parts");
    stats.push_back({.elements = *elements, .change = {}});
    if (one.contains("change")) stats.back().change = change_of_json(one.at("change"));
    const auto& change = stats.back().change;
    if (change.has_value() != parts[stats.size() - 1]->before.has_value() ||
        (change && change->elements != elements->elements))
      return invalid("its answer is of other parts");
  }
  if (stats.size() != parts.size()) return invalid("its answer is of other parts");
  return stats;
} catch (const json::exception& error) {  // of another release
  return invalid(fmt::format("its answer is none of this release: {}", error.what()));
}

Command stats_parts_command() { return {stats_parts_spec(), stats_parts_main}; }

}  // namespace scalai::apps
