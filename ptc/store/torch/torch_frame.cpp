#include "ptc/store/torch/torch_frame.h"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/internal/little_endian.h"
#include "ptc/store/torch/internal/pickle_writer.h"
#include "ptc/store/torch/internal/torch_values.h"
#include "ptc/store/torch/internal/zip_frame.h"

namespace scalai::store {
namespace {

using internal::PickleWriter;
using internal::ZipFrame;

// A dense tensor of the storage with this key.
void append(PickleWriter& to, const TensorSpec& tensor, const std::string& key) {
  std::vector<int64_t> strides(tensor.shape.size(), 1);
  for (size_t dim = strides.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * std::max<int64_t>(tensor.shape[dim], 1);
  const int64_t elements = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  const std::string_view storage = internal::storage_of(tensor.dtype);
  const bool typed = !storage.empty();  // newer dtypes have no storages of their own
  to.name("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3").op("((").text("storage");
  if (typed)
    to.name("torch", storage);
  else
    to.name("torch.storage", "UntypedStorage");
  to.text(key).text("cpu").number(typed ? elements : elements * tensor::size_of(tensor.dtype)).op("tQ");
  to.number(0).numbers(tensor.shape).numbers(strides).op("\x89").name("collections", "OrderedDict").op(")R");
  if (!typed) to.name("torch", internal::torch_name(tensor.dtype));
  to.op("tR");
}

// The entries of an archive that torch.save writes beside the pickle.
void begin_archive(ZipFrame& to, const std::string& folder, const PickleWriter& pickle) {
  to.add(folder + "/data.pkl", pickle.bytes());
  to.add(folder + "/.format_version", "1");
  to.add(folder + "/.storage_alignment", "64");
  to.add(folder + "/byteorder", "little");
}

void end_archive(ZipFrame& to, const std::string& folder) {
  to.add(folder + "/version", "3\n");
  to.finish();
}

constexpr const char* kFolder = "archive";

std::string key_of(size_t tensor) { return fmt::format("{}", tensor); }
std::string data_of(size_t tensor) { return fmt::format("{}/data/{}", kFolder, tensor); }

}  // namespace

absl::StatusOr<FileFrame> megatron_frame(std::span<const TensorSpec> tensors, int64_t iteration) {
  std::set<std::string_view> names;
  std::map<std::string_view, std::vector<size_t>> dicts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return invalid(fmt::format("tensor \"{}\" is in no dict", clipped(name, 120)));
    if (!names.insert(name).second) return invalid(fmt::format("two tensors are named \"{}\"", clipped(name, 120)));
    dicts[name.substr(0, dot)].push_back(i);
  }
  PickleWriter pickle;
  pickle.op("}(").text("checkpoint_version").real(3.0).text("iteration").number(iteration);
  for (const auto& [dict, members] : dicts) {
    pickle.text(dict).op("}(");
    for (const size_t i : members) {
      pickle.text(std::string_view(tensors[i].name).substr(dict.size() + 1));
      append(pickle, tensors[i], key_of(i));
    }
    pickle.op("u");
  }
  pickle.op("u.");
  ZipFrame archive;
  begin_archive(archive, kFolder, pickle);
  for (size_t i = 0; i < tensors.size(); ++i) archive.add(data_of(i), tensors[i]);
  end_archive(archive, kFolder);
  return std::move(archive).take();
}

ChunkFrame chunk_frame(std::span<const TensorSpec> tensors, const ChunkExtras& extras) {
  ZipFrame archives;
  ChunkFrame chunks;
  // A file of torch.save around the value that a pickle makes, and the storage that it has.
  const auto add = [&](const PickleWriter& pickle, const auto&... storage) {
    const int64_t begin = archives.bytes();
    begin_archive(archives, kFolder, pickle);
    (archives.add(data_of(0), storage), ...);
    end_archive(archives, kFolder);
    return ChunkFrame::Place{begin, archives.bytes() - begin};
  };
  const auto tensor_pickle = [](const TensorSpec& tensor) {
    PickleWriter pickle;
    append(pickle, tensor, key_of(0));
    return pickle.op(".");
  };
  for (const TensorSpec& tensor : tensors) chunks.places.push_back(add(tensor_pickle(tensor), tensor));
  if (extras.step) {
    std::string value;
    internal::append_number(value, std::bit_cast<uint32_t>(static_cast<float>(*extras.step)), 4);
    chunks.step = add(tensor_pickle({.name = "", .dtype = tensor::DType::kF32, .shape = {}}), value);
  }
  if (extras.none) chunks.none = add(PickleWriter().op("]Na."));
  chunks.frame = std::move(archives).take();
  return chunks;
}

}  // namespace scalai::store
