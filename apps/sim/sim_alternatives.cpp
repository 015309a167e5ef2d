#include "apps/sim/sim_alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "apps/common/output.h"
#include "apps/common/report_folders.h"
#include "apps/common/run_report.h"
#include "apps/common/sim_workers.h"
#include "ptc/base/parallel.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/report/report.h"

namespace scalai::apps {
namespace {

class Runs {
 public:
  explicit Runs(const Alternatives& all) : all_(all), labels_(scenario::labels_of(all.axes)) {
    if (all_.axes.empty()) labels_ = {all_.name};
  }

  int run() {
    std::vector<std::vector<std::string>> words;
    for (size_t point = 0; point < labels_.size(); ++point) {
      for (size_t seed = 0; seed < all_.seeds; ++seed) words.push_back(words_of(point, seed));
    }
    note_others();
    summaries_.resize(words.size());
    Progress progress("simulating");
    size_t ended = 0;
    const absl::Status done =
        run_processes("/proc/self/exe", words, hardware_threads(), [&](size_t run, const SimResult& result) {
          take(run, result);
          progress.update(static_cast<double>(++ended) / static_cast<double>(words.size()),
                          fmt::format("{} of {} runs", ended, words.size()));
          return absl::OkStatus();
        });
    return done.ok() ? finish() : report_error(done);
  }

 private:
  std::vector<std::string> words_of(size_t point, size_t seed) const {
    std::vector<std::string> words = all_.words;
    std::vector<std::string> settings = all_.settings;
    const std::vector<std::string> values = scenario::values_at(all_.axes, point);
    for (size_t a = 0; a < values.size(); ++a) {
      // By its option, which leaves the scenario's expectations in force.
      if (all_.axes[a].path == "strategy")
        words.push_back("--strategy=" + values[a]);
      else
        settings.push_back(all_.axes[a].path + "=" + values[a]);
    }
    for (const std::string& setting : settings) words.push_back("--set=" + setting);
    if (all_.seeds > 1) words.push_back(fmt::format("--seed={}", all_.first_seed + seed));
    if (const std::string folder = folder_of(point, seed); !folder.empty()) words.push_back("--out=" + folder);
    words.push_back("--format=json");
    return words;
  }

  std::string folder_of(size_t point, size_t seed) const {
    if (all_.out.empty()) return "";
    std::string folder = all_.axes.empty() ? all_.out : all_.out + "/" + labels_[point];
    if (all_.seeds > 1) folder += fmt::format("/seed-{}", all_.first_seed + seed);
    return folder;
  }

  // Reports of an earlier run stay, and whoever reads the folder finds them beside these.
  void note_others() const {
    if (all_.out.empty()) return;
    std::set<std::string> ours, others;
    for (size_t point = 0; point < labels_.size(); ++point) {
      for (size_t seed = 0; seed < all_.seeds; ++seed) ours.insert(folder_of(point, seed));
    }
    for (const ReportFolder& found : report_folders({all_.out})) {
      for (const std::string& folder : found.folders)
        if (folder != all_.out && !ours.contains(folder)) others.insert(folder);
    }
    if (!others.empty())
      say("scalai sim: note: {} has other reports, which compare and report will show, too: {}\n", all_.out,
          fmt::join(others, ", "));
  }

  std::string label_of(size_t run) const {
    const std::string& label = labels_[run / all_.seeds];
    return all_.seeds == 1 ? label : fmt::format("{} (seed {})", label, all_.first_seed + run % all_.seeds);
  }

  void take(size_t run, const SimResult& result) {
    code_ = std::max(code_, result.exit_code);
    std::istringstream lines(result.messages);
    for (std::string line; std::getline(lines, line);) say("{}: {}\n", label_of(run), line);
    if (result.exit_code != 0 && result.exit_code != kExpectationFailed && result.messages.empty())
      say("{}: error: it ended with exit code {}\n", label_of(run), result.exit_code);
    if (result.out.starts_with('{')) summaries_[run] = result.out;
  }

  // Of an alternative that failed with one seed, the others' median would say nothing of it.
  int finish() const {
    std::vector<report::Alternative> columns;
    std::vector<std::string> shown;
    for (size_t point = 0; point < labels_.size(); ++point) {
      const auto first = summaries_.begin() + static_cast<std::ptrdiff_t>(point * all_.seeds);
      const auto last = first + static_cast<std::ptrdiff_t>(all_.seeds);
      if (std::any_of(first, last, [](const std::string& summary) { return summary.empty(); })) continue;
      columns.push_back({labels_[point], {first, last}});
      shown.push_back(labels_[point]);
    }
    if (columns.empty()) return code_;
    const auto table = report::compare_alternatives(
        columns,
        {.format = all_.format, .against = report::Against::kFirst, .screen = stdout_screen(), .varied = true});
    if (!table.ok()) return report_error(table.status());
    print(*table);
    if (all_.format == "table") {
      note_terms(
          "Δ = difference to the first, of several seeds on the same ones (and where it lies); * = the best; ± = to "
          "the further end of the interval, of seeds, of the models behind a single run, or of the moments of a "
          "failure",
          next_step(all_.out));
    }
    if (!all_.out.empty() && all_.axes.empty()) say("reports: {}\n", all_.out);
    if (!all_.out.empty() && !all_.axes.empty()) say("reports: {}/{{{}}}\n", all_.out, fmt::join(shown, ","));
    return code_;
  }

  const Alternatives& all_;
  std::vector<std::string> labels_;
  std::vector<std::string> summaries_;  // by run; "" = it failed
  int code_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<scenario::Axis>> axes_of(const Arguments& arguments) {
  std::vector<std::string> texts = arguments.texts("vary");
  const std::vector<std::string> strategies = arguments.list("strategy");
  std::set<std::string> seen;
  for (const std::string& name : strategies)
    if (!seen.insert(name).second) return invalid(fmt::format("--strategy names \"{}\" more than once", name));
  const bool varied =
      std::any_of(texts.begin(), texts.end(), [](const std::string& text) { return text.starts_with("strategy="); });
  if (strategies.size() > 1 || (varied && !strategies.empty()))
    texts.insert(texts.begin(), fmt::format("strategy={}", fmt::join(strategies, ",")));
  return scenario::parse_axes(texts, kMostAlternatives);
}

int run_alternatives(const Alternatives& alternatives) { return Runs(alternatives).run(); }

}  // namespace scalai::apps
