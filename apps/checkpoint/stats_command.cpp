#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/checkpoint/checkpoint_options.h"
#include "apps/checkpoint/commands.h"
#include "apps/checkpoint/live_source.h"
#include "apps/checkpoint/stats.h"
#include "apps/checkpoint/stats_json.h"
#include "apps/common/host_options.h"
#include "apps/common/output.h"
#include "apps/common/run_place.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/name_patterns.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using store::Checkpoint;
using store::LogicalState;
using store::TensorStats;
using tensor::ElementStats;

constexpr ptrdiff_t kMostNamed = 5;
constexpr const char* kRuns = "scalai-exec";  // the program that knows runs

// What a call compares, and what it cannot.
struct Looked {
  const Checkpoint& checkpoint;
  const Checkpoint* since = nullptr;
  std::string path, since_path;  // as they are named
  std::vector<TensorStats> stats;
  std::vector<std::string> only_here, only_there, other_shape;
  const LogicalState& state(const TensorStats& one) const { return checkpoint.tensors()[one.tensor]; }
};

bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || matches_any(name, patterns);
}

// InvalidArgument: patterns that no tensor matches.
absl::StatusOr<std::vector<size_t>> wanted_tensors(const Checkpoint& checkpoint, const std::string& path,
                                                   const std::vector<std::string>& patterns) {
  std::vector<std::string> idle;
  for (const std::string& pattern : patterns) {
    const bool used = std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                                  [&](const LogicalState& state) { return matches(state.name, {pattern}); });
    if (!used) idle.push_back(fmt::format("\"{}\"", pattern));
  }
  if (!idle.empty()) {
    return invalid(
        fmt::format("{}: no tensor is named {}; `scalai checkpoint show` lists the names, and *, ? and [a-z] stand for "
                    "what they do in names of files",
                    path, fmt::join(idle, " or ")));
  }
  std::vector<size_t> tensors;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i)
    if (matches(checkpoint.tensors()[i].name, patterns)) tensors.push_back(i);
  return tensors;
}

void compare_names(const std::vector<std::string>& patterns, Looked& looked) {
  for (const TensorStats& one : looked.stats) {
    if (one.change) continue;
    const std::string& name = looked.state(one).name;
    (looked.since->find(name) ? looked.other_shape : looked.only_here).push_back(name);
  }
  for (const LogicalState& state : looked.since->tensors())
    if (matches(state.name, patterns) && !looked.checkpoint.find(state.name)) looked.only_there.push_back(state.name);
}

std::string some_of(const std::vector<std::string>& names) {
  const ptrdiff_t shown = std::min(std::ssize(names), kMostNamed), more = std::ssize(names) - shown;
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// Magnitudes from the least to the largest as bars: "2^-9 ▁▃█▅▁ 2^1".
std::string bars_of(const ElementStats& stats) {
  constexpr int kMost = 16;
  static const std::vector<std::string> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int first = 0, last = ElementStats::kMagnitudes - 1;
  while (first <= last && stats.magnitudes[static_cast<size_t>(first)] == 0) ++first;
  while (last >= first && stats.magnitudes[static_cast<size_t>(last)] == 0) --last;
  if (first > last) return "";
  const int width = (last - first) / kMost + 1;  // powers of a bar
  std::vector<int64_t> sums;
  for (int at = first; at <= last; ++at) {
    if ((at - first) % width == 0) sums.push_back(0);
    sums.back() += stats.magnitudes[static_cast<size_t>(at)];
  }
  const int64_t most = *std::max_element(sums.begin(), sums.end());
  std::string text = fmt::format("2^{} ", first - ElementStats::kBias);
  for (const int64_t sum : sums) text += kBars[sum == 0 ? 0 : static_cast<size_t>(1 + (7 * sum) / most)];
  return text + fmt::format(" 2^{}", last + 1 - ElementStats::kBias);
}

std::string number(double value) { return fmt::format("{:.4g}", value); }
// Of finite elements; "-" where there is none.
std::string extreme(const ElementStats& stats, double value) { return stats.finite() > 0 ? number(value) : "-"; }

Table table_of(const Looked& looked, bool histogram) {
  std::vector<std::string> headers = {"tensor", "dtype", "shape",  "norm>", "mean>",
                                      "min>",   "max>",  "zeros>", "NaN>",  "Inf>"};
  if (looked.since != nullptr) headers.insert(headers.end(), {"changed>", "|change|>", "largest>"});
  if (histogram) headers.emplace_back("magnitudes");
  Table table(headers);
  std::vector<std::string> least = {"shape", "dtype", "mean", "zeros", "min", "max"};
  if (looked.since != nullptr) least.emplace_back("largest");
  table.leave_out_first(least);
  for (const TensorStats& one : looked.stats) {
    const LogicalState& state = looked.state(one);
    const ElementStats& stats = one.elements;
    std::vector<std::string> cells = {state.name,
                                      std::string(tensor::name_of(state.dtype)),
                                      state.shape.str(),
                                      extreme(stats, stats.norm()),
                                      extreme(stats, stats.mean()),
                                      extreme(stats, stats.min),
                                      extreme(stats, stats.max),
                                      fmt::format("{}", stats.zeros),
                                      fmt::format("{}", stats.nans),
                                      fmt::format("{}", stats.infinities)};
    if (looked.since != nullptr) {
      const auto& change = one.change;
      cells.push_back(change ? fmt::format("{}", change->changed) : "-");
      cells.push_back(change ? number(change->norm()) : "-");
      cells.push_back(change ? number(change->largest) : "-");
    }
    if (histogram) cells.push_back(bars_of(stats));
    table.row(std::move(cells));
  }
  return table;
}

struct Sum {
  int64_t tensors = 0;
  ElementStats elements;
  std::optional<tensor::ElementChange> change;  // of those that were compared; absent: none was
};

// By kind of state: the norm of all parameters says more than that of any one tensor.
std::map<model::StateKind, Sum> sums_of(const Looked& looked) {
  std::map<model::StateKind, Sum> sums;
  for (const TensorStats& one : looked.stats) {
    Sum& sum = sums[looked.state(one).kind];
    ++sum.tensors;
    sum.elements.add(one.elements);
    if (!one.change) continue;
    if (!sum.change) sum.change.emplace();
    sum.change->add(*one.change);
  }
  return sums;
}

void print_table(const Looked& looked, bool histogram) {
  Table sums({"state", "tensors>", "elements>", "norm>", "NaN>", "Inf>", "changed>", "|change|>"});
  int64_t no_number = 0;
  for (const auto& [kind, sum] : sums_of(looked)) {
    no_number += sum.change ? sum.change->no_number : 0;
    sums.row({std::string(model::name_of(kind)), fmt::format("{}", sum.tensors),
              fmt::format("{}", sum.elements.elements), extreme(sum.elements, sum.elements.norm()),
              fmt::format("{}", sum.elements.nans), fmt::format("{}", sum.elements.infinities),
              sum.change ? fmt::format("{}", sum.change->changed) : "-",
              sum.change ? number(sum.change->norm()) : "-"});
  }
  print("{}\n{}\n", table_of(looked, histogram).text(stdout_screen()), sums.text(stdout_screen()));
  const auto note = [](const std::vector<std::string>& names, const std::string& what) {
    if (!names.empty()) print("note: {}: {}\n", what, some_of(names));
  };
  note(looked.only_here, fmt::format("{} not there before", counted(std::ssize(looked.only_here), "tensor")));
  note(looked.only_there, fmt::format("{} not here any more", counted(std::ssize(looked.only_there), "tensor")));
  note(looked.other_shape, fmt::format("{} of another shape", counted(std::ssize(looked.other_shape), "tensor")));
  if (no_number > 0)
    print("note: |change| and largest leave {} out that became or were not finite\n", counted(no_number, "element"));
}

void print_json(const Looked& looked) {
  ordered_json json = {{"path", looked.path}};
  if (looked.checkpoint.info().step >= 0) json["step"] = looked.checkpoint.info().step;
  if (looked.since != nullptr) {
    json["since"] = looked.since_path;
    json["not_before"] = looked.only_here;
    json["not_any_more"] = looked.only_there;
    json["other_shape"] = looked.other_shape;
  }
  json["kinds"] = ordered_json::array();
  json["tensors"] = ordered_json::array();
  for (const auto& [kind, sum] : sums_of(looked)) {
    ordered_json one = {{"kind", model::name_of(kind)}, {"tensors", sum.tensors}};
    one.update(json_of(sum.elements));
    if (sum.change) one["change"] = json_of(*sum.change);
    json["kinds"].push_back(std::move(one));
  }
  for (const TensorStats& stats : looked.stats) {
    const LogicalState& state = looked.state(stats);
    ordered_json one = {{"name", state.name},
                        {"dtype", tensor::name_of(state.dtype)},
                        {"shape", state.shape.str()},
                        {"kind", model::name_of(state.kind)}};
    one.update(json_of(stats.elements));
    one["magnitudes"] = json_of_magnitudes(stats.elements);
    if (stats.change) one["change"] = json_of(*stats.change);
    json["tensors"].push_back(std::move(one));
  }
  print("{}\n", json_text(json, {.indent = 2}));
}

// What --require-finite misses.
int judge(const Looked& looked) {
  std::vector<std::string> names;
  for (const TensorStats& one : looked.stats) {
    if (one.elements.nans + one.elements.infinities > 0) names.push_back(looked.state(one).name);
  }
  if (names.empty()) return 0;
  say("scalai checkpoint stats: error: {} {} elements that are not finite: {}\n", counted(std::ssize(names), "tensor"),
      names.size() == 1 ? "has" : "have", some_of(names));
  return kExpectationFailed;
}

// The last step of a run where there is one, else files of this machine.
class SourceHere final : public StatsSource {
 public:
  SourceHere(std::unique_ptr<LiveSource> run, Opened opened, Opened before)
      : StatsSource(std::move(opened), std::move(before)), run_(std::move(run)) {}

  absl::StatusOr<std::vector<TensorStats>> stats(const std::vector<size_t>& tensors,
                                                 const StatsProgress& progress) override {
    if (run_ != nullptr && before() == nullptr) return run_->stats(tensors);
    return store::stats_of(*now.checkpoint, tensors,
                           {.since = before(), .threads = static_cast<int>(hardware_threads()), .progress = progress});
  }

  absl::StatusOr<std::string> explained(const std::vector<size_t>&) const override {
    if (run_ == nullptr) return fmt::format("{} is whole on this machine: it is read here\n", now.path);
    return fmt::format("{}: {}\n", now.path,
                       before() == nullptr ? "its workers look at what they hold, and nothing else is moved"
                                           : "what its workers hold is read here");
  }

 private:
  const std::unique_ptr<LiveSource> run_;
};

absl::StatusOr<std::vector<TensorStats>> look(StatsSource& source, const std::vector<size_t>& tensors) {
  Progress line("stats");
  return source.stats(tensors, [&](int64_t done, int64_t total) {
    line.update(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1)),
                fmt::format("{} of {}", format_bytes(done), format_bytes(total)));
  });
}

absl::StatusOr<StatsSource::Opened> open_files(const Arguments& arguments, const std::string& path,
                                               const std::string& of) {
  SCALAI_ASSIGN_OR_RETURN(const store::OpenOptions options, stats_open_options(arguments, path, of));
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> opened, Checkpoint::open(path, options));
  return StatsSource::Opened{.path = opened->info().path, .checkpoint = opened};
}

// Of a run that trains: what --since compares is read here.
absl::StatusOr<std::unique_ptr<LiveSource>> run_of(const Arguments& arguments, const OpenRun& open_run) {
  const std::string& path = arguments.positional()[0];
  if (!is_run(path)) return nullptr;
  SCALAI_CHECK(open_run != nullptr, "calls with a run are those of a program that opens runs");
  return open_run(
      path,
      {.job = arguments.text("job"), .optimizer = arguments.flag("optimizer"), .elements = arguments.has("since")});
}

int stats_main(const Arguments& arguments, const OpenRun& open_run) {
  if (const std::string wrong = wrong_stats_options(arguments); !wrong.empty())
    return usage_error("checkpoint stats", wrong);
  raise_open_files();  // a checkpoint of a thousand ranks has as many files
  const auto source = open_here(arguments, open_run);
  return source.ok() ? show_stats(arguments, **source) : report_error(source.status());
}

}  // namespace

absl::StatusOr<store::OpenOptions> stats_open_options(const Arguments& arguments, const std::string& path,
                                                      const std::string& of) {
  SCALAI_ASSIGN_OR_RETURN(store::OpenOptions options, open_options_of(arguments, path));
  options.from = arguments.text(of + "from"), options.names = arguments.text(of + "names");
  options.drop_may_be_idle = !of.empty();
  return options;
}

absl::StatusOr<std::unique_ptr<StatsSource>> open_here(const Arguments& arguments, const OpenRun& open_run) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<LiveSource> run, run_of(arguments, open_run));
  absl::StatusOr<StatsSource::Opened> now = StatsSource::Opened(), since = StatsSource::Opened();
  if (run != nullptr) {
    now = StatsSource::Opened{.path = run->checkpoint()->info().path, .checkpoint = run->checkpoint()};
  } else {
    now = open_files(arguments, arguments.positional()[0], "");
  }
  if (arguments.has("since")) since = open_files(arguments, arguments.text("since"), "since-");
  SCALAI_RETURN_IF_ERROR(joined_problems(now.status(), since.status()));
  return std::make_unique<SourceHere>(std::move(run), *std::move(now), *std::move(since));
}

absl::Status joined_problems(const absl::Status& first, const absl::Status& second) {
  if (first.ok() || second.ok()) return first.ok() ? second : first;
  return absl::Status(first.code(), message_of(first) + "\n" + message_of(second));
}

std::string wrong_stats_options(const Arguments& arguments) {
  if (arguments.flag("histogram") && arguments.text("format") == "json")
    return "--histogram is for tables; json has all magnitudes";
  for (const char* one : {"since-from", "since-names"}) {
    if (arguments.has(one) && !arguments.has("since"))
      return fmt::format("--{} is of --since, which is not given", one);
  }
  const std::string& path = arguments.positional()[0];
  for (const char* one : {"job", "optimizer"}) {
    if (!is_run(path) && arguments.has(one))
      return fmt::format("--{} is for the folder of a run that goes on, which {} is not", one, path);
  }
  for (const char* one : {"host", "hosts", "from", "names", "config", "model", "families", "drop"}) {
    if (is_run(path) && arguments.has(one))
      return fmt::format("--{} is for files; {} is a run, whose workers know their state", one, path);
  }
  return "";
}

int show_stats(const Arguments& arguments, StatsSource& source) {
  const std::string format = arguments.text("format");
  const Checkpoint& checkpoint = *source.now.checkpoint;
  const std::vector<std::string> patterns = arguments.list("tensors");
  const auto tensors = wanted_tensors(checkpoint, source.now.path, patterns);
  if (!tensors.ok()) return report_error(tensors.status());
  if (arguments.flag("explain")) {
    const auto text = source.explained(*tensors);
    if (!text.ok()) return report_error(text.status());
    print("{}", *text);
    return 0;
  }
  auto stats = look(source, *tensors);
  if (!stats.ok()) return report_error(stats.status());
  for (const std::string& note : source.notes) say("scalai checkpoint stats: note: {}\n", note);
  for (const Checkpoint* const each : {&checkpoint, source.before()}) tell_dropped(each);
  Looked looked{checkpoint, source.before(), source.now.path, source.since.path, *std::move(stats), {}, {}, {}};
  if (looked.since != nullptr) compare_names(patterns, looked);
  if (format == "json") {
    print_json(looked);
  } else if (format == "csv") {
    print("{}", table_of(looked, arguments.flag("histogram")).csv());
  } else {
    print_table(looked, arguments.flag("histogram"));
  }
  return arguments.flag("require-finite") ? judge(looked) : 0;
}

CommandSpec stats_spec() {
  return {
      .name = "checkpoint stats",
      .summary = "norms, extremes, NaN and magnitudes of every tensor, and what has changed since another checkpoint",
      .usage = "scalai checkpoint stats DIR|RUN [--since=DIR] [OPTION…]",
      .description =
          R"(Reads DIR once, on all processors, in whatever layout it is: norm, mean and extremes of the
elements that are finite, how many are 0, NaN or infinite, and their magnitudes by powers of two.
--since compares with another checkpoint, which may be in another layout and another type: elements
that have changed, and norm and largest of the differences.

RUN is the --out folder of a run that trains: the last step of its job is looked at by its workers, each
at what its devices hold, while training waits; nothing is copied, and only numbers come here. With
--since the step is read here, and training goes on.

With --host, where DIR is whole on this machine, each tensor is looked at by one of these hosts, which
see DIR under the same path, or under their own; the result is the same. Else each host has some files
of DIR, and looks at what it has. A host that fails leaves its share to the others.)",
      .options = joined(
          {{text_option("since", "DIR",
                        "An earlier checkpoint of the same model; tensors of the same name and shape are compared."),
            text_option("since-from", "LAYOUT", "Its layout, as --from."),
            choice_option("since-names", "NAMES", "Its names, as --names.", {"hf", "megatron", "logical"}),
            text_option("job", "NAME", "Of a run: which job; needed when there are several."),
            flag_option("optimizer", "Of a run: masters and moments, too; else parameters and buffers."),
            list_option("tensors", "NAMES", "Only these tensors; *, ? and [a-z] as in names of files."),
            flag_option("histogram", "Show the magnitudes as bars."),
            flag_option("explain", "Print which host would look at how much, and look at nothing."),
            flag_option("require-finite", "Exit with 1 if an element is NaN or infinite.")},
           checkpoint_source_options(),
           {drop_option()},
           host_options(),
           launch_options(),
           {format_option()}}),
      .examples = {"scalai checkpoint stats out/ --histogram", "scalai checkpoint stats out/gpt --require-finite",
                   "scalai checkpoint stats /data/out --host=n1 --host=n2",
                   "scalai checkpoint stats out/ --since=llama3-8b/ --tensors='*.attention.*'",
                   "scalai checkpoint stats out/ --require-finite --format=json"},
      .min_arguments = 1,
      .max_arguments = 1,
      .program_of = [](const Arguments& arguments) { return is_run(arguments.positional()[0]) ? kRuns : ""; }};
}

CommandSpec stats_parts_spec() {
  return {
      .name = "checkpoint stats-parts",
      .summary = "what checkpoint stats asks of hosts that have some of the files",
      .usage = "scalai checkpoint stats-parts FILE",
      .description =
          R"(Statistics of the parts of tensors that FILE lists, as JSON. `scalai checkpoint stats --host` writes the
file and starts this on hosts.)",
      .options = {},
      .examples = {},
      .min_arguments = 1,
      .max_arguments = 1,
      .program = "scalai-near"};
}

Command stats_command(OpenRun open_run) {
  return {stats_spec(),
          [open_run = std::move(open_run)](const Arguments& arguments) { return stats_main(arguments, open_run); }};
}

}  // namespace scalai::apps
