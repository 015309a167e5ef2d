#include "ptc/store/views/internal/sharded_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {
namespace {

constexpr const char* kSharding = "DCP_SHARDING_INFO";

// By tensor: where its shard begins. Values that are none are left out, and missed later.
std::map<std::string, std::vector<int64_t>> offsets_of(const std::string& text) {
  std::map<std::string, std::vector<int64_t>> offsets;
  const nlohmann::json document = read_json(text).value_or(nullptr);
  if (!document.is_object()) return offsets;
  for (const auto& [name, value] : document.items()) {
    const auto list = value.is_object() ? value.find("saved_offsets") : value.end();
    if (!value.is_object() || list == value.end() || !list->is_array()) continue;
    std::vector<int64_t> numbers;
    for (const nlohmann::json& number : *list) {
      if (number.is_number_unsigned() && number.get<uint64_t>() < uint64_t{1} << 62)
        numbers.push_back(number.get<int64_t>());
    }
    if (numbers.size() == list->size()) offsets[name] = std::move(numbers);
  }
  return offsets;
}

// ("optim", "state.layers.0.weight.exp_avg"), as the index of other folders would have it.
std::vector<std::string> path_of(const std::string& name) {
  for (const std::string_view dict : {"optim.", "optimizer.", "model.model."}) {
    if (!name.starts_with(dict)) continue;
    const size_t dot = name.find('.');
    return {name.substr(0, dot), name.substr(dot + 1)};
  }
  return {name};
}

absl::Status add_shard(const StoredTensor& stored, const std::vector<int64_t>& offsets, const std::string& file,
                       std::map<std::string, DcpTensor>& tensors) {
  DcpTensor& tensor = tensors[stored.name];
  if (tensor.path.empty())
    tensor = {.path = path_of(stored.name), .dtype = stored.dtype, .shape = stored.shape, .chunks = {}};
  if (tensor.dtype != stored.dtype || tensor.shape.size() != stored.shape.size() ||
      offsets.size() != stored.shape.size())
    return invalid(fmt::format("{}: the shard of \"{}\" is not one of the same tensor as others", file,
                               clipped(stored.name, 120)));
  for (size_t dim = 0; dim < offsets.size(); ++dim)
    tensor.shape[dim] = std::max(tensor.shape[dim], offsets[dim] + stored.shape[dim]);
  if (stored.bytes == 0) return absl::OkStatus();
  tensor.chunks.push_back({.offsets = offsets,
                           .sizes = stored.shape,
                           .file = file,
                           .begin = stored.offset,
                           .bytes = stored.bytes,
                           .elements = stored.bytes / tensor::size_of(stored.dtype),
                           .skip = 0,
                           .bare = true});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<std::vector<DcpTensor>>> sharded_tensors(const Folder& folder,
                                                                      const std::vector<std::string>& files) {
  std::map<std::string, DcpTensor> tensors;
  ProblemList problems;
  for (const std::string& file : files) {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, folder.source(file));
    SCALAI_ASSIGN_OR_RETURN(const SafetensorsHeader header, read_safetensors_header(*source));
    const auto sharding = header.metadata.find(kSharding);
    if (sharding == header.metadata.end() && file == files.front()) return std::optional<std::vector<DcpTensor>>();
    const auto offsets = sharding == header.metadata.end() ? std::map<std::string, std::vector<int64_t>>()
                                                           : offsets_of(sharding->second);
    for (const StoredTensor& stored : header.tensors) {
      const auto found = offsets.find(stored.name);
      const absl::Status added =
          found == offsets.end()
              ? invalid(fmt::format("{}: does not say where its shard of \"{}\" lies", file, clipped(stored.name, 120)))
              : add_shard(stored, found->second, file, tensors);
      if (!added.ok()) problems.add(fmt::format("{}: {}", folder.path(), message_of(added)));
    }
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  std::vector<DcpTensor> all;
  for (auto& [name, tensor] : tensors) all.push_back(std::move(tensor));
  return std::optional<std::vector<DcpTensor>>(std::move(all));
}

}  // namespace scalai::store::internal
