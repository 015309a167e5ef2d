#include "ptc/checkpoint/internal/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/base/status.h"

namespace scalai::checkpoint {
namespace {

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

ordered_json manifest_json(const Manifest& manifest) {
  ordered_json value;
  value["schema_version"] = kManifestVersion;
  value["job"] = manifest.job;
  value["step"] = manifest.step;
  value["epoch"] = manifest.epoch;
  value["collection"] = manifest.collection_digest;
  value["files"] = ordered_json::array();
  for (const FileRecord& file : manifest.files) value["files"].push_back(file_json(file));
  return value;
}

// Reads fields and remembers the first problem, so that callers need not ask after each.
class Fields {
 public:
  std::string problem;

  const json* find(const json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (object.is_object() && found != object.end()) return &*found;
    refuse(name, "is missing");
    return nullptr;
  }
  std::string text(const json& object, const char* name) {
    const json* value = find(object, name);
    if (value != nullptr && !value->is_string()) refuse(name, "is not a string");
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  }
  int64_t number(const json& object, const char* name, int64_t limit = std::numeric_limits<int64_t>::max()) {
    const json* value = find(object, name);
    const bool fits =
        value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(limit);
    if (value != nullptr && !fits) refuse(name, "is not a whole number in range");
    return fits ? value->get<int64_t>() : 0;
  }
  std::string checksum(const json& object) {
    const std::string sum = text(object, "xxh3_128");
    if (sum.size() != 32 || sum.find_first_not_of("0123456789abcdef") != std::string::npos) {
      refuse("xxh3_128", "is not a checksum");
    }
    return sum;
  }
  // An empty one where there is none.
  const json& list(const json& object, const char* name) {
    static const json kNone = json::array();
    const json* value = find(object, name);
    if (value != nullptr && !value->is_array()) refuse(name, "is not a list");
    return value != nullptr && value->is_array() ? *value : kNone;
  }
  void refuse(const char* name, const char* what) {
    if (problem.empty()) problem = fmt::format("\"{}\" {}", name, what);
  }
};

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
  record.name = fields.text(value, "name");
  // It becomes part of a path.
  if (record.name.empty() || record.name.front() == '.' || record.name.find('/') != std::string::npos ||
      record.name.find('\0') != std::string::npos) {
    fields.refuse("name", "is not the name of a file");
  }
  record.rank = static_cast<int>(fields.number(value, "rank", std::numeric_limits<int>::max()));
  record.bytes = fields.number(value, "bytes");
  record.checksum = fields.checksum(value);
  for (const json& box : fields.list(value, "boxes")) record.boxes.push_back(read_box(fields, box));
  return record;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  return manifest_json(manifest).dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string manifest_part(const Manifest& manifest) {
  SCALAI_CHECK(manifest.files.size() == 1);
  return manifest_json(manifest).dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Manifest> parse_manifest(const std::string& text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object()) return invalid("not readable as a JSON object");
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

}  // namespace scalai::checkpoint
