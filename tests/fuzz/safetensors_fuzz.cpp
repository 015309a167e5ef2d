// Any bytes or changed files as what a checkpoint folder holds. The first byte chooses: a safetensors file (whole, with
// its length), a manifest of either kind, or an index. Readers may refuse but must not crash, and what they accept they
// write and read back equal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/memory_source.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using namespace scalai::store;

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

// A header with its length and as many bytes as it needs, where it says so.
std::string framed(const std::string& header) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  const auto parsed = parse_safetensors_header(header, std::ssize(bytes) + 48);
  return bytes + std::string(parsed.ok() || header.size() % 4 != 0 ? 48 : 24, 'x');
}

constexpr const char* kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[12],"data_offsets":[24,48]}})";
constexpr const char* kIndex =
    R"({"metadata":{"total_size":48},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})";

std::string manifest_seed(Random& random) {
  const std::string sum(32, 'a');
  if (random.below(2) == 0) {
    Manifest manifest{.job = "j", .step = 7, .epoch = 2, .collection_digest = sum};
    manifest.files = {{"rank_000.safetensors", 0, 100, sum, {{"w", "w", tensor::Box({0, 0}, {2, 4}), sum}}},
                      {"rank_001.safetensors", 1, 100, sum, {{"w", "w", tensor::Box({2, 0}, {4, 4}), sum}}}};
    manifest.texts = {{"collection.textproto", 20, sum}, {"model.textproto", 9, sum}};
    return manifest_text(manifest);
  }
  ArrangedManifest manifest{.naming = "megatron", .layout = "tp2", .job = "j", .step = 7, .epoch = 2};
  manifest.hf_prefix = "transformer.";
  manifest.states = {{"w", tensor::DType::kBF16, {4, 6}, model::StateKind::kParam},
                     {"step", tensor::DType::kI64, {}, model::StateKind::kScalar}};
  ArrangedRecord record{.file = {.name = "rank_000.safetensors", .metadata = {}, .tensors = {}},
                        .bytes = 99,
                        .checksum = sum,
                        .tensor_checksums = {sum, sum}};
  const tensor::Box box({0, 0}, {2, 6});
  record.file.tensors.push_back(
      {"w", {}, {}, {{"w", {.box = box, .offset = 0, .strides = {6, 1}}}, {"w", {box, 3, {1, 2}}}}});
  record.file.tensors.push_back({"step", {}, {}, {{"step", {.box = {}, .offset = 0, .strides = {}}}}});
  manifest.files = {record};
  manifest.texts = {{"config.json", 5, sum}};
  return arranged_manifest_text(manifest);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view input, Random& random) {
    const char kind = !input.empty() && random.below(16) != 0 ? input[0] : "MIS"[random.below(3)];
    const std::string_view rest = input.substr(std::min<size_t>(1, input.size()));
    if (kind == 'M') return "M" + fuzz::mutate_json(rest, manifest_seed(random), random);
    if (kind == 'I') return "I" + fuzz::mutate_json(rest, kIndex, random);
    return "S" +
           framed(fuzz::mutate_json(rest.size() < 56 ? "" : rest.substr(8, rest.rfind('}') - 7), kHeader, random));
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'M': try_manifests(text); break;
    case 'I': (void)parse_weight_index(text); break;
    default: try_file(text);
  }
  return 0;
}
