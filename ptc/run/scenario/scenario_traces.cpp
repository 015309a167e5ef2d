// Where jobs, hosts and prices come from: files and generators.

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_many_jobs.h"
#include "ptc/run/scenario/scenario_set.h"
#include "ptc/run/scenario/trace/generate.h"

namespace scalai::scenario::internal {
namespace {

namespace fs = std::filesystem;

// The file, format, generator and set of a part.
struct TraceChoice {
  std::string path;  // of the message: "workload"
  std::string file, format, generator;
  std::vector<std::string> set;
};

// "gavel trace physical.trace" or "generator poisson".
std::string describe(const TraceChoice& choice) {
  if (!choice.generator.empty()) return "generator " + choice.generator;
  return fmt::format("{} trace {}", choice.format.empty() ? "scalai" : choice.format,
                     fs::path(choice.file).filename().string());
}

constexpr std::string_view kOwnForm = "scalai";  // holds anything; what, its file says
constexpr std::string_view kData = "${SCALAI_DATA}";

struct PublicTrace {
  const char* folder;
  const char* what;
};

// What the folders of public data are, for those who do not have them.
constexpr PublicTrace kPublicTraces[] = {
    {"acme", "Acme (NSDI'24): github.com/InternLM/AcmeTrace, data/"},
    {"aws_spot", "spot prices of AWS: github.com/stanford-futuredata/training_on_a_dime, logs/aws"},
    {"bamboo", "spot instances of Bamboo (NSDI'23): github.com/uclasystem/bamboo, traces/"},
    {"elasticflow", "ElasticFlow (ASPLOS'23): github.com/pkusys/ElasticFlow, scheduler/"},
    {"failures", "interruptions of Llama 3: Table 5 of arXiv:2407.21783 as component,category,count"},
    {"gavel", "Gavel (OSDI'20): github.com/stanford-futuredata/gavel, scheduler/"},
    {"infinitehbd", "faults of InfiniteHBD (SIGCOMM'25): github.com/stepfun-ai/InfiniteHBD-Trace"},
    {"oobleck", "Oobleck (SOSP'23): github.com/SymbioticLab/Oobleck, branch sosp23-artifact, tools/simulator/"},
    {"parcae", "Parcae (NSDI'24): github.com/JF-D/Parcae, aws/traces and liveput/cost.py"},
    {"philly",
     "Philly (ATC'19): github.com/msr-fiddle/philly-traces; the CSV form is simulator/traces/philly.csv of "
     "github.com/petuum/adaptdl, branch osdi21-artifact"},
    {"pollux", "Pollux (OSDI'21): github.com/petuum/adaptdl, branch osdi21-artifact, simulator/"},
    {"pop", "POP (SOSP'21): github.com/stanford-futuredata/POP, cluster_scheduling/"},
};

// "${SCALAI_DATA}/philly/x.csv" → what Philly is.
std::string origin_of(const std::string& text) {
  if (!text.starts_with(kData)) return "";
  const fs::path inside = fs::path(text.substr(kData.size())).relative_path();
  const std::string folder = inside.empty() ? "" : inside.begin()->string();
  for (const PublicTrace& trace : kPublicTraces) {
    if (folder == trace.folder) return fmt::format("this is {}; put it there, or set SCALAI_DATA", trace.what);
  }
  return "SCALAI_DATA names the folder of public data";
}

std::string expanded(const std::string& file_name, const std::string& text) {
  if (!text.starts_with(kData)) return fs::path(text).is_absolute() ? text : beside(file_name, text);
  const char* data = std::getenv("SCALAI_DATA");
  const std::string folder = data != nullptr && *data != '\0' ? data : beside(file_name, "../data");
  return (fs::path(folder) / fs::path(text.substr(kData.size())).relative_path()).string();
}

// Of a file, or of all files in a folder with their names, in order. What cannot be read counts as its absence.
std::string contents_digest(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      std::error_code unknown;
      if (at->is_regular_file(unknown)) files.push_back(at->path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(path);
  }
  Hasher hasher;
  for (const fs::path& file : files) {
    const auto text = read_file(file.string());
    hasher.add(file.lexically_relative(path).string()).add(text.ok() ? digest_of(*text) : "");
  }
  return hasher.hex();
}

// Fields that name files or folders; of "set" what stands behind "=" may be a file.
constexpr std::string_view kFileFields[] = {"cluster_file", "file", "index", "throughputs", "costs", "set"};

void add_file(const std::string& file_name, std::string_view field, std::string value, Hasher& hasher) {
  if (std::find(std::begin(kFileFields), std::end(kFileFields), field) == std::end(kFileFields)) return;
  std::error_code error;
  if (field == "set") {
    const size_t equals = value.find('=');
    value = equals == std::string::npos ? "" : value.substr(equals + 1);
    if (value.empty() || !fs::is_regular_file(expanded(file_name, value), error)) return;
  }
  if (value.empty()) return;
  hasher.add(value).add(contents_digest(expanded(file_name, value)));
}

void add_files(const google::protobuf::Message& message, const std::string& file_name, Hasher& hasher) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        add_files(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                       : reflection->GetMessage(message, field),
                  file_name, hasher);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        add_file(file_name, field->name(),
                 field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                      : reflection->GetString(message, field),
                 hasher);
      }
    }
  }
}

// Problems of importers are lists of lines; an error each, at the field that names the file.
template <class T>
std::optional<T> value_or_lines(Context& context, const std::string& path, absl::StatusOr<T> value) {
  if (value.ok()) return std::move(*value);
  report_lines(context.source, path, message_of(value.status()));
  if (exit_code_of(value.status()) == 4) ++context.files_missing;
  return std::nullopt;
}

const char* name_of(trace::TraceContent content) {
  switch (content) {
    case trace::TraceContent::kJobs: return "jobs";
    case trace::TraceContent::kHosts: return "hosts that come and go";
    case trace::TraceContent::kPrices: return "prices";
  }
  return "";
}

template <class Infos>
bool check_name(Context& context, const std::string& path, const std::string& what, const std::string& name,
                const Infos& infos, trace::TraceContent content) {
  std::vector<std::string> fitting;
  for (const auto& info : infos) {
    if (info.content == content || info.name == kOwnForm) fitting.push_back(info.name);
  }
  if (std::find(fitting.begin(), fitting.end(), name) != fitting.end()) return true;
  const bool other = std::any_of(infos.begin(), infos.end(), [&](const auto& info) { return info.name == name; });
  if (other) {
    context.source.error(path, fmt::format("{} \"{}\" has no {}", what, name, name_of(content)),
                         fmt::format("those that do are {}", fmt::join(fitting, ", ")));
  } else {
    context.source.error_unknown(path, what, name, fitting);
  }
  return false;
}

bool check_content(Context& context, const std::string& path, const trace::Imported& read,
                   trace::TraceContent content) {
  using Content = trace::TraceContent;
  const Content found = !read.hosts.hosts.empty()     ? Content::kHosts
                        : !read.prices.points.empty() ? Content::kPrices
                                                      : Content::kJobs;
  if (found == content) return true;
  context.source.error(path, fmt::format("the trace has {}, not {}", name_of(found), name_of(content)));
  return false;
}

// File names among an importer's options ("throughputs=…") count from the scenario's folder, too.
std::vector<std::string> with_paths(Context& context, const TraceChoice& choice) {
  std::vector<std::string> set = choice.set;
  for (size_t i = 0; i < set.size(); ++i) {
    const size_t equals = set[i].find('=');
    if (equals == std::string::npos) continue;
    const std::string name = set[i].substr(0, equals), value = set[i].substr(equals + 1);
    const bool file = name == "throughputs" || name == "table" || name == "file" || value.starts_with(kData);
    if (!file || value.empty()) continue;
    const std::string found = table_path(context, fmt::format("{}.set[{}]", choice.path, i), value);
    if (found.empty()) return {};
    set[i] = name + "=" + found;
  }
  return set;
}

void note_summary(Context& context, const TraceChoice& choice, const trace::ImportSummary& summary) {
  const std::string what = describe(choice);
  if (!choice.file.empty()) context.files.emplace_back(choice.file, summary.checksum);
  for (const auto& [reason, rows] : summary.dropped) {
    context.notes.push_back(fmt::format("{}: {} of {} rows left out: {}", what, rows, summary.rows, reason));
  }
  for (const std::string& note : summary.notes) context.notes.push_back(fmt::format("{}: {}", what, note));
}

// Which type's price a market's instance is: "v100-spot=us-east-1a/p3.2xlarge" among the options.
struct Market {
  policy::GpuType type;
  std::string market, instance;
  int gpus = 1;  // of such an instance
  bool seen = false;
};

std::vector<Market> markets_of(Context& context, const policy::Fleet& fleet, std::vector<std::string>& set) {
  std::vector<Market> markets;
  std::vector<std::string> others;
  for (size_t i = 0; i < set.size(); ++i) {
    const size_t equals = set[i].find('=');
    const std::string name = set[i].substr(0, equals);
    const auto type = std::find_if(fleet.types.begin(), fleet.types.end(),
                                   [&](const policy::TypeSpec& spec) { return spec.name == name; });
    if (equals == std::string::npos || type == fleet.types.end()) {
      others.push_back(set[i]);
      continue;
    }
    const std::string value = set[i].substr(equals + 1);
    const size_t slash = value.find('/');
    if (slash == std::string::npos) {
      context.source.error(fmt::format("prices.set[{}]", i), fmt::format("\"{}\" names no instance", value),
                           "write it like v100-16g=us-east-1a/p3.2xlarge");
      continue;
    }
    Market market{.type = policy::GpuType(type - fleet.types.begin()),
                  .market = value.substr(0, slash),
                  .instance = value.substr(slash + 1)};
    for (const policy::HostSpec& host : fleet.hosts) {
      if (host.type == market.type) market.gpus = host.gpus;
    }
    markets.push_back(std::move(market));
  }
  set = std::move(others);
  return markets;
}

void apply_prices(const trace::PriceTrace& prices, std::vector<Market>& markets, ManyJobs& many) {
  std::vector<policy::FleetEvent> events;
  for (const trace::PriceTrace::Point& point : prices.points) {
    for (Market& market : markets) {
      if (market.market != point.market || market.instance != point.instance) continue;
      const double price = point.usd_per_hour / market.gpus;
      // The first price counts from the start.
      if (!market.seen) many.fleet.types[static_cast<size_t>(market.type.value)].price_per_gpu_hour = price;
      policy::FleetEvent event{.at_s = point.at_s, .kind = policy::FleetEvent::Kind::kPrice};
      event.type = market.type;
      event.price = price;
      if (market.seen) events.push_back(std::move(event));
      market.seen = true;
    }
  }
  std::vector<policy::FleetEvent> merged;
  const auto& hosts = many.availability.events;
  std::merge(hosts.begin(), hosts.end(), events.begin(), events.end(), std::back_inserter(merged),
             [](const policy::FleetEvent& a, const policy::FleetEvent& b) { return a.at_s < b.at_s; });
  many.availability.events = std::move(merged);
}

// The file or folder that `text` at `path` names, as seen from here; reported and "" when it is not there.
std::string data_path(Context& context, const std::string& path, const std::string& text) {
  const std::string found = expanded(context.file_name, text);
  std::error_code error;
  if (fs::exists(found, error)) return found;
  ++context.files_missing;
  context.source.error(path, fmt::format("{}: no such file or folder", found), origin_of(text));
  return "";
}

// Nothing when there is a problem, which is reported.
std::optional<trace::Imported> read_trace(Context& context, const TraceChoice& choice, trace::TraceContent content) {
  Source& source = context.source;
  const std::string file = choice.path + ".file", generator = choice.path + ".generator";
  if (choice.file.empty() == choice.generator.empty()) {
    if (choice.file.empty())
      source.error(choice.path, "neither \"file\" nor \"generator\" is given");
    else
      source.error(generator, "\"file\" and \"generator\" exclude each other", "", {{file, "the file is here"}});
    return std::nullopt;
  }
  if (!choice.generator.empty()) {
    if (!choice.format.empty()) source.error(choice.path + ".format", "a generator has no format");
    if (!check_name(context, generator, "generator", choice.generator, trace::generators(), content))
      return std::nullopt;
    const std::vector<cluster::Host> none;
    const std::vector<cluster::Host>& hosts = context.cluster ? context.cluster->hosts : none;
    const int per_host = hosts.empty() ? 1 : hosts.front().gpus;
    const std::vector<std::string> set = with_paths(context, choice);
    if (set.size() != choice.set.size()) return std::nullopt;
    auto made = value_or_lines(
        context, generator,
        trace::generate(choice.generator, set, context.message.seed(), static_cast<int>(hosts.size()), per_host));
    if (made) note_summary(context, choice, made->summary);
    return made;
  }
  const std::string format = choice.format.empty() ? "scalai" : choice.format;
  if (!check_name(context, choice.format.empty() ? file : choice.path + ".format", "format", format,
                  trace::trace_formats(), content)) {
    return std::nullopt;
  }
  const std::string found = data_path(context, file, choice.file);
  const std::vector<std::string> set = with_paths(context, choice);
  if (found.empty() || set.size() != choice.set.size()) return std::nullopt;
  auto read = value_or_lines(context, file, trace::import_trace(format, found, set));
  if (!read || !check_content(context, file, *read, content)) return std::nullopt;
  note_summary(context, choice, read->summary);
  return read;
}

}  // namespace

std::string table_path(Context& context, const std::string& path, const std::string& text) {
  const std::string found = data_path(context, path, text);
  if (!found.empty()) context.files.emplace_back(text, contents_digest(found));
  return found;
}

void build_workload(Context& context, Scenario& scenario) {
  const proto::Workload& given = context.message.workload();
  const TraceChoice choice{"workload", given.file(), given.format(), given.generator(), texts_of(given.set())};
  auto read = read_trace(context, choice, trace::TraceContent::kJobs);
  if (!read) return;
  ManyJobs& many = *scenario.many_jobs;
  many.workload = std::move(read->workload);
  many.workload_text = fmt::format("{}: {} jobs", describe(choice), many.workload.jobs.size());
  if (many.workload.jobs.empty()) {
    context.source.error("workload", "no job is left of it", context.notes.empty() ? "" : context.notes.front());
    return;
  }
  context.workload_ok = true;
}

std::optional<trace::Imported> read_hosts(Context& context) {
  const proto::Availability& given = context.message.availability();
  const TraceChoice choice{"availability", given.file(), given.format(), given.generator(), texts_of(given.set())};
  auto read = read_trace(context, choice, trace::TraceContent::kHosts);
  if (!read) return std::nullopt;
  const size_t there = context.cluster->hosts.size();
  const std::vector<std::string>& hosts = read->hosts.hosts;
  if (hosts.size() > there) {
    context.source.error(given.file().empty() ? "availability" : "availability.file",
                         fmt::format("the trace has {} hosts, the cluster {}", hosts.size(), there),
                         fmt::format("set: \"most-hosts={}\" takes the trace's first {}; without it host \"{}\" of the "
                                     "trace would be host {}",
                                     there, there, hosts[there], there),
                         {cluster_note(context)});
    return std::nullopt;
  }
  if (hosts.size() < there) {
    context.notes.push_back(fmt::format("{}: hosts {} to {} are not in it and are up all the time", describe(choice),
                                        hosts.size(), there - 1));
  }
  policy::Availability& availability = read->hosts.availability;
  if (!availability.up.empty()) availability.up.resize(there, 1);
  return read;
}

void build_availability(Context& context, Scenario& scenario) {
  if (!context.message.has_availability() || !context.fleet_ok) return;
  auto read = read_hosts(context);
  if (!read) return;
  ManyJobs& many = *scenario.many_jobs;
  many.availability = std::move(read->hosts.availability);
  many.availability_span_s = read->summary.span_s;
  const proto::Availability& given = context.message.availability();
  if (many.workload_text.empty())
    many.workload_text = describe({"availability", given.file(), given.format(), given.generator(), {}});
}

void build_prices(Context& context, Scenario& scenario) {
  if (!context.message.has_prices() || !context.fleet_ok) return;
  ManyJobs& many = *scenario.many_jobs;
  const proto::Prices& given = context.message.prices();
  TraceChoice choice{"prices", given.file(), given.format(), "", texts_of(given.set())};
  std::vector<Market> markets = markets_of(context, many.fleet, choice.set);
  if (markets.empty()) {
    context.source.error("prices", "no GPU type gets its price from here",
                         fmt::format("add set: \"{}=us-east-1a/p3.2xlarge\": a type of the cluster, a market, an "
                                     "instance",
                                     many.fleet.types.front().name));
    return;
  }
  const auto read = read_trace(context, choice, trace::TraceContent::kPrices);
  if (!read) return;
  apply_prices(read->prices, markets, many);
  for (const Market& market : markets) {
    if (market.seen) continue;
    context.source.error("prices.file", fmt::format("there is no price of {} in {}", market.instance, market.market));
  }
}

}  // namespace scalai::scenario::internal

namespace scalai::scenario {

absl::StatusOr<std::string> digest_of_files(const std::string& text, const std::string& file_name) {
  proto::Scenario message;
  proto::Source source(file_name, text);
  source.parse(text, message);
  if (!source.empty()) return invalid(source.render());
  Hasher hasher;
  internal::add_files(message, internal::base_of(file_name, message), hasher);
  return hasher.hex();
}

}  // namespace scalai::scenario
