#include "ptc/store/views/internal/arranged_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/json_fields.h"

namespace scalai::store {
namespace {

using internal::Fields;
using nlohmann::json;
using nlohmann::ordered_json;

bool is_dense(const tensor::Piece& piece) { return piece.offset == 0 && piece.strides == piece.box.shape().strides(); }

ordered_json piece_json(const PlacedPiece& placed) {
  const tensor::Piece& piece = placed.piece;
  ordered_json value = {placed.logical, piece.box.str()};
  if (is_dense(piece)) return value;
  ordered_json strides = ordered_json::array();
  for (size_t d = 0; d < static_cast<size_t>(piece.box.rank); ++d) strides.push_back(piece.strides[d]);
  value.push_back(piece.offset);
  value.push_back(std::move(strides));
  return value;
}

std::string line_of(const ordered_json& value) { return json_text(value); }

// A line each, so that text is made without a tree of all of it.
template <class Items, class Line>
std::string list_of(const Items& items, const char* indent, const Line& line) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += fmt::format("{}\n{}{}", i > 0 ? "," : "", indent, line(i));
  return text + "]";
}

int64_t elements_of(const ArrangedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

std::string file_text(const ArrangedRecord& record) {
  const std::string tensors = list_of(record.file.tensors, "   ", [&](size_t i) {
    const ArrangedTensor& tensor = record.file.tensors[i];
    ordered_json pieces = ordered_json::array();
    for (const PlacedPiece& piece : tensor.pieces) pieces.push_back(piece_json(piece));
    ordered_json line = {{"key", tensor.name}};
    if (record.file.form == FileForm::kChunks) {
      line["dtype"] = name_of(tensor.dtype);
      line["offset"] = record.offsets[i];
      line["elements"] = elements_of(tensor);
    }
    line["xxh3_128"] = record.tensor_checksums[i];
    line["pieces"] = std::move(pieces);
    return line_of(line);
  });
  return fmt::format("{{\"name\": {}, \"bytes\": {}, {}\"xxh3_128\": \"{}\", \"tensors\": {}}}",
                     line_of(record.file.name), record.bytes,
                     record.file.form == FileForm::kChunks ? "\"chunks\": true, " : "", record.checksum, tensors);
}

ordered_json state_json(const LogicalState& state) {
  ordered_json shape = ordered_json::array();
  for (int dim = 0; dim < state.shape.rank(); ++dim) shape.push_back(state.shape[dim]);
  return {{"name", state.name}, {"dtype", name_of(state.dtype)}, {"shape", shape}, {"kind", name_of(state.kind)}};
}

std::optional<int64_t> count_of(const json& value) {
  const bool fits =
      value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::vector<int64_t> counts_of(Fields& fields, const json& list, const char* name) {
  std::vector<int64_t> counts;
  for (const json& entry : list) {
    const std::optional<int64_t> count = count_of(entry);
    if (!count || counts.size() == tensor::kMaxRank) {
      fields.refuse(name, "is not a list of whole numbers, or too long");
      return {};
    }
    counts.push_back(*count);
  }
  return counts;
}

std::optional<model::StateKind> kind_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(model::StateKind::kPrevious); ++i) {
    const auto kind = static_cast<model::StateKind>(i);
    if (name == model::name_of(kind)) return kind;
  }
  return std::nullopt;
}

// So that sizes and strides are numbers, also where an extent is 0.
template <class Extents>
bool is_small(const Extents& extents, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  return std::none_of(extents.begin(), extents.end(), [&](int64_t extent) {
    return __builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes);
  });
}

tensor::DType read_dtype(Fields& fields, const json& value) {
  const absl::StatusOr<tensor::DType> dtype = tensor::parse_dtype(fields.text(value, "dtype"));
  if (!dtype.ok()) fields.refuse("dtype", "is none");
  return dtype.value_or(tensor::DType::kF32);
}

LogicalState read_state(Fields& fields, const json& value) {
  LogicalState state;
  state.name = fields.text(value, "name");
  state.dtype = read_dtype(fields, value);
  const std::vector<int64_t> shape = counts_of(fields, fields.list(value, "shape"), "shape");
  if (!is_small(shape, tensor::size_of(state.dtype))) {
    fields.refuse("shape", "has more bytes than 2^63");
  } else {
    state.shape = tensor::Shape(std::span(shape));
  }
  const std::optional<model::StateKind> kind = kind_of(fields.text(value, "kind"));
  if (!kind) fields.refuse("kind", "is none");
  state.kind = kind.value_or(model::StateKind::kParam);
  return state;
}

PlacedPiece read_piece(Fields& fields, const json& value) {
  const bool known =
      value.is_array() && (value.size() == 2 || value.size() == 4) && value[0].is_string() && value[1].is_string();
  const std::optional<tensor::Box> box = known ? tensor::parse_box(value[1].get<std::string>()) : std::nullopt;
  if (!box || !is_small(extents_of(*box), 1)) {
    fields.refuse("pieces", "has one that is not [tensor, box] or [tensor, box, offset, strides]");
    return {};
  }
  PlacedPiece placed{value[0].get<std::string>(), {.box = *box, .offset = 0, .strides = {}}};
  if (value.size() == 2) {
    placed.piece.strides = box->shape().strides();
    return placed;
  }
  const std::optional<int64_t> offset = count_of(value[2]);
  if (!offset || !value[3].is_array() || value[3].size() != static_cast<size_t>(box->rank)) {
    fields.refuse("pieces", "has one whose offset or strides are none");
    return {};
  }
  placed.piece.offset = *offset;
  const std::vector<int64_t> strides = counts_of(fields, value[3], "strides");
  std::copy(strides.begin(), strides.end(), placed.piece.strides.begin());
  return placed;
}

ArrangedRecord read_record(Fields& fields, const json& value) {
  ArrangedRecord record;
  record.file.name = fields.path(value);
  const bool chunks = value.is_object() && value.contains("chunks");
  if (chunks) record.file.form = FileForm::kChunks;
  record.bytes = fields.number(value, "bytes");
  record.checksum = fields.checksum(value);
  for (const json& entry : fields.list(value, "tensors")) {
    ArrangedTensor tensor{.name = fields.text(entry, "key"), .dtype = {}, .shape = {}, .pieces = {}};
    record.tensor_checksums.push_back(fields.checksum(entry));
    if (chunks) {
      tensor.dtype = read_dtype(fields, entry);
      tensor.shape = {fields.number(entry, "elements")};
      record.offsets.push_back(fields.number(entry, "offset"));
      if (!is_small(tensor.shape, tensor::size_of(tensor.dtype))) fields.refuse("elements", "are more than 2^63 bytes");
    }
    for (const json& piece : fields.list(entry, "pieces")) tensor.pieces.push_back(read_piece(fields, piece));
    record.file.tensors.push_back(std::move(tensor));
  }
  return record;
}

absl::StatusOr<json> parse_object(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(json document, read_json(text));
  if (!document.is_object()) return invalid("not readable as a JSON object");
  return document;
}

}  // namespace

std::string arranged_manifest_text(const ArrangedManifest& manifest) {
  std::string text =
      fmt::format("{{\n \"schema_version\": {},\n \"kind\": \"{}\",\n \"naming\": {},\n \"layout\": {},\n",
                  kArrangedVersion, kArrangedKind, line_of(manifest.naming), line_of(manifest.layout));
  if (!manifest.job.empty()) text += fmt::format(" \"job\": {},\n", line_of(manifest.job));
  if (manifest.step >= 0) text += fmt::format(" \"step\": {},\n", manifest.step);
  text += fmt::format(" \"epoch\": {},\n", manifest.epoch);
  if (manifest.hf_prefix) text += fmt::format(" \"hf_prefix\": {},\n", line_of(*manifest.hf_prefix));
  if (!manifest.part_of.empty()) text += fmt::format(" \"part_of\": {},\n", line_of(manifest.part_of));
  text += fmt::format(" \"texts\": {},\n", list_of(manifest.texts, "  ", [&](size_t i) {
                        const TextRecord& record = manifest.texts[i];
                        return line_of({{"name", record.name}, {"bytes", record.bytes}, {"xxh3_128", record.checksum}});
                      }));
  if (!manifest.damage.empty()) {
    text += fmt::format(" \"damage\": {},\n",
                        list_of(manifest.damage, "  ", [&](size_t i) { return damage_line(manifest.damage[i]); }));
  }
  text += fmt::format(" \"states\": {},\n", list_of(manifest.states, "  ",
                                                    [&](size_t i) { return line_of(state_json(manifest.states[i])); }));
  text += fmt::format(" \"files\": {}\n}}\n",
                      list_of(manifest.files, "  ", [&](size_t i) { return file_text(manifest.files[i]); }));
  return text;
}

absl::StatusOr<ArrangedManifest> parse_arranged_manifest(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(const json document, parse_object(text));
  Fields fields;
  const int64_t version = fields.number(document, "schema_version");
  if (fields.problem.empty() && version != kArrangedVersion) {
    return invalid(fmt::format("schema version {}; this program reads version {}", version, kArrangedVersion));
  }
  ArrangedManifest manifest;
  if (fields.text(document, "kind") != kArrangedKind) fields.refuse("kind", "is not \"arranged\"");
  manifest.naming = fields.text(document, "naming");
  manifest.layout = fields.text(document, "layout");
  if (document.contains("job")) manifest.job = fields.text(document, "job");
  if (document.contains("step")) manifest.step = fields.number(document, "step");
  manifest.epoch = fields.number(document, "epoch");
  if (document.contains("part_of")) manifest.part_of = fields.text(document, "part_of");
  if (document.contains("hf_prefix")) manifest.hf_prefix = fields.text(document, "hf_prefix");
  for (const json& entry : fields.list(document, "texts")) manifest.texts.push_back(fields.text_record(entry));
  manifest.damage = fields.damage(document);
  for (const json& state : fields.list(document, "states")) manifest.states.push_back(read_state(fields, state));
  for (const json& file : fields.list(document, "files")) manifest.files.push_back(read_record(fields, file));
  if (!fields.problem.empty()) return invalid(fields.problem);
  return manifest;
}

absl::StatusOr<std::string> manifest_kind(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(const json document, parse_object(text));
  const auto kind = document.find("kind");
  if (kind == document.end()) return std::string();
  if (!kind->is_string()) return invalid("\"kind\" is not a string");
  return kind->get<std::string>();
}

absl::StatusOr<WeightIndex> parse_weight_index(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(const json document, parse_object(text));
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) return invalid("/weight_map: is missing or no object");
  WeightIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) return invalid(fmt::format("/weight_map/{}: is not a string", clipped(tensor, 120)));
    std::string name = file.get<std::string>();
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return invalid(
          fmt::format("/weight_map/{}: \"{}\" is not the name of a file", clipped(tensor, 120), clipped(name, 120)));
    }
    index.file_by_tensor.emplace_back(tensor, std::move(name));
  }
  const auto metadata = document.find("metadata");
  if (metadata != document.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    if (total != metadata->end() && total->is_number()) index.total_size = total->get<double>();
  }
  return index;
}

}  // namespace scalai::store
