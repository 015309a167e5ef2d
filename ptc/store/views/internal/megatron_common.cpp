#include "ptc/store/views/internal/megatron_common.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/torch/megatron_record.h"
#include "ptc/store/torch/torch_file.h"

namespace scalai::store::internal {
namespace {

constexpr int64_t kMostCommonBytes = int64_t{64} << 20;

absl::StatusOr<bool> take_file(const Folder& folder, const std::string& name, bool listed, MegatronCommon& common) {
  SCALAI_ASSIGN_OR_RETURN(std::optional<std::string> bytes, folder.text(name, kMostCommonBytes));
  if (!bytes) return false;
  SCALAI_RETURN_IF_ERROR(check_torch_file(*text_source(folder.path_of(name), *bytes)));
  common = {.bytes = *std::move(bytes), .listed = listed};
  return true;
}

// "": there is none of the name.
absl::StatusOr<std::string> take_object(const Folder& place, const std::string& index, const std::string& name) {
  SCALAI_ASSIGN_OR_RETURN(const std::optional<DcpObject> object, find_dcp_object(index, name));
  if (!object) return std::string();
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, place.source(object->file));
  if (object->bytes > kMostCommonBytes || object->begin > source->size() - object->bytes)
    return invalid(fmt::format("{}: object \"{}\" is too large, or beyond the end", source->name(), name));
  std::string bytes(static_cast<size_t>(object->bytes), '\0');
  SCALAI_RETURN_IF_ERROR(source->read(object->begin, std::as_writable_bytes(std::span(bytes))));
  SCALAI_RETURN_IF_ERROR(check_torch_file(*text_source(source->name(), bytes)));
  return bytes;
}

}  // namespace

absl::Status take_common(const Folder& place, const std::string& index, MegatronCommon& common) {
  SCALAI_ASSIGN_OR_RETURN(const bool older, take_file(place, MegatronCommon().file_name(), false, common));
  if (older) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(std::string bytes, take_object(place, index, kCommonObject));
  if (!bytes.empty()) common = {.bytes = std::move(bytes), .listed = true};
  return absl::OkStatus();
}

absl::Status take_optimizers(const Folder& place, const std::string& index, CheckpointInfo& info) {
  const auto take = [&](const std::string& chained, const char* what) {
    return take_object(place, index, fmt::format("{}optimizer.distributed.dp_group_idx_0.{}/shard_0_1", chained, what));
  };
  std::vector<std::string> optimizers;
  bool scaled = false;
  // One, or several that are numbered.
  for (size_t i = 0;; ++i) {
    const std::string chained = i == 0 ? "" : fmt::format("chained_{}.", i - 1);
    SCALAI_ASSIGN_OR_RETURN(std::string optimizer, take(chained, "optimizer"));
    if (optimizer.empty() && i > 0) break;
    SCALAI_ASSIGN_OR_RETURN(const std::string scaler, take(chained, "grad_scaler"));
    scaled = scaled || !scaler.empty();
    if (!optimizer.empty()) optimizers.push_back(std::move(optimizer));
  }
  if (scaled) info.notes.emplace_back("left out: the scale of gradients in 16 bits, which Megatron begins anew");
  if (optimizers.empty() || info.common.bytes.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> record = with_optimizers(info.common.bytes, optimizers);
  if (record.ok()) {
    info.common.bytes = *std::move(record);
    return absl::OkStatus();
  }
  if (!absl::IsInvalidArgument(record.status())) return record.status();
  info.notes.push_back(fmt::format("left out: the optimizer's learning rates; {}", message_of(record.status())));
  return absl::OkStatus();
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

}  // namespace scalai::store::internal
