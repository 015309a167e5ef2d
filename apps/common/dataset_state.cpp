#include "apps/common/dataset_state.h"

#include <fmt/format.h>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::apps {

OptionSpec dataset_state_option() {
  return text_option("state", "FILE|JSON",
                     "Go on from this state of a job, with its order and batch: what `scalai data show` prints after "
                     "\"state\", or a file with it.");
}

absl::StatusOr<std::optional<datasets::State>> said_state(const Arguments& arguments) {
  if (!arguments.has("state")) return std::optional<datasets::State>();
  const std::string word = arguments.text("state");
  const bool is_text = word.starts_with('{');
  std::string text = word;
  if (!is_text) {
    constexpr int64_t kMostBytes = 1 << 16;
    SCALAI_ASSIGN_OR_RETURN(text, read_file(word, kMostBytes));
  }
  absl::StatusOr<datasets::State> state = datasets::parse_state(text);
  if (state.ok()) return std::optional(*std::move(state));
  return invalid(fmt::format("{}: {}", is_text ? "--state" : word, message_of(state.status())));
}

std::string problem_beside_state(const Arguments& arguments) {
  if (!arguments.has("state")) return "";
  for (const char* name : {"global-batch", "sequence", "no-shuffle", "drop-last"}) {
    if (arguments.has(name)) return fmt::format("--{} is what --state says already", name);
  }
  return "";
}

absl::StatusOr<datasets::State> first_state(const Arguments& arguments, const std::optional<datasets::State>& said,
                                            const datasets::Samples& samples) {
  if (said) {
    if (!said->index.empty() && said->index != samples.index().digest())
      return invalid(fmt::format("--state is of the index with digest {}, {} has {}", said->index,
                                 samples.index().path(), samples.index().digest()));
    if (said->samples != samples.count() || said->sequence != samples.sequence())
      return invalid(fmt::format("--state is of {} samples of sequence {}, {} has {} of {}", said->samples,
                                 said->sequence, samples.index().path(), samples.count(), samples.sequence()));
    return *said;
  }
  return datasets::State{.index = samples.index().digest(),
                         .samples = samples.count(),
                         .sequence = samples.sequence(),
                         .seed = static_cast<uint64_t>(arguments.count("seed")),
                         .shuffle = !arguments.flag("no-shuffle"),
                         .drop_last = arguments.flag("drop-last"),
                         .global_batch = arguments.has("global-batch") ? arguments.count("global-batch") : 1};
}

}  // namespace scalai::apps
