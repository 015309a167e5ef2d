#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <set>

#include "absl/strings/str_split.h"
#include "apps/common/output.h"
#include "apps/jobs/commands.h"
#include "nlohmann/json.hpp"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/trace/generate.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using trace::Imported;
using trace::TraceContent;
using trace::TraceOption;

constexpr size_t kMostSizes = 24;  // lines of a histogram; more become ranges

const char* name_of(TraceContent content) {
  constexpr const char* kNames[] = {"jobs", "hosts", "prices"};
  return kNames[static_cast<size_t>(content)];
}

TraceContent content_of(const Imported& imported) {
  if (!imported.hosts.hosts.empty()) return TraceContent::kHosts;
  return imported.prices.points.empty() ? TraceContent::kJobs : TraceContent::kPrices;
}

struct Source {
  std::string name, kind, holds, summary;
  std::vector<TraceOption> options;
};

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const trace::TraceFormat& format : trace::trace_formats()) {
    const std::string holds = format.name == "scalai" ? "any" : name_of(format.content);
    all.push_back({format.name, "format", holds, format.summary, format.options});
  }
  for (const trace::GeneratorInfo& generator : trace::generators()) {
    const std::string from = generator.source.empty() ? "" : fmt::format(" ({})", generator.source);
    all.push_back(
        {generator.name, "generator", name_of(generator.content), generator.summary + from, generator.options});
  }
  return all;
}

ordered_json json_of(const Source& source) {
  ordered_json options = ordered_json::array();
  for (const TraceOption& option : source.options) {
    options.push_back({{"name", option.name}, {"default", option.default_value}, {"help", option.help}});
  }
  return {{"name", source.name},
          {"kind", source.kind},
          {"holds", source.holds},
          {"summary", source.summary},
          {"options", options}};
}

int list_all(bool json) {
  Table table({"name", "is a", "of", "what~"});
  ordered_json rows = ordered_json::array();
  for (const Source& source : sources()) {
    table.row({source.name, source.kind, source.holds, source.summary});
    rows.push_back(json_of(source));
  }
  print(json ? json_text(rows, {.indent = 2}) + "\n" : table.text(stdout_screen()));
  return 0;
}

int list_one(const std::string& name, bool json) {
  const std::vector<Source> all = sources();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Source& source) { return source.name == name; });
  if (found == all.end()) {
    return report_error(invalid(fmt::format("there is no format or generator \"{}\"\n  hint: see --list", name)));
  }
  if (json) {
    print(json_text(json_of(*found), {.indent = 2}) + "\n");
    return 0;
  }
  Table table({"option", "default", "what~"});
  for (const TraceOption& option : found->options) table.row({option.name, option.default_value, option.help});
  print("{}: {} of {}\n{}\n\n{}", found->name, found->kind, found->holds, found->summary, table.text(stdout_screen()));
  return 0;
}

std::vector<std::pair<std::string, int64_t>> histogram(const std::map<int, int64_t>& sizes) {
  std::vector<std::pair<std::string, int64_t>> lines;
  if (sizes.size() <= kMostSizes) {
    for (const auto& [size, amount] : sizes) lines.emplace_back(fmt::format("{}", size), amount);
    return lines;
  }
  int last = -1;
  for (const auto& [size, amount] : sizes) {
    const int power = size <= 1 ? size : 1 + std::bit_width(static_cast<unsigned>(size - 1));  // 0, 1, 2, 3-4, 5-8, …
    if (power != last) {
      const int top = power <= 1 ? power : 1 << (power - 1), low = power <= 1 ? power : top / 2 + 1;
      lines.emplace_back(low == top ? fmt::format("{}", top) : fmt::format("{}-{}", low, top), 0);
    }
    last = power;
    lines.back().second += amount;
  }
  return lines;
}

std::string counts_text(const Imported& imported) {
  switch (content_of(imported)) {
    case TraceContent::kJobs: return counted(std::ssize(imported.workload.jobs), "job");
    case TraceContent::kHosts:
      return fmt::format("{}, {}", counted(std::ssize(imported.hosts.hosts), "host"),
                         counted(std::ssize(imported.hosts.availability.events), "change"));
    case TraceContent::kPrices: break;
  }
  std::set<std::string> markets, instances;
  for (const auto& point : imported.prices.points) {
    markets.insert(point.market);
    instances.insert(point.instance);
  }
  return fmt::format("{} of {} in {}", counted(std::ssize(imported.prices.points), "price"),
                     counted(std::ssize(instances), "instance type"), counted(std::ssize(markets), "market"));
}

void print_table(const Imported& imported, const std::string& out) {
  const trace::ImportSummary& summary = imported.summary;
  Table table({summary.format, counts_text(imported) + "~"});
  table.row({"rows read", fmt::format("{}", summary.rows)});
  for (const auto& [reason, rows] : summary.dropped) table.row({"dropped", fmt::format("{}: {}", rows, reason)});
  table.row({"span", format_seconds(summary.span_s)});
  table.row({"checksum", summary.checksum});
  for (const std::string& note : summary.notes) table.row({"note", note});
  if (!out.empty()) table.row({"written", out});
  print(table.text(stdout_screen()));
  if (summary.sizes.empty()) return;
  const bool hosts = content_of(imported) == TraceContent::kHosts;
  int64_t total = 0;
  for (const auto& [size, amount] : summary.sizes) total += amount;
  Table sizes({hosts ? "hosts up>" : "GPUs>", hosts ? "time>" : "jobs>", "share>"});
  for (const auto& [size, amount] : histogram(summary.sizes)) {
    const double share = total == 0 ? 0 : 100 * static_cast<double>(amount) / static_cast<double>(total);
    sizes.row({size, hosts ? format_seconds(static_cast<double>(amount)) : fmt::format("{}", amount),
               fmt::format("{:.2f} %", share)});
  }
  print("\n" + sizes.text(stdout_screen()));
}

void print_json(const Imported& imported, const std::string& out) {
  const trace::ImportSummary& summary = imported.summary;
  ordered_json sizes = ordered_json::object();
  for (const auto& [size, amount] : summary.sizes) sizes[fmt::format("{}", size)] = amount;
  const ordered_json json = {{"format", summary.format},
                             {"holds", name_of(content_of(imported))},
                             {"rows", summary.rows},
                             {"dropped", summary.dropped},
                             {"jobs", imported.workload.jobs.size()},
                             {"hosts", imported.hosts.hosts.size()},
                             {"changes", imported.hosts.availability.events.size()},
                             {"prices", imported.prices.points.size()},
                             {"span_s", summary.span_s},
                             {"sizes", sizes},
                             {"checksum", summary.checksum},
                             {"notes", summary.notes},
                             {"out", out}};
  print(json_text(json, {.indent = 2}) + "\n");
}

bool overwrites_input(const std::string& out, const std::vector<std::string>& files) {
  std::error_code error;
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return std::filesystem::equivalent(file, out, error); });
}

int show(const absl::StatusOr<Imported>& imported, const Arguments& arguments) {
  if (!imported.ok()) return report_error(imported.status());
  const std::string out = arguments.text("out");
  if (!out.empty()) {
    const absl::Status written = write_file(out, export_trace(*imported));
    if (!written.ok()) return report_error(written);
  }
  if (arguments.text("format") == "json") {
    print_json(*imported, out);
  } else {
    print_table(*imported, out);
  }
  return 0;
}

// --set may be given repeatedly, and each may hold several: name=value,name=value.
std::vector<std::string> settings_of(const Arguments& arguments) {
  std::vector<std::string> settings;
  for (const std::string& text : arguments.texts("set")) {
    for (std::string& one : std::vector<std::string>(absl::StrSplit(text, ','))) settings.push_back(std::move(one));
  }
  return settings;
}

int generate_trace(const Arguments& arguments) {
  if (!arguments.positional().empty()) return usage_error("import", "--generate makes a trace; it reads no files");
  const int64_t hosts = arguments.count("hosts"), gpus = arguments.count("gpus-per-host");
  constexpr int64_t kMost = 1000000;
  if (hosts > kMost || gpus < 1 || gpus > kMost)
    return usage_error("import", "--hosts or --gpus-per-host is out of range");
  return show(
      trace::generate(arguments.text("generate"), settings_of(arguments),
                      static_cast<uint64_t>(arguments.count("seed")), static_cast<int>(hosts), static_cast<int>(gpus)),
      arguments);
}

int import(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional();
  if (arguments.flag("list")) {
    if (words.size() > 1) return usage_error("import", "--list takes one name at most");
    const bool json = arguments.text("format") == "json";
    return words.empty() ? list_all(json) : list_one(words.front(), json);
  }
  if (arguments.has("generate")) return generate_trace(arguments);
  if (words.size() < 2) return usage_error("import", "needs a format and a file: scalai import FORMAT FILE…");
  const std::vector<std::string> files(words.begin() + 1, words.end());
  if (std::count(files.begin(), files.end(), "-") > 0) return usage_error("import", kNoStandardInput);
  if (arguments.has("out") && overwrites_input(arguments.text("out"), files)) {
    return usage_error("import", "--out is one of the files to read");
  }
  int64_t total = 0, read = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    total += error ? 0 : static_cast<int64_t>(bytes);
  }
  Progress progress("reading");
  const auto imported = trace::import_traces(words.front(), files, settings_of(arguments), [&](int64_t bytes) {
    read += bytes;
    progress.update(total > 0 ? static_cast<double>(read) / static_cast<double>(total) : 0, format_bytes(read));
  });
  return show(imported, arguments);
}

}  // namespace

Command import_command() {
  std::vector<std::string> formats, generators;
  for (const Source& source : sources()) (source.kind == "format" ? formats : generators).push_back(source.name);
  return {
      {.name = "import",
       .summary = "read public traces of jobs, spot instances and prices; make some up",
       .usage = "scalai import FORMAT FILE… [--out=FILE] | --generate=NAME | --list [NAME]",
       .description =
           R"(Reads a trace, says what is in it (rows, what was dropped and why, span, sizes, checksum) and, with --out,
writes it in the one form that scenarios read. A row that cannot be understood is an error that names file,
row, field and reason; then nothing is written. --list shows the formats, --list NAME one format's options.)",
       .options = {text_option("out", "FILE", "Where the trace goes."),
                   texts_option(
                       "set", "NAME=VALUE,…",
                       "Options of the format or generator, also repeatedly; lists in a value are parted by \"+\"."),
                   suggesting(text_option("generate", "NAME", "Makes a trace up."), std::move(generators)),
                   count_option("seed", "N", "Of what is made up: the same seed gives the same trace.", "1"),
                   count_option("hosts", "N", "Hosts whose failures are made up.", "0"),
                   count_option("gpus-per-host", "N", "GPUs of each of them.", "8"),
                   flag_option("list", "The formats and generators, or one's options."),
                   format_option({"table", "json"})},
       .examples = {"scalai import --list philly", "scalai import philly philly_jobs.csv --set=vc=e13805,gpus-max=32",
                    "scalai import bamboo p3-trace.csv --set=notice=120s --out=spot.csv",
                    "scalai import --generate=poisson --hosts=2048 --set=mtbf=3.093h,span=54d --out=failures.csv"},
       .max_arguments = -1,
       .operands = std::move(formats)},
      import};
}

}  // namespace scalai::apps
