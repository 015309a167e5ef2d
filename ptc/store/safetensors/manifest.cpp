#include "ptc/store/safetensors/manifest.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/json_fields.h"

namespace scalai::store {
namespace {

using internal::Fields;
using nlohmann::json;
using nlohmann::ordered_json;

ordered_json file_json(const FileRecord& file) {
  ordered_json boxes = ordered_json::array();
  for (const BoxRecord& box : file.boxes) {
    boxes.push_back({{"tensor", box.tensor}, {"key", box.key}, {"box", box.box.str()}, {"xxh3_128", box.checksum}});
  }
  ordered_json value;
  value["name"] = file.name;
  value["rank"] = file.rank;
  value["bytes"] = file.bytes;
  value["xxh3_128"] = file.checksum;
  value["boxes"] = std::move(boxes);
  return value;
}

ordered_json damage_json(const Damage& damage) { return {{"what", damage.what}, {"states", damage.states}}; }

ordered_json manifest_json(const Manifest& manifest) {
  ordered_json value;
  value["schema_version"] = kManifestVersion;
  value["job"] = manifest.job;
  value["step"] = manifest.step;
  value["epoch"] = manifest.epoch;
  value["collection"] = manifest.collection_digest;
  value["files"] = ordered_json::array();
  for (const FileRecord& file : manifest.files) value["files"].push_back(file_json(file));
  for (const TextRecord& text : manifest.texts) {  // absent when there is none: as it always was
    value["texts"].push_back({{"name", text.name}, {"bytes", text.bytes}, {"xxh3_128", text.checksum}});
  }
  for (const Damage& damage : manifest.damage) value["damage"].push_back(damage_json(damage));
  return value;
}

BoxRecord read_box(Fields& fields, const json& value) {
  BoxRecord record;
  record.tensor = fields.text(value, "tensor");
  record.key = fields.text(value, "key");
  const std::optional<tensor::Box> box = tensor::parse_box(fields.text(value, "box"));
  if (!box) fields.refuse("box", "is not a box");
  record.box = box.value_or(tensor::Box());
  record.checksum = fields.checksum(value);
  return record;
}

FileRecord read_file_record(Fields& fields, const json& value) {
  FileRecord record;
  record.name = fields.file_name(value);
  record.rank = static_cast<int>(fields.number(value, "rank", std::numeric_limits<int>::max()));
  record.bytes = fields.number(value, "bytes");
  record.checksum = fields.checksum(value);
  for (const json& box : fields.list(value, "boxes")) record.boxes.push_back(read_box(fields, box));
  return record;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) { return json_text(manifest_json(manifest), {.indent = 1}) + "\n"; }

std::string damage_line(const Damage& damage) { return json_text(damage_json(damage)); }

std::string manifest_part(const Manifest& manifest) {
  SCALAI_CHECK(manifest.files.size() == 1);
  return json_text(manifest_json(manifest));
}

absl::StatusOr<Manifest> parse_manifest(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(const json document, read_json(text));
  if (!document.is_object()) return invalid("not readable as a JSON object");
  Fields fields;
  const int64_t version = fields.number(document, "schema_version");
  if (fields.problem.empty() && version != kManifestVersion) {
    return invalid(fmt::format("schema version {}; this program reads version {}", version, kManifestVersion));
  }
  Manifest manifest;
  manifest.job = fields.text(document, "job");
  manifest.step = fields.number(document, "step");
  manifest.epoch = fields.number(document, "epoch");
  manifest.collection_digest = fields.text(document, "collection");
  for (const json& file : fields.list(document, "files")) manifest.files.push_back(read_file_record(fields, file));
  if (document.contains("texts")) {
    for (const json& entry : fields.list(document, "texts")) manifest.texts.push_back(fields.text_record(entry));
  }
  manifest.damage = fields.damage(document);
  if (!fields.problem.empty()) return invalid(fields.problem);
  return manifest;
}

std::vector<std::vector<OwnedBox>> owned_boxes(const collection::Collection& collection) {
  std::vector<std::vector<OwnedBox>> owned(static_cast<size_t>(collection.ranks()));
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const TensorId id(static_cast<int64_t>(i));
    // Different boxes of a valid collection never overlap, so a replica has the very same box.
    std::set<tensor::Box> taken;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(rank)).pieces) {
        if (!piece.box.empty() && taken.insert(piece.box).second) {
          owned[static_cast<size_t>(rank)].push_back({id, piece.box});
        }
      }
    }
  }
  return owned;
}

std::vector<BoxInFile> boxes_in_file(const collection::Collection& collection, const std::vector<OwnedBox>& owned) {
  std::vector<BoxInFile> boxes;
  for (size_t i = 0; i < owned.size();) {
    const TensorId id = owned[i].tensor;
    const std::string& name = collection.tensors[static_cast<size_t>(id.value)].name;
    const size_t begin = i;
    while (i < owned.size() && owned[i].tensor == id) ++i;
    // A name with "#" is always numbered, so that no two keys are alike.
    const bool plain = i - begin == 1 && name.find('#') == std::string::npos;
    for (size_t k = begin; k < i; ++k) {
      boxes.push_back({owned[k], plain ? name : fmt::format("{}#{}", name, k - begin)});
    }
  }
  return boxes;
}

std::vector<int64_t> extents_of(const tensor::Box& box) {
  std::vector<int64_t> extents;
  for (int dim = 0; dim < box.rank; ++dim) extents.push_back(box.extent(dim));
  return extents;
}

bool is_text_name(const std::string& name) {
  constexpr std::string_view kTensors = ".safetensors";
  const bool plain = !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos;
  const bool tensors = name.size() >= kTensors.size() && name.ends_with(kTensors);
  return plain && !tensors && name != kManifestName && name != kCollectionName;
}

std::string rank_file_name(int rank) { return fmt::format("rank_{:03}.safetensors", rank); }

std::map<std::string, std::string> file_metadata(const Manifest& manifest, int rank) {
  return {{"scalai.schema_version", fmt::format("{}", kManifestVersion)},
          {"scalai.job", manifest.job},
          {"scalai.step", fmt::format("{}", manifest.step)},
          {"scalai.epoch", fmt::format("{}", manifest.epoch)},
          {"scalai.collection", manifest.collection_digest},
          {"scalai.rank", fmt::format("{}", rank)}};
}

std::string box_metadata_key(const std::string& key) { return "box:" + key; }

}  // namespace scalai::store
