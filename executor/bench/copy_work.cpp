#include "executor/bench/copy_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::executor::bench {

using tensor::Box;

namespace {

using collection::Collection;
using collection::ParallelConfig;

struct Layout {
  std::string name;
  std::vector<std::string> tensors;  // parts of their names
  ParallelConfig wide, narrow;       // more ranks, fewer
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> list = {
      {"qkv", {".attention.qkv.weight"}, {.tp = 4}, {.tp = 2}},
      {"swiglu", {".mlp.gate.weight", ".mlp.up.weight"}, {.tp = 4}, {.tp = 2}},
      {"column", {".mlp.up.weight"}, {.tp = 4}, {.tp = 2}},
      {"row", {".attention.dense.weight", ".mlp.down.weight"}, {.tp = 4}, {.tp = 2}},
      {"flat", {".exp_avg", ".master"}, {.dp = 4, .zero = 1}, {.dp = 3, .zero = 1}}};
  return list;
}

absl::StatusOr<Collection> side_of(const model::Model& model, const ParallelConfig& config) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
  return megatron_collection(model, model::Recipe{}, config, devices,
                             {.distributed_optimizer_buckets = config.zero > 0});
}

bool is_of(const Layout& layout, const std::string& tensor) {
  return std::any_of(layout.tensors.begin(), layout.tensors.end(),
                     [&](const std::string& part) { return tensor.find(part) != std::string::npos; });
}

void add_tensor(const Collection& from, const Collection& to, TensorId tensor, CopyWork& work) {
  const collection::LogicalTensor& what = to.tensors[static_cast<size_t>(tensor.value)];
  const state::Content content{state::ContentKey::of(what.name), what.shape, 1};
  const size_t first = work.sources.size();
  for (int rank = 0; rank < from.ranks(); ++rank) {
    for (const tensor::Piece& piece : from.pieces(tensor, LogicalRank(rank)).pieces)
      work.sources.push_back({piece.box, what.dtype, content});
  }
  for (int rank = 0; rank < to.ranks(); ++rank) {
    for (const tensor::Piece& piece : to.pieces(tensor, LogicalRank(rank)).pieces) {
      std::vector<Box> left = {piece.box};
      for (size_t src = first; src < work.sources.size() && !left.empty(); ++src) {
        std::vector<Box> rest;
        for (const Box& box : left) {
          const std::optional<Box> common = tensor::intersect(box, work.sources[src].box);
          if (common) work.copies.push_back({*common, src, work.targets.size()});
          const std::vector<Box> other = common ? subtract(box, *common) : std::vector<Box>{box};
          rest.insert(rest.end(), other.begin(), other.end());
        }
        left = std::move(rest);
      }
      work.targets.push_back({piece.box, what.dtype, content});
      work.bytes += piece.box.volume() * tensor::size_of(what.dtype);
    }
  }
}

// Nothing: the model has no such tensors.
std::optional<CopyWork> work_of(const Layout& layout, const std::string& way, const std::string& model,
                                const Collection& from, const Collection& to, int64_t bytes) {
  const bool has_all = std::all_of(layout.tensors.begin(), layout.tensors.end(), [&](const std::string& part) {
    return std::any_of(to.tensors.begin(), to.tensors.end(), [&](const collection::LogicalTensor& tensor) {
      return tensor.name.find(part) != std::string::npos;
    });
  });
  if (!has_all) return std::nullopt;
  CopyWork work{.name = layout.name + " " + way, .model = model};
  for (size_t i = 0; i < to.tensors.size() && work.bytes < bytes; ++i) {
    if (is_of(layout, to.tensors[i].name)) add_tensor(from, to, TensorId(static_cast<int64_t>(i)), work);
  }
  return work.copies.empty() ? std::nullopt : std::optional(std::move(work));
}

CopyWork contiguous(int64_t bytes) {
  constexpr int64_t kBuffer = int64_t{64} << 20;
  CopyWork work{.name = "contiguous"};
  for (int64_t done = 0; done < bytes; done += kBuffer) {
    const int64_t elements = std::min(kBuffer, bytes - done) / 4;
    const state::Content content{{static_cast<uint64_t>(done)}, {elements}, 1};
    const Box box({0}, {elements});
    work.copies.push_back({box, work.sources.size(), work.targets.size()});
    work.sources.push_back({box, tensor::DType::kF32, content});
    work.targets.push_back({box, tensor::DType::kF32, content});
    work.bytes += elements * 4;
  }
  return work;
}

// Rows of an odd number of 2-byte elements, cut out of longer ones behind their first element.
CopyWork unaligned(int64_t bytes) {
  constexpr int64_t kColumns = 4097;
  const int64_t rows = (bytes + 2 * kColumns - 1) / (2 * kColumns);
  const Box part({0, 1}, {rows, 1 + kColumns}), wide({0, 0}, {rows, 2 + kColumns});
  const state::Content content{{1}, {rows, 2 + kColumns}, 1};
  return {.name = "unaligned",
          .model = "",
          .sources = {{wide, tensor::DType::kBF16, content}},
          .targets = {{part, tensor::DType::kBF16, content}},
          .copies = {{part, 0, 0}},
          .bytes = part.volume() * 2};
}

}  // namespace

std::vector<std::string> copy_work_names() {
  std::vector<std::string> names = {"contiguous", "unaligned"};
  for (const Layout& layout : layouts()) names.push_back(layout.name);
  return names;
}

absl::StatusOr<std::vector<CopyWork>> make_copy_works(const CopyWorkOptions& options) {
  std::vector<CopyWork> works;
  for (const std::string& name : options.names) {
    if (name == "contiguous") {
      works.push_back(contiguous(options.bytes));
      continue;
    }
    if (name == "unaligned") {
      works.push_back(unaligned(options.bytes));
      continue;
    }
    const auto layout =
        std::find_if(layouts().begin(), layouts().end(), [&](const Layout& one) { return one.name == name; });
    if (layout == layouts().end())
      return invalid(fmt::format("there is no layout \"{}\"; there are {}", name, fmt::join(copy_work_names(), ", ")));
    for (const std::string& wanted : options.models) {
      SCALAI_ASSIGN_OR_RETURN(const model::Model model, model::find_model(wanted));
      SCALAI_ASSIGN_OR_RETURN(const Collection wide, side_of(model, layout->wide));
      SCALAI_ASSIGN_OR_RETURN(const Collection narrow, side_of(model, layout->narrow));
      for (auto work : {work_of(*layout, "merge", wanted, wide, narrow, options.bytes),
                        work_of(*layout, "split", wanted, narrow, wide, options.bytes)}) {
        if (work) works.push_back(*std::move(work));
      }
    }
  }
  return works;
}

}  // namespace scalai::executor::bench
