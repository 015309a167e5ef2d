#include "apps/exec/launch_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::apps {
namespace {

// Slowest first: Megatron's order.
constexpr const char* kAxes[] = {"pp", "dp", "cp", "tp"};

int size_of(const collection::ParallelConfig& config, const std::string& axis) {
  return axis == "pp" ? config.pp : axis == "dp" ? config.dp : axis == "cp" ? config.cp : config.tp;
}

}  // namespace

absl::StatusOr<std::vector<LaunchedLayout>> launched_layouts(const std::vector<std::string>& names) {
  std::string problems;
  std::set<std::string, std::less<>> named;
  std::vector<collection::ParallelConfig> configs;
  for (const std::string& name : names) {
    const absl::StatusOr<collection::LayoutFields> fields = collection::parse_layout_fields(name);
    if (!fields.ok()) {
      problems += fmt::format("--layout={}: {}\n", name, message_of(fields.status()));
      continue;
    }
    for (const std::string& field : fields->named) {
      const bool axis = std::find(std::begin(kAxes), std::end(kAxes), field) != std::end(kAxes);
      if (!axis)
        problems += fmt::format(
            "--layout={}: {} is no axis of a training program's mesh; these are tp, cp, dp and pp\n", name, field);
    }
    named.insert(fields->named.begin(), fields->named.end());
    configs.push_back(fields->config);
  }
  std::vector<LaunchedLayout> layouts;
  std::map<int, std::string> by_gpus;
  for (const collection::ParallelConfig& config : configs) {
    LaunchedLayout& layout = layouts.emplace_back();
    layout.name = canonical(config);
    layout.gpus = config.world();
    for (const char* axis : kAxes) {
      if (named.contains(axis)) layout.axes.emplace_back(axis, size_of(config, axis));
    }
    const auto [other, first] = by_gpus.emplace(layout.gpus, layout.name);
    if (!first)
      problems += fmt::format("--layout={}: {} has {} GPUs, too; a job has one layout for each number\n", layout.name,
                              other->second, layout.gpus);
  }
  if (names.empty()) problems = "--layout=LAYOUT is needed, once for each number of GPUs that the job may have\n";
  if (problems.empty()) return layouts;
  problems.pop_back();
  return invalid(problems);
}

absl::StatusOr<std::string> description_request(const std::string& folder, const std::vector<LaunchedLayout>& layouts) {
  nlohmann::json list = nlohmann::json::array();
  for (const LaunchedLayout& layout : layouts) list.push_back({{"name", layout.name}, {"axes", layout.axes}});
  std::vector<std::string> replaced;
  std::string text = json_text(nlohmann::json{{"folder", folder}, {"layouts", std::move(list)}}, {}, &replaced);
  if (replaced.empty()) return text;
  return missing(
      fmt::format("{}: a training program gets the name of this folder as JSON, and it is not UTF-8\n"
                  "hint: TMPDIR=DIR names another place for temporary folders",
                  printable_text(folder)));
}

absl::StatusOr<std::string> launch_scenario(const LaunchedJob& job, const std::vector<LaunchedLayout>& layouts,
                                            const std::string& job_json) {
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json told, read_json(job_json, "job.json"));
  std::string dataset;
  int64_t batch = 1;
  try {
    const nlohmann::json& data = told.at("data");
    if (!data.is_null()) {
      batch = data.at("global_batch");
      dataset = fmt::format("  dataset {{ samples: {} seed: {} shuffle: {} drop_last: {} }}\n",
                            data.at("samples").get<int64_t>(), data.at("seed").get<uint64_t>(),
                            data.at("shuffle").get<bool>(), data.at("drop_last").get<bool>());
    }
  } catch (const nlohmann::json::exception& error) {
    return invalid(fmt::format("job.json: {}", error.what()));
  }
  std::string configs;
  for (const LaunchedLayout& layout : layouts)
    configs +=
        fmt::format("  configs {{ layout: \"{0}\" step_time: \"1s\" collection: \"{0}.textproto\" }}\n", layout.name);
  const std::string checkpoint =
      job.checkpoint_every > 0 ? fmt::format("  checkpoint {{ every_steps: {} }}\n", job.checkpoint_every) : "";
  return fmt::format(
      "schema_version: 1\nname: \"{0}\"\ndescription: \"by scalai launch; a step of this scenario takes a second\"\n"
      "cluster {{\n  hosts {{ count: {1} gpus: {2} gpu: \"h100-80g\" nic: \"400Gbps\" }}\n"
      "  storage {{ read: \"2GB/s\" write: \"2GB/s\" }}\n}}\n"
      "jobs {{\n  name: \"{0}\"\n  global_batch: {3}\n  gpus: {4}\n  steps: {5}\n{6}{7}{8}}}\n",
      job.name, job.hosts, job.gpus_per_host, batch, job.gpus, job.steps, configs, dataset, checkpoint);
}

}  // namespace scalai::apps
