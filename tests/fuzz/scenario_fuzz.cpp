// Any bytes as a scenario: parsing and validation may refuse them but must not crash, hang or accept what they cannot
// write out and read back. The first byte chooses the parser: a layout name or a scenario.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/state/collection/layout_name.h"

namespace {

// Files a scenario names do not exist here: the fuzzer must not open what it makes up.
absl::StatusOr<std::string> no_files(const std::string& path) { return scalai::missing(path + ": no files here"); }

void try_layout(const std::string& text) {
  scalai::collection::LayoutProblem problem;
  const auto config = scalai::collection::parse_layout(text, &problem);
  if (!config.ok()) {
    SCALAI_CHECK(problem.position >= 1 && problem.length >= 1 && !problem.message.empty());
    return;
  }
  for (const char separator : {',', '-'}) {
    const auto again = scalai::collection::parse_layout(scalai::collection::canonical(*config, separator));
    SCALAI_CHECK(again.ok() && *again == *config, "a layout changed when written and read: " + text);
  }
}

void try_scenario(const std::string& text) {
  const auto scenario = scalai::scenario::parse_scenario(text, "fuzz", no_files);
  if (!scenario.ok()) return;
  const auto again = scalai::scenario::parse_scenario(scenario->resolved_text, "fuzz", no_files);
  SCALAI_CHECK(again.ok() && again->digest == scenario->digest, "a scenario changed when written and read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 'L')
    try_layout(text);
  else
    try_scenario(text);
  return 0;
}
