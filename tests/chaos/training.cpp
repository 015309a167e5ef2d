#include "tests/chaos/training.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::chaos {
namespace {

using executor::rpc::Process;

constexpr int kSteps = 24;
constexpr double kRounding = 2e-5;
constexpr std::array<std::string_view, 3> kLayouts = {"tp1", "pp2", "tp2,pp2"};

absl::Status python(const Setting& setting, const std::string& words) {
  auto process = Process::start({.binary = "/bin/sh",
                                 .arguments = {"sh", "-c", training_words(setting) + " " + words},
                                 .environment = training_environment(setting),
                                 .log_file = setting.training + "/log"});
  const auto end = process.ok() ? process->wait(300) : std::nullopt;
  return end && end->ok() ? absl::OkStatus() : missing("no training in PyTorch here: " + setting.training + "/log");
}

std::map<int64_t, double> losses_of(const std::string& file) {
  std::map<int64_t, double> losses;
  std::istringstream lines(read_file(file).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int64_t step = 0;
    double loss = 0;
    char comma = 0;
    if (words >> step >> comma >> loss) losses[step] = loss;
  }
  return losses;
}

}  // namespace

std::string training_words(const Setting& setting) {
  return fmt::format("{} " SCALAI_SOURCE_DIR
                     "/examples/training/gpt.py --text={} --batch=12 --width=32 --heads=4 --length=32 --steps={}",
                     setting.python, setting.training, kSteps);
}

std::vector<std::pair<std::string, std::string>> training_environment(const Setting& setting) {
  return {{"PYTHONPATH", std::filesystem::path(setting.bin).parent_path() / "python"},
          {"SCALAI_BIN", setting.bin},
          {"PYTHONDONTWRITEBYTECODE", "1"},
          {"OMP_NUM_THREADS", "1"}};
}

absl::Status make_training(const Setting& setting) {
  if (setting.python.empty()) return missing("no Python");
  SCALAI_RETURN_IF_ERROR(make_folders(setting.training));
  // A copy, for the text decides what a step's loss is.
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(SCALAI_SOURCE_DIR "/docs/design.md"));
  SCALAI_RETURN_IF_ERROR(write_file(setting.training + "/text.md", text));
  std::string configs, layouts;
  for (const std::string_view layout : kLayouts) {
    layouts += fmt::format(" {}", layout);
    configs +=
        fmt::format("configs {{ layout: \"{0}\" step_time: \"1s\" collection: \"training/{0}.textproto\" }}\n", layout);
  }
  SCALAI_RETURN_IF_ERROR(python(setting, fmt::format("collections {}{}", setting.training, layouts)));
  SCALAI_RETURN_IF_ERROR(python(setting, fmt::format("static --log={}/static.csv", setting.training)));
  const std::string said = read_file(setting.training + "/log").value_or("");
  const size_t at = said.find("dataset of ");
  if (at == std::string::npos || losses_of(setting.training + "/static.csv").size() != kSteps)
    return missing("the training said something else: " + setting.training + "/log");
  return write_file(setting.training + "/training.textproto",
                    fmt::format(R"(schema_version: 1
name: "training"
until: "1h"
cluster {{ hosts {{ count: 2 gpus: 2 gpu: "h100-80g" nic: "400Gbps" }} storage {{ read: "2GB/s" write: "2GB/s" }} }}
jobs {{
  name: "gpt" global_batch: 12 gpus: 2 steps: {} checkpoint {{ every_steps: 5 }}
  dataset {{ samples: {} drop_last: true }}
{}}}
events {{ at_step {{ job: "gpt" step: 6 }} resize {{ job: "gpt" gpus: 4 }} }}
events {{ at_step {{ job: "gpt" step: 12 }} resize {{ job: "gpt" gpus: 1 }} }}
events {{ at_step {{ job: "gpt" step: 18 }} resize {{ job: "gpt" gpus: 2 }} }}
)",
                                kSteps, std::stoll(said.substr(at + 11)), configs));
}

std::string judge_losses(const std::string& expected_file, const std::string& found_file) {
  const std::map<int64_t, double> found = losses_of(found_file);
  for (const auto& [step, loss] : losses_of(expected_file)) {
    const auto at = found.find(step);
    if (at == found.end()) return fmt::format("step {} was never trained", step);
    if (!(std::abs(at->second - loss) <= kRounding))
      return fmt::format("step {} has a loss of {:.9g}, and {:.9g} where nothing happens", step, at->second, loss);
  }
  return "";
}

}  // namespace scalai::chaos
