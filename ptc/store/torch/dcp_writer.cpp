#include "ptc/store/torch/dcp.h"

#include <fmt/ranges.h>

#include "ptc/store/torch/internal/pickle_writer.h"
#include "ptc/store/torch/internal/torch_values.h"

namespace scalai::store {
namespace {

using internal::PickleWriter;

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

// An object of a class; its attributes come next, as a dict or a tuple, and "b".
PickleWriter& object(PickleWriter& to, std::string_view module, std::string_view name) {
  return to.name(module, name).op(")\x81");
}

PickleWriter& size(PickleWriter& to, const std::vector<int64_t>& extents) {
  return to.name("torch", "Size").numbers(extents).op("\x85R");
}

void append_properties(PickleWriter& to, tensor::DType dtype) {
  object(to, kModule, "TensorProperties").op("(").name("torch", internal::torch_name(dtype));
  to.name("torch.serialization", "_get_layout").text("torch.strided").op("\x85R");
  to.op("\x89").name(kModule, "_MEM_FORMAT_ENCODING").number(0).op("\x85R");  // no gradient; contiguous
  to.op("\x89tb");                                                            // not pinned
}

void append_tensor(PickleWriter& to, const DcpTensor& tensor) {
  object(to, kModule, "TensorStorageMetadata").op("}(").text("properties");
  append_properties(to, tensor.dtype);
  size(to.text("size"), tensor.shape);
  to.text("chunks").op("](");
  for (const DcpChunk& chunk : tensor.chunks) {
    object(to, kModule, "ChunkStorageMetadata").op("}(");
    size(to.text("offsets"), chunk.offsets);
    size(to.text("sizes"), chunk.sizes).op("ub");
  }
  to.op("eub");
}

template <class Place>
void append_place(PickleWriter& to, const Place& place) {
  object(to, "torch.distributed.checkpoint.filesystem", "_StorageInfo").op("}(");
  to.text("relative_path").text(place.file).text("offset").number(place.begin);
  to.text("length").number(place.bytes).text("transform_descriptors").op("Nub");
}

void append_places(PickleWriter& to, const std::string& name, const DcpTensor& tensor) {
  for (size_t i = 0; i < tensor.chunks.size(); ++i) {
    object(to, kModule, "MetadataIndex").op("}(").text("fqn").text(name);
    size(to.text("offset"), tensor.chunks[i].offsets).text("index").number(static_cast<int64_t>(i)).op("ub");
    append_place(to, tensor.chunks[i]);
  }
}

void append_place_of(PickleWriter& to, const DcpObject& of) {
  object(to, kModule, "MetadataIndex")
      .op("}(")
      .text("fqn")
      .text(of.name)
      .text("offset")
      .op("N")
      .text("index")
      .op("Nub");
  append_place(to, of);
}

}  // namespace

std::string dcp_index_text(std::span<const DcpTensor> tensors, std::span<const DcpObject> objects) {
  std::vector<std::string> names;
  for (const DcpTensor& tensor : tensors) names.push_back(fmt::format("{}", fmt::join(tensor.path, ".")));
  PickleWriter to;
  object(to, kModule, "Metadata").op("}(").text("state_dict_metadata").op("}(");
  for (size_t i = 0; i < tensors.size(); ++i) append_tensor(to.text(names[i]), tensors[i]);
  for (const DcpObject& each : objects) object(to.text(each.name), kModule, "BytesStorageMetadata");
  to.op("u").text("planner_data").op("}(");
  for (size_t i = 0; i < tensors.size(); ++i) {
    to.text(names[i]).op("(");
    for (const std::string& key : tensors[i].path) to.text(key);
    to.op("t");
  }
  to.op("u").text("storage_data").op("}(");
  for (size_t i = 0; i < tensors.size(); ++i) append_places(to, names[i], tensors[i]);
  for (const DcpObject& each : objects) append_place_of(to, each);
  to.op("u").text("storage_meta").op("N").text("version").text("1.0.0").op("ub.");
  return to.bytes();
}

}  // namespace scalai::store
