#include "ptc/checkpoint/views/internal/megatron_common.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/checkpoint/torch/dcp.h"

namespace scalai::checkpoint::internal {
namespace {

constexpr int64_t kMostCommonBytes = int64_t{64} << 20;

absl::StatusOr<bool> take_file(const Folder& folder, const std::string& name, bool listed, MegatronCommon& common) {
  SCALAI_ASSIGN_OR_RETURN(std::optional<std::string> bytes, folder.text(name, kMostCommonBytes));
  if (!bytes) return false;
  common = {.bytes = *std::move(bytes), .listed = listed};
  return true;
}

}  // namespace

absl::Status take_common(const Folder& place, const std::string& index, MegatronCommon& common) {
  SCALAI_ASSIGN_OR_RETURN(const bool older, take_file(place, MegatronCommon().file_name(), false, common));
  if (older) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const std::optional<DcpObject> object, find_dcp_object(index, kCommonObject));
  if (!object) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, place.source(object->file));
  if (object->bytes > kMostCommonBytes || object->begin > source->size() - object->bytes)
    return invalid(fmt::format("{}: object \"{}\" is too large, or beyond the end", source->name(), kCommonObject));
  common = {.bytes = std::string(static_cast<size_t>(object->bytes), '\0'), .listed = true};
  return source->read(object->begin, std::as_writable_bytes(std::span(common.bytes)));
}

absl::Status take_common(const Folder& folder, const std::vector<TextRecord>& texts, MegatronCommon& common) {
  for (const TextRecord& text : texts) {
    const std::string name = text.name.substr(text.name.rfind('/') + 1);
    for (const bool listed : {false, true}) {
      if (name != MegatronCommon{.bytes = "", .listed = listed}.file_name()) continue;
      SCALAI_ASSIGN_OR_RETURN(const bool taken, take_file(folder, text.name, listed, common));
      if (taken) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace scalai::checkpoint::internal
