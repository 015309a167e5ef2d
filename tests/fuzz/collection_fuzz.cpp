// Any bytes or changed collections as a collection file: parsing and validation may refuse them but must not crash,
// hang or accept what they cannot write out and read back.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/proto/collection.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;

constexpr const char* kSeed = R"(
schema_version: 1 name: "seed" epoch: 3 devices: "0-3,8,6,10-11"
meshes { name: "dense" axes { name: "tp" size: 2 } axes { name: "dp" size: 2 } axes { name: "pp" size: 2 } }
meshes { name: "flat" axes { name: "all" size: 8 } }
layouts { name: "rows" cuts { axis: "tp" dim: 0 rule: PADDED multiple: 3 } }
tensors { name: "embed" dtype: "BF16" shape: [10, 4] mesh: "dense" layout: "rows" pins { axis: "pp" at: 0 } }
tensors { name: "qkv" dtype: "F32" shape: [6, 4] mesh: "dense" cuts { axis: "tp" dim: 0 rule: GROUPED groups: 3 }
          cuts { axis: "dp" flat: true } }
tensors { name: "m" dtype: "F32" shape: [24] kind: MASTER mesh: "flat"
          cuts { axis: "all" dim: 0 rule: EXPLICIT bounds: [0, 4, 4, 8, 12, 16, 20, 22, 24] } }
tensors { name: "v" dtype: "F32" shape: [40] kind: EXP_AVG mesh: "flat" cuts { axis: "all" flat: true rule: BUCKET start: 8 bucket: 64 } }
tensors { name: "step" dtype: "I64" kind: SCALAR mesh: "dense" }
repeats { variable: "layer" count: 5 spread { axis: "pp" counts: [2, 3] }
          tensors { name: "h.{layer}.w" dtype: "BF16" shape: [4, 4] mesh: "dense" cuts { axis: "tp" dim: 1 rule: CEIL } }
          repeats { variable: "expert" count: 2
                    tensors { name: "h.{layer}.e.{expert}" dtype: "F16" shape: [3] mesh: "dense" } } }
residency { lost: "3,8" copies { tensor: "embed" box: "[0:4, 1:3]" host: 1 } storage: true }
)";

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view text, Random& random) {
    proto::CollectionFile message;
    return fuzz::mutate_textproto(text, kSeed, message, random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A repeat can ask for many tensors, which read back one by one.
  constexpr size_t kMostTensors = 1000;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = scalai::collection::parse_collection(text, "fuzz");
  if (!file.ok()) {
    SCALAI_CHECK(!scalai::message_of(file.status()).empty());
    return 0;
  }
  SCALAI_CHECK(scalai::collection::validate(file->collection).ok(), "an accepted collection is not valid");
  if (file->collection.tensors.size() > kMostTensors) return 0;
  const std::string written = scalai::collection::collection_text(file->collection, file->residency);
  const auto again = scalai::collection::parse_collection(written, "fuzz");
  SCALAI_CHECK(again.ok() && again->digest == file->digest && again->collection == file->collection &&
                   again->residency == file->residency,
               "a collection changed when written and read");
  return 0;
}
