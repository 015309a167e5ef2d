// Any bytes as a trace: importing may refuse them with problems but must not crash or hang, and what is accepted reads
// back the same when it is written in our own form. The first byte chooses the format.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/import.h"

namespace {

using namespace scalai;

// Importers read files; this one is memory.
absl::StatusOr<trace::Imported> import_text(const std::string& format, const std::string& text) {
  static const int file = memfd_create("trace", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  SCALAI_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  SCALAI_CHECK(pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return trace::import_trace(format, path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& formats = trace::trace_formats();
  const std::string& format = formats[data[0] % formats.size()].name;
  const auto got = import_text(format, std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  if (!got.ok()) {
    SCALAI_CHECK(!message_of(got.status()).empty());
    return 0;
  }
  const auto again = import_text("scalai", trace::export_trace(*got));
  SCALAI_CHECK(again.ok(), again.ok() ? "" : message_of(again.status()));
  SCALAI_CHECK(again->summary.checksum == got->summary.checksum, "a trace changed when written and read");
  return 0;
}
