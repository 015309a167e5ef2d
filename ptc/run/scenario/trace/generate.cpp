#include "ptc/run/scenario/trace/generate.h"

#include <fmt/format.h>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/internal/finish.h"
#include "ptc/run/scenario/trace/internal/generators.h"

namespace scalai::trace {
namespace {

const std::vector<Generator>& all_generators() {
  static const std::vector<Generator> generators = [] {
    std::vector<Generator> all;
    for (const auto& family : {job_generators(), failure_generators(), resampling_generators()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return generators;
}

absl::StatusOr<const Generator*> find_generator(const std::string& name) {
  std::vector<std::string> names;
  for (const Generator& generator : all_generators()) {
    if (generator.info.name == name) return &generator;
    names.push_back(generator.info.name);
  }
  const std::string near = closest(name, names);
  return invalid(fmt::format(
      "there is no generator {}\n  hint: {}", in_quotes(name),
      near.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)));
}

}  // namespace

const std::vector<GeneratorInfo>& generators() {
  static const std::vector<GeneratorInfo> infos = [] {
    std::vector<GeneratorInfo> all;
    for (const Generator& generator : all_generators()) all.push_back(generator.info);
    return all;
  }();
  return infos;
}

absl::StatusOr<Imported> generate(const std::string& name, const std::vector<std::string>& set, uint64_t seed,
                                  int hosts, int gpus_per_host) {
  SCALAI_ASSIGN_OR_RETURN(const Generator* generator, find_generator(name));
  SCALAI_CHECK(hosts >= 0 && gpus_per_host > 0);
  Making making{.options = {},
                .problems = {},
                .random = Random(seed),
                .hosts = hosts,
                .gpus_per_host = gpus_per_host,
                .end_s = 0,
                .made = {}};
  making.options = OptionValues::parse(name, generator->info.options, set, making.problems);
  if (generator->info.content == TraceContent::kHosts && hosts == 0) {
    making.problems.add({name}, "", "makes events of hosts, and there are none", "say how many hosts there are");
  }
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  SCALAI_RETURN_IF_ERROR(generator->make(making));
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  making.made.summary.format = name;
  making.made.summary.notes.insert(making.made.summary.notes.begin(), fmt::format("seed {}", seed));
  if (generator->info.content == TraceContent::kJobs) making.made.workload.name = name;
  summarize(making.made, making.end_s);
  return std::move(making.made);
}

}  // namespace scalai::trace
