#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/naming/family.h"
#include "python/module/module.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

using collection::Collection;
using collection::CollectionFile;

std::vector<Range> ranges_of(const tensor::Box& box) {
  std::vector<Range> ranges;
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) ranges.emplace_back(box.lo[dim], box.hi[dim]);
  return ranges;
}

model::Recipe recipe_of(const std::string& precision, const std::string& optimizer) {
  const std::vector<std::string> known = {"fp16", "bf16", "fp32"};
  if (std::find(known.begin(), known.end(), precision) == known.end())
    check(invalid("unknown precision \"" + precision + "\"; choose from fp16, bf16, fp32"));
  return {.param = precision == "fp32"   ? tensor::DType::kF32
                   : precision == "bf16" ? tensor::DType::kBF16
                                         : tensor::DType::kF16,
          .master = precision != "fp32",
          .optimizer = value_of(model::find_optimizer(optimizer))};
}

CollectionFile of_model(const std::string& name, const std::string& layout, const std::vector<int>& devices,
                        const std::string& precision, const std::string& optimizer) {
  const model::Model model = value_of(store::find_model(name));
  const collection::ParallelConfig config = value_of(collection::parse_layout(layout));
  std::vector<DeviceId> ids;
  for (const int device : devices) ids.emplace_back(device);
  for (int i = 0; devices.empty() && i < config.world(); ++i) ids.emplace_back(i);
  return {value_of(megatron_collection(model, recipe_of(precision, optimizer), config, std::move(ids))), {}, {}};
}

nb::list tensors_of(const CollectionFile& file) {
  nb::list list;
  for (const collection::LogicalTensor& tensor : file.collection.tensors) {
    list.append(tensor_dict(tensor.name, tensor.dtype, tensor.shape, tensor.kind));
  }
  return list;
}

size_t tensor_named(const Collection& collection, const std::string& name) {
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    if (collection.tensors[i].name == name) return i;
  }
  check(missing("the collection has no tensor \"" + name + "\""));
  return 0;
}

std::vector<std::vector<Range>> boxes(const CollectionFile& file, const std::string& name, int rank) {
  const Collection& collection = file.collection;
  if (rank < 0 || rank >= collection.ranks())
    check(invalid("there is no rank " + std::to_string(rank) + " of " + std::to_string(collection.ranks())));
  std::vector<std::vector<Range>> result;
  const TensorId tensor(static_cast<int64_t>(tensor_named(collection, name)));
  for (const tensor::Piece& piece : collection.pieces(tensor, LogicalRank(rank)).pieces)
    result.push_back(ranges_of(piece.box));
  return result;
}

std::vector<int> devices_of(const CollectionFile& file) {
  std::vector<int> devices;
  for (const DeviceId device : file.collection.device_of_rank) devices.push_back(device.value);
  return devices;
}

}  // namespace

void add_collections(nb::module_& module) {
  nb::class_<CollectionFile>(module, "Collection")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& name) {
            return value_of(collection::parse_collection(text, name));
          },
          nb::arg("text"), nb::arg("name"))
      .def_static(
          "load",
          [](const std::filesystem::path& path) { return value_of(collection::load_collection(path.string())); },
          nb::arg("path"))
      .def_static("of_model", of_model, nb::arg("model"), nb::arg("layout"), nb::arg("devices"), nb::arg("precision"),
                  nb::arg("optimizer"))
      .def_prop_ro("name", [](const CollectionFile& file) { return file.collection.name; })
      .def_prop_ro("epoch", [](const CollectionFile& file) { return file.collection.epoch; })
      .def_prop_ro("ranks", [](const CollectionFile& file) { return file.collection.ranks(); })
      .def_prop_ro("devices", devices_of)
      .def_prop_ro("tensors", tensors_of)
      .def("text", [](const CollectionFile& file) { return collection_text(file.collection, file.residency); })
      .def("boxes", boxes, nb::arg("tensor"), nb::arg("rank"));
}

}  // namespace scalai::python
