#include "executor/bench/cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::executor::bench {
namespace {

using collection::Collection;
using collection::ParallelConfig;

constexpr int kMostTp = 4, kMostPp = 8;
constexpr int64_t kBoxBytes = 4096;

std::vector<DeviceId> devices_from(int first, int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back(DeviceId(first + i));
  return devices;
}

Collection matrix(int64_t rows, int64_t columns, int dim, int devices) {
  Collection side;
  side.name = dim == 0 ? "rows" : "columns";
  side.epoch = dim == 0 ? 1 : 2;
  side.meshes = {collection::Mesh({{"tp", devices}})};
  side.tensors = {{.name = "matrix",
                   .dtype = tensor::DType::kF32,
                   .shape = {rows, columns},
                   .layout = {{{.axis = "tp", .dim = dim, .rule = tensor::SplitRule::kBalanced}}}}};
  side.device_of_rank = devices_from(0, devices);
  return side;
}

// As square as powers of two allow.
absl::StatusOr<Case> row_column(int64_t bytes, int devices) {
  const int64_t elements = bytes / tensor::size_of(tensor::DType::kF32);
  int64_t rows = 1;
  while (rows * rows * 4 <= elements) rows *= 2;
  const int64_t columns = elements / rows;
  if (rows < devices || columns < devices)
    return invalid(fmt::format("{} bytes are too few for a matrix over {} devices", bytes, devices));
  return Case{.name = "row-column",
              .devices = devices,
              .from = matrix(rows, columns, 0, devices),
              .to = matrix(rows, columns, 1, devices),
              .rows = rows,
              .columns = columns};
}

// Matrices of kBoxBytes, each a box on one device, from the first half of the devices to the others.
absl::StatusOr<Case> boxes(int64_t bytes, int devices) {
  const int64_t count = bytes / kBoxBytes;
  if (count < devices / 2) return invalid(fmt::format("{} bytes are too few for boxes on {} devices", bytes, devices));
  const auto side = [&](int first) {
    Collection made;
    made.name = first == 0 ? "first" : "others";
    made.epoch = first == 0 ? 1 : 2;
    made.meshes = {collection::Mesh({{"pp", devices / 2}})};
    for (int64_t i = 0; i < count; ++i) {
      made.tensors.push_back({.name = fmt::format("box{}", i),
                              .dtype = tensor::DType::kF32,
                              .shape = {kBoxBytes / 4},
                              .pins = {{"pp", {static_cast<int>(i % (devices / 2))}}}});
    }
    made.device_of_rank = devices_from(first, devices / 2);
    return made;
  };
  return Case{.name = "boxes", .devices = devices, .from = side(0), .to = side(devices / 2)};
}

struct Change {
  ParallelConfig from, to;
  int to_first = 0;
};

Change change_of(const std::string& name, int devices) {
  const int half = devices / 2;
  if (name == "tp") {
    const int tp = std::min(devices, kMostTp);
    return {{.tp = tp / 2, .dp = devices / tp}, {.tp = tp, .dp = devices / tp}};
  }
  if (name == "pp") {
    const int pp = std::min(devices, kMostPp);
    return {{.pp = pp / 2, .dp = devices / pp}, {.pp = pp, .dp = devices / pp}};
  }
  if (name == "dp") return {{.dp = half}, {.dp = devices}};
  const int tp = std::min(half, 2);
  const ParallelConfig config{.tp = tp, .pp = half / tp};
  return {config, config, half};
}

absl::StatusOr<Case> gpt2(const std::string& name, int devices, const model::Fraction& scale) {
  SCALAI_ASSIGN_OR_RETURN(const model::Model whole, model::find_model("gpt2"));
  const model::Model model = model::scaled(whole, scale);
  const Change change = change_of(name, devices);
  Case one{.name = name, .devices = devices};
  SCALAI_ASSIGN_OR_RETURN(
      one.from, megatron_collection(model, model::Recipe{}, change.from, devices_from(0, change.from.world())));
  SCALAI_ASSIGN_OR_RETURN(
      one.to, megatron_collection(model, model::Recipe{}, change.to, devices_from(change.to_first, change.to.world())));
  one.from.epoch = 1;
  one.to.epoch = 2;
  return one;
}

absl::Status check(const CaseOptions& options) {
  const std::vector<std::string> known = case_names();
  for (const std::string& name : options.names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return invalid(fmt::format("there is no case \"{}\"; there are {}", name, fmt::join(known, ", ")));
  }
  for (const int devices : options.devices) {
    if (devices < 2 || devices > kMostDevices || (devices & (devices - 1)) != 0)
      return invalid(fmt::format("{} devices: take a power of two from 2 to {}", devices, kMostDevices));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> case_names() { return {"row-column", "boxes", "tp", "pp", "dp", "redeploy"}; }

absl::StatusOr<std::vector<Case>> make_cases(const CaseOptions& options) {
  SCALAI_RETURN_IF_ERROR(check(options));
  std::vector<Case> cases;
  for (const std::string& name : options.names) {
    for (const int devices : options.devices) {
      auto made = name == "row-column" ? row_column(options.bytes, devices)
                  : name == "boxes"    ? boxes(options.bytes, devices)
                                       : gpt2(name, devices, options.scale_model);
      if (!made.ok()) return made.status();
      for (const collection::LogicalTensor& tensor : made->from.tensors) made->state_bytes += tensor.bytes();
      cases.push_back(*std::move(made));
    }
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> make_reconfigurations(const std::vector<std::string>& models,
                                                        const model::Fraction& scale) {
  constexpr int kWide = 8, kNarrow = 4;
  std::vector<Case> cases;
  for (const std::string& name : models) {
    SCALAI_ASSIGN_OR_RETURN(const model::Model whole, model::find_model(name));
    const model::Model model = model::scaled(whole, scale);
    SCALAI_ASSIGN_OR_RETURN(
        const Collection wide,
        collection::megatron_collection(model, model::Recipe{}, {.tp = 4, .pp = 2}, devices_from(0, kWide)));
    SCALAI_ASSIGN_OR_RETURN(
        const Collection narrow,
        collection::megatron_collection(model, model::Recipe{}, {.tp = 2, .pp = 2}, devices_from(0, kNarrow)));
    for (const bool shrinks : {true, false}) {
      Case one{.name = fmt::format("{} {}", name, shrinks ? "8→4" : "4→8"),
               .devices = kWide,
               .from = shrinks ? wide : narrow,
               .to = shrinks ? narrow : wide};
      one.from.epoch = shrinks ? 1 : 2;
      one.to.epoch = shrinks ? 2 : 1;
      for (const collection::LogicalTensor& tensor : one.from.tensors) one.state_bytes += tensor.bytes();
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

cluster::Cluster cluster_of(int devices, bool one_host) {
  cluster::Cluster cluster{.name = "bench"};
  if (one_host) {
    cluster.hosts.push_back({.first_device = 0, .gpus = devices});
    return cluster;
  }
  for (int i = 0; i < devices; ++i) cluster.hosts.push_back({.first_device = i, .gpus = 1});
  return cluster;
}

int64_t bytes_on_devices(const Collection& side) {
  int64_t bytes = 0;
  for (int rank = 0; rank < side.ranks(); ++rank) {
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      for (const tensor::Piece& piece : side.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
        bytes += piece.box.volume() * tensor::size_of(side.tensors[i].dtype);
    }
  }
  return bytes;
}

}  // namespace scalai::executor::bench
