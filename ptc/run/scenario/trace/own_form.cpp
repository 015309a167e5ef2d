#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/run/policy/slices.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"

// The first line: scalai-trace,VERSION,jobs|hosts|prices,NAME,END. END is when a trace of hosts ends, in seconds.
namespace scalai::trace {
namespace {

constexpr int64_t kVersion = 1;
constexpr const char* kMark = "scalai-trace";
constexpr std::array kContents{"jobs", "hosts", "prices"};
constexpr std::array kEventNames{"up", "notice", "taken", "failed", "price"};

struct Columns {
  std::vector<std::string> all;  // in the order in which they are written
  std::vector<std::string> required;
};

const Columns& columns_of(TraceContent content) {
  static const Columns kJobs{{"name", "type", "submit_s", "gpus", "min_gpus", "max_gpus", "work", "duration_s",
                              "weight", "deadline_s", "entity", "batch", "mig"},
                             {"submit_s", "gpus"}};
  static const Columns kHosts{{"record", "at_s", "what", "hosts", "until_s", "type", "price", "text"},
                              {"record", "at_s", "what", "hosts"}};
  static const Columns kPrices{{"at_s", "market", "instance", "usd_per_hour"},
                               {"at_s", "market", "instance", "usd_per_hour"}};
  return content == TraceContent::kJobs ? kJobs : content == TraceContent::kHosts ? kHosts : kPrices;
}

// "" for what is not known or never: < 0 and infinity cannot be written as numbers of such columns.
std::string known_or_empty(double value) { return value < 0 || value == policy::kNever ? "" : shortest(value); }

bool any_slices(const policy::Workload& workload) {
  return std::any_of(workload.jobs.begin(), workload.jobs.end(), [](const policy::Job& job) { return job.slices > 0; });
}

void write_jobs(const policy::Workload& workload, std::string& text) {
  const bool slices = any_slices(workload);
  for (const policy::Job& job : workload.jobs) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{}{}\n", csv_cell(job.name), csv_cell(job.type), shortest(job.submit_s),
        job.gpus, job.min_gpus, job.max_gpus, shortest(job.work), known_or_empty(job.duration_s), shortest(job.weight),
        job.deadline_s == policy::kNever ? "" : shortest(job.deadline_s), csv_cell(job.entity), job.batch,
        !slices           ? ""
        : job.slices == 0 ? ","
                          : fmt::format(",{}g", job.slices));
  }
}

// "0-31+40": indexes, ascending ranges joined; order is kept.
std::string ranges_of(const std::vector<HostId>& hosts) {
  std::string text;
  for (size_t i = 0; i < hosts.size();) {
    size_t end = i + 1;
    while (end < hosts.size() && hosts[end].value == hosts[end - 1].value + 1) ++end;
    if (!text.empty()) text += "+";
    text +=
        end == i + 1 ? fmt::format("{}", hosts[i].value) : fmt::format("{}-{}", hosts[i].value, hosts[end - 1].value);
    i = end;
  }
  return text;
}

void write_hosts(const HostTrace& trace, std::string& text) {
  for (size_t i = 0; i < trace.hosts.size(); ++i) {
    const std::vector<uint8_t>& up = trace.availability.up;
    const bool is_up = up.empty() || up[i] != 0;
    text += fmt::format("host,0,{},{},0,,0,{}\n", is_up ? "up" : "down", i, csv_cell(trace.hosts[i]));
  }
  for (const policy::FleetEvent& event : trace.availability.events) {
    text += fmt::format("event,{},{},{},{},{},{},{}\n", shortest(event.at_s),
                        kEventNames[static_cast<size_t>(event.kind)], ranges_of(event.hosts), shortest(event.until_s),
                        event.type.valid() ? fmt::format("{}", event.type.value) : "", shortest(event.price),
                        csv_cell(event.cause));
  }
}

void write_prices(const PriceTrace& trace, std::string& text) {
  for (const PriceTrace::Point& point : trace.points) {
    text += fmt::format("{},{},{},{}\n", shortest(point.at_s), csv_cell(point.market), csv_cell(point.instance),
                        shortest(point.usd_per_hour));
  }
}

}  // namespace

std::string export_trace(const Imported& imported) {
  const bool hosts = !imported.hosts.hosts.empty(), prices = !imported.prices.points.empty();
  const TraceContent content = hosts ? TraceContent::kHosts : prices ? TraceContent::kPrices : TraceContent::kJobs;
  std::vector<std::string> columns = columns_of(content).all;
  if (content == TraceContent::kJobs && !any_slices(imported.workload)) std::erase(columns, "mig");
  std::string text = fmt::format("{},{},{},{},{}\n{}\n", kMark, kVersion, kContents[static_cast<size_t>(content)],
                                 csv_cell(imported.workload.name), hosts ? shortest(imported.summary.span_s) : "",
                                 fmt::join(columns, ","));
  if (hosts) {
    write_hosts(imported.hosts, text);
  } else if (prices) {
    write_prices(imported.prices, text);
  } else {
    write_jobs(imported.workload, text);
  }
  return text;
}

namespace {

bool given(const Csv& csv, std::string_view column) { return csv.has(column) && !csv.text(column).empty(); }

// What is not given is `absent`.
std::optional<double> optional_number(Csv& csv, std::string_view column, Bounds bounds, double absent) {
  return given(csv, column) ? csv.number(column, bounds) : absent;
}

std::optional<int64_t> optional_count(Csv& csv, std::string_view column, Bounds bounds, std::optional<int64_t> absent) {
  return given(csv, column) ? csv.count(column, bounds) : absent;
}

std::optional<std::string> optional_name(Csv& csv, std::string_view column, const std::string& absent) {
  return given(csv, column) ? csv.name(column) : absent;
}

// What a job asks for: whole GPUs, or slices of one, by a share below 1 or by the name of a profile.
struct Asked {
  int64_t gpus = 1;
  int slices = 0;
};

std::optional<Asked> asked_of(Csv& csv) {
  const std::string_view text = csv.text("gpus");
  double share = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool part = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && share > 0 && share < 1;
  const bool named = given(csv, "mig");
  if (part && named) {
    csv.problem("mig", fmt::format("is given, and so is a share of a GPU ({})", text));
    return std::nullopt;
  }
  if (part) {
    const int slices = policy::slice_profile_of_share(share).compute;
    return slices == policy::kSlicesOfGpu ? Asked{} : Asked{1, slices};
  }
  const auto gpus = csv.count("gpus", kGpuCount);
  if (!gpus) return std::nullopt;
  if (!named) return Asked{*gpus, 0};
  const policy::SliceProfile* profile = policy::slice_profile(std::string(csv.text("mig")));
  if (profile == nullptr) {
    csv.problem("mig", fmt::format("{} is no profile of 1g, 2g, 3g, 4g, 7g", in_quotes(csv.text("mig"))));
    return std::nullopt;
  }
  if (*gpus != 1) {
    csv.problem("gpus", fmt::format("is {} with mig {}: a job has slices of one GPU", *gpus, profile->name));
    return std::nullopt;
  }
  return profile->compute == policy::kSlicesOfGpu ? Asked{} : Asked{1, profile->compute};
}

void read_job(Csv& csv, Reading& reading) {
  const auto name = optional_name(csv, "name", fmt::format("job-{}", reading.jobs.size()));
  const auto type = optional_name(csv, "type", "");
  const auto submit = csv.number("submit_s", kAnyTime);
  const auto asked = asked_of(csv);
  const auto gpus = asked ? std::optional(asked->gpus) : std::nullopt;
  const auto least = optional_count(csv, "min_gpus", kGpuCount, gpus);
  const auto most = optional_count(csv, "max_gpus", kGpuCount, gpus);
  const auto duration = optional_number(csv, "duration_s", kNotNegative, -1);
  const auto weight = optional_number(csv, "weight", {1e-9, 1e9}, 1);
  const auto deadline = optional_number(csv, "deadline_s", {-1e15, 1e15}, policy::kNever);
  const auto entity = optional_name(csv, "entity", "");
  const auto batch = optional_count(csv, "batch", {0, 1e12}, 0);
  if (!given(csv, "work") && duration == -1) {
    return csv.problem("duration_s", "is not given, nor is work: one of them says how long the job is");
  }
  const bool by_time = !given(csv, "work");  // one iteration a second
  const auto work = by_time ? duration : csv.number("work", kWork);
  if (by_time && duration == 0) return csv.problem("duration_s", "is 0, and work is not given");
  if (!name || !type || !submit || !gpus || !least || !most || !work || !duration || !weight || !deadline || !entity ||
      !batch) {
    return;
  }
  if (*least > *gpus || *gpus > *most) return csv.problem("gpus", "is not within min_gpus to max_gpus");
  policy::Job job;
  job.name = *name;
  job.type = *type;
  job.submit_s = *submit;
  job.gpus = static_cast<int>(*gpus);
  job.slices = asked->slices;
  job.min_gpus = static_cast<int>(*least);
  job.max_gpus = static_cast<int>(*most);
  job.work = *work;
  job.duration_s = *duration;
  job.weight = *weight;
  job.deadline_s = *deadline;
  job.entity = *entity;
  job.batch = *batch;
  reading.add(csv.place(), std::move(job));
}

void read_price(Csv& csv, Reading& reading) {
  const auto at = csv.number("at_s", kAnyTime);
  const auto market = csv.name("market");
  const auto instance = csv.name("instance");
  const auto price = csv.number("usd_per_hour", {1e-9, 1e6});
  if (at && market && instance && price) reading.prices.push_back({*at, *market, *instance, *price});
}

void read_host(Csv& csv, Reading& reading) {
  const auto name = optional_name(csv, "text", fmt::format("host-{}", reading.hosts.size()));
  const std::string_view what = csv.text("what");
  const auto index = csv.count("hosts", {0, 1e6});
  if (what != "up" && what != "down") csv.problem("what", in_quotes(what) + " is neither up nor down");
  if (!name || !index || (what != "up" && what != "down")) return;
  if (*index != static_cast<int64_t>(reading.hosts.size()) || reading.host_of(*name) != *index) {
    return csv.problem("hosts", fmt::format("host {} is not host {}", in_quotes(*name), reading.hosts.size()),
                       "hosts are numbered from 0 and have names of their own");
  }
  reading.up_at_start.push_back(what == "up" ? 1 : 0);
}

// "0-31+40" → ids that exist.
std::optional<std::vector<HostId>> hosts_of(std::string_view text, size_t count) {
  std::vector<HostId> hosts;
  while (!text.empty()) {
    const size_t end = std::min(text.find('+'), text.size());
    const std::string_view range = text.substr(0, end);
    const size_t dash = range.find('-');
    const auto first = whole_of(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole_of(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<int64_t>(count)) return std::nullopt;
    if (hosts.size() + static_cast<size_t>(*last - *first) >= count) return std::nullopt;  // more than there are
    for (int64_t host = *first; host <= *last; ++host) hosts.emplace_back(host);
    if (end + 1 == text.size()) return std::nullopt;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<HostId> sorted = hosts;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return std::nullopt;
  return hosts;
}

void read_event(Csv& csv, Reading& reading) {
  const auto kind = std::find(kEventNames.begin(), kEventNames.end(), csv.text("what"));
  const auto at = csv.number("at_s", kNotNegative);
  const auto until = optional_number(csv, "until_s", kNotNegative, 0);
  const auto price = optional_number(csv, "price", {0, 1e6}, 0);
  const auto type = optional_count(csv, "type", {0, 1e6}, -1);
  const auto cause = optional_name(csv, "text", "");
  const auto hosts = hosts_of(csv.text("hosts"), reading.hosts.size());
  if (kind == kEventNames.end()) {
    return csv.problem("what",
                       fmt::format("{} is none of {}", in_quotes(csv.text("what")), fmt::join(kEventNames, ", ")));
  }
  policy::FleetEvent event;
  event.kind = static_cast<policy::FleetEvent::Kind>(kind - kEventNames.begin());
  const bool of_price = event.kind == policy::FleetEvent::Kind::kPrice;
  if (!hosts || hosts->empty() != of_price) {
    return csv.problem("hosts", fmt::format("{} names no hosts of the trace", in_quotes(csv.text("hosts"))));
  }
  if (!at || !until || !price || !type || !cause) return;
  if (event.kind == policy::FleetEvent::Kind::kNotice && !given(csv, "until_s")) {
    return csv.problem("until_s", "is not given: when are the hosts taken?");
  }
  for (const char* column : {"type", "price"}) {
    if (of_price && !given(csv, column)) return csv.problem(column, "is not given, of an event price");
  }
  if (!reading.events.empty() && *at < reading.events.back().at_s) {
    return csv.problem("at_s", "is earlier than the row before");
  }
  event.at_s = *at;
  event.hosts = *hosts;
  event.until_s = *until;
  event.type = policy::GpuType(*type);
  event.price = *price;
  event.cause = *cause;
  reading.events.push_back(std::move(event));
}

void read_host_row(Csv& csv, Reading& reading) {
  const std::string_view record = csv.text("record");
  if (record == "host") {
    read_host(csv, reading);
  } else if (record == "event") {
    read_event(csv, reading);
  } else {
    csv.problem("record", in_quotes(record) + " is neither host nor event");
  }
}

// Columns beside those of the form: one that looks like a slip is a problem, others are noted.
void look_for_slips(const Csv& csv, const std::vector<std::string>& columns, Reading& reading) {
  for (const std::string& name : csv.header()) {
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) continue;
    const std::string near = closest(name, columns);
    if (near.empty()) {
      reading.summary.notes.push_back(fmt::format("column {} is not read", in_quotes(name)));
    } else {
      reading.problems.add(csv.place(), name, "is no column of this form", fmt::format("is it {}?", near));
    }
  }
}

// What the first line says; nullopt and a problem when it is no trace of ours.
std::optional<TraceContent> read_mark(Csv& csv, Reading& reading) {
  csv.set_free();
  if (!csv.next() || csv.fields().front() != kMark || csv.fields().size() < 3 || csv.fields().size() > 5) {
    csv.problem("", "is no trace of ours: its first line is not scalai-trace,1,…", "which format is it? see --list");
    return std::nullopt;
  }
  std::vector<std::string> fields = csv.fields();
  fields.resize(5);
  if (whole_of(fields[1]) != kVersion) {
    csv.problem("", fmt::format("has version {}, this program reads version {}", in_quotes(fields[1]), kVersion));
    return std::nullopt;
  }
  const auto content = std::find(kContents.begin(), kContents.end(), fields[2]);
  if (content == kContents.end()) {
    csv.problem("", fmt::format("{} is none of {}", in_quotes(fields[2]), fmt::join(kContents, ", ")));
    return std::nullopt;
  }
  if (!fields[3].empty() && !fit_as_name(fields[3])) {
    csv.problem("", in_quotes(fields[3]) + " is no name");
    return std::nullopt;
  }
  reading.workload_name = fields[3];
  const auto end = number_of(fields[4]);
  if (end && *end >= 0 && *end <= kNotNegative.high) reading.host_end_s = *end;
  return static_cast<TraceContent>(content - kContents.begin());
}

absl::Status read_own(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  const std::optional<TraceContent> content = read_mark(csv, reading);
  if (!content) return csv.status();
  if (reading.summary.rows > 0 && (*content != reading.content || *content == TraceContent::kHosts)) {
    reading.problems.add({path}, "", "cannot be put together with the file before",
                         "several files are all jobs or all prices");
    return absl::OkStatus();
  }
  reading.content = *content;
  reading.origin = 0;
  const Columns& columns = columns_of(*content);
  if (!csv.read_header(columns.required)) return csv.status();
  look_for_slips(csv, columns.all, reading);
  const int64_t before = csv.rows();
  while (csv.next()) {
    if (*content == TraceContent::kJobs) {
      read_job(csv, reading);
    } else if (*content == TraceContent::kHosts) {
      read_host_row(csv, reading);
    } else {
      read_price(csv, reading);
    }
  }
  reading.summary.rows += csv.rows() - before;
  return csv.status();
}

}  // namespace

Format own_format() {
  return {{"scalai", TraceContent::kJobs, "what `scalai import --out` writes: jobs, hosts or prices",
           with_job_options({}, "file")},
          read_own};
}

}  // namespace scalai::trace
