#include <string>
#include <vector>

#include "apps/commands.h"

namespace {

// `scalai doctor` is `scalai exec doctor`, for GPU nodes: scalai-exec is what knows their libraries.
std::vector<char*> words_of(int argc, char** argv) {
  static char exec[] = "exec", help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  const auto is = [&](size_t at, const std::string& word) { return at < words.size() && words[at] == word; };
  if (is(1, "help") && is(2, "doctor")) words = {words[0], words[2], help};
  if (is(1, "man") && is(2, "doctor")) words = {words[0], words[2], words[1]};
  if (is(1, "doctor")) words.insert(words.begin() + 1, exec);
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai",
      .summary = "Plans, simulates and executes reconfigurations of deep-learning jobs.",
      .commands = {scalai::apps::validate_command(), scalai::apps::models_command(), scalai::apps::machines_command(),
                   scalai::apps::plan_command(), scalai::apps::parallelize_command(), scalai::apps::compare_command(),
                   scalai::apps::replay_command(), scalai::apps::reshard_command(), scalai::apps::checkpoint_command(),
                   scalai::apps::import_command(), scalai::apps::validate_model_command(),
                   scalai::apps::validate_policies_command(), scalai::apps::policies_command(),
                   scalai::apps::sweep_command(), scalai::apps::breakeven_command()},
      .external = {{"data", "index a dataset, show which rank reads what"},
                   {"doctor", "say what this machine has for runs on GPUs and between machines"},
                   {"exec", "run a scenario for real, on worker processes"},
                   {"fs", "show checkpoints in any layout, and datasets by rank, as files"},
                   {"sim", "run a scenario in virtual time on a modelled cluster"}},
  };
  std::vector<char*> words = words_of(argc, argv);
  return scalai::run_program(program, static_cast<int>(words.size()), words.data());
}
