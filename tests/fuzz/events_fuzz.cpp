// Any bytes as an events.csv: reading may refuse them but must not crash or hang, and events that it accepts are the
// same when they are written and read.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/run/control/event_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto events = scalai::control::parse_events(text);
  if (!events.ok()) {
    SCALAI_CHECK(!scalai::message_of(events.status()).empty());
    return 0;
  }
  const std::string written = scalai::control::events_csv(*events);
  const auto again = scalai::control::parse_events(written);
  SCALAI_CHECK(again.ok() && scalai::control::events_csv(*again) == written, "events changed when written and read");
  return 0;
}
