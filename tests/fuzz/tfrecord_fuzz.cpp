// Any bytes as a TFRecord file. Checksums would hide nearly all of the reader from the fuzzer, so the bytes are tried a
// second time with the checksums of all whole records made to fit.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/store/datasets/crc32c.h"
#include "ptc/store/datasets/reader.h"
#include "tests/fuzz/data_fuzz_support.h"

namespace {

using namespace scalai;

constexpr const char* kFile = "fuzz://records";

std::string crc_of(std::string_view bytes) {
  const uint32_t crc = datasets::masked(datasets::crc32c(std::as_bytes(std::span(bytes))));
  return std::string(reinterpret_cast<const char*>(&crc), sizeof crc);
}

std::string repaired(std::string bytes) {
  for (size_t at = 0; bytes.size() - at >= 16;) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    length &= 255;  // so that many records fit
    std::memcpy(bytes.data() + at, &length, sizeof length);
    bytes.replace(at + 8, 4, crc_of(std::string_view(bytes).substr(at, 8)));
    if (length > bytes.size() - at - 16) break;
    bytes.replace(at + 12 + length, 4, crc_of(std::string_view(bytes).substr(at + 12, length)));
    at += 16 + length;
  }
  return bytes;
}

void try_records(const std::string& bytes) {
  const fuzz::Built built = fuzz::build(datasets::Format::kTfRecord, kFile, {{kFile, bytes}});
  if (!built.index) return;
  const datasets::Reader reader(datasets::Samples::make(built.index).value(), built.opener, {.check_crc = true});
  std::string again;
  for (int64_t i = 0; i < reader.samples().count(); ++i) {
    const auto record = reader.read(i);
    SCALAI_CHECK(record.ok(), message_of(record.status()));
    again += *record;
  }
  SCALAI_CHECK(again == bytes, "records do not make up the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try_records(bytes);
  try_records(repaired(bytes));
  return 0;
}
