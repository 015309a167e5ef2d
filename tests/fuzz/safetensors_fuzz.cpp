// Any bytes as what a checkpoint folder holds. The first byte chooses: a safetensors file (whole, with its length), a
// manifest of either kind, or an index. Readers may refuse but must not crash, and what they accept they write and read
// back equal.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "ptc/base/status.h"
#include "ptc/checkpoint/safetensors/manifest.h"
#include "ptc/checkpoint/safetensors/safetensors.h"
#include "ptc/checkpoint/safetensors/testing/memory_source.h"
#include "ptc/checkpoint/views/internal/arranged_manifest.h"

namespace {

using namespace scalai;
using namespace scalai::checkpoint;

void try_file(const std::string& bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  const MemorySource source(std::vector<std::byte>(begin, begin + bytes.size()));
  const absl::StatusOr<SafetensorsHeader> header = read_safetensors_header(source);
  if (!header.ok()) {
    SCALAI_CHECK(!message_of(header.status()).empty());
    return;
  }
  int64_t at = header->data_begin;
  std::vector<TensorSpec> specs;
  for (const StoredTensor& stored : header->tensors) {
    SCALAI_CHECK(stored.offset == at && stored.bytes >= 0, "tensors that are not one after the other");
    at += stored.bytes;
    specs.push_back({stored.name, stored.dtype, stored.shape});
  }
  SCALAI_CHECK(at == header->file_bytes && at == source.size(), "tensors that do not end with the file");
  const absl::StatusOr<EncodedHeader> encoded = encode_safetensors_header(specs, header->metadata);
  if (!encoded.ok()) return;  // such as a header that is longer when written out
  const absl::StatusOr<SafetensorsHeader> again =
      parse_safetensors_header(std::string_view(encoded->bytes).substr(8), encoded->header.file_bytes);
  SCALAI_CHECK(again.ok() && again->tensors.size() == specs.size() && again->metadata == header->metadata,
               "a header changed when written and read");
}

void try_manifests(const std::string& text) {
  (void)manifest_kind(text);
  if (const auto manifest = parse_manifest(text); manifest.ok()) {
    const auto again = parse_manifest(manifest_text(*manifest));
    SCALAI_CHECK(again.ok() && *again == *manifest, "a manifest changed when written and read");
  }
  if (const auto manifest = parse_arranged_manifest(text); manifest.ok()) {
    const auto again = parse_arranged_manifest(arranged_manifest_text(*manifest));
    SCALAI_CHECK(again.ok() && *again == *manifest, "an arranged manifest changed when written and read");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'M': try_manifests(text); break;
    case 'I': (void)parse_weight_map(text); break;
    default: try_file(text);
  }
  return 0;
}
