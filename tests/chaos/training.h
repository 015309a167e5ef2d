#pragma once
// A real training among the runs: examples/training/gpt.py in PyTorch, tiny, over changes of its layout.

#include <string>

#include "absl/status/status.h"
#include "tests/chaos/run.h"

namespace scalai::chaos {

// Into setting.training: training.textproto with its collections, and static.csv, the losses of the same training in
// one process that nothing happens to. NotFound: there is no PyTorch, or it failed; a log lies there.
absl::Status make_training(const Setting& setting);

// The program with its options, as words of a shell; its environment needs these.
std::string training_words(const Setting& setting);
std::vector<std::pair<std::string, std::string>> training_environment(const Setting& setting);

// "" = every step of `expected` was trained, with its loss but for rounding (2e-5: layouts add up in other orders). Of
// a step that was trained twice the second counts. Both: a line "step,loss,…" a step.
std::string judge_losses(const std::string& expected_file, const std::string& found_file);

}  // namespace scalai::chaos
