#include "apps/common/transform_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/str_split.h"
#include "ptc/base/status.h"

namespace scalai::apps {

OptionSpec transform_option() {
  return texts_option("transform", "STEP",
                      "Change tensors on the way: cast(bf16), scale(0.5, tensors=layers.*), quantise(i8), "
                      "lora(ADAPTER, alpha=16), average(OTHER, …). May be repeated: steps go in order.");
}

absl::StatusOr<std::vector<transform::Step>> parse_transforms(const std::vector<std::string>& texts) {
  absl::StatusOr<std::vector<transform::Step>> steps = transform::parse_steps(texts);
  if (steps.ok()) return steps;
  std::vector<std::string> lines = absl::StrSplit(message_of(steps.status()), '\n');
  for (std::string& line : lines) line = "--transform=" + line;
  return invalid(fmt::format("{}", fmt::join(lines, "\n")));
}

OptionSpec step_backend_option() {
  return choice_option("backend", "WHERE",
                       "Where the steps of --transform are computed: by the host's processors, or on a GPU, in chunks "
                       "that go up and come down beside its work. Both give the same bits.",
                       {"host", "cuda"}, "host");
}

}  // namespace scalai::apps
