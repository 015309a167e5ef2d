// Any bytes as a collection file: parsing and validation may refuse them but must not crash, hang or accept what they
// cannot write out and read back.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"

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
