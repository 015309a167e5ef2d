#include "ptc/run/scenario/trace/internal/reading.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/trace/internal/values.h"

namespace scalai::trace {

OptionValues OptionValues::parse(const std::string& format, const std::vector<TraceOption>& options,
                                 const std::vector<std::string>& set, Problems& problems) {
  OptionValues result;
  result.format_ = format;
  std::vector<std::string> names;
  for (const TraceOption& option : options) {
    result.values_[option.name] = option.default_value;
    names.push_back(option.name);
  }
  std::vector<std::string> seen;
  for (const std::string& text : set) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const Place place{format};
    if (equals == std::string::npos) {
      problems.add(place, "", fmt::format("{} is no option", in_quotes(text)), "write it as name=value");
    } else if (result.values_.count(name) == 0) {
      const std::string near = closest(name, names);
      problems.add(
          place, name, "is no option of this format",
          near.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
    } else if (std::count(seen.begin(), seen.end(), name) > 0) {
      problems.add(place, name, "is given twice");
    } else {
      seen.push_back(name);
      result.values_[name] = text.substr(equals + 1);
    }
  }
  return result;
}

const std::string& OptionValues::text(const std::string& name) const {
  const auto found = values_.find(name);
  SCALAI_CHECK(found != values_.end(), format_ + " has no option " + name);
  return found->second;
}

int64_t OptionValues::count(const std::string& name, int64_t low, int64_t high, Problems& problems) const {
  const absl::StatusOr<int64_t> value = parse_count(text(name));
  if (value.ok() && *value >= low && *value <= high) return *value;
  problems.add({format_}, name,
               value.ok() ? fmt::format("{} is not within {} to {}", *value, low, high) : message_of(value.status()));
  return low;
}

double OptionValues::seconds(const std::string& name, Problems& problems) const {
  if (text(name).empty()) return policy::kNever;
  const absl::StatusOr<double> value = parse_seconds(text(name));
  if (value.ok()) return *value;
  problems.add({format_}, name, message_of(value.status()));
  return 0;
}

double OptionValues::number(const std::string& name, double low, double high, Problems& problems) const {
  const std::optional<double> value = number_of(text(name));
  if (value && *value >= low && *value <= high) return *value;
  problems.add({format_}, name,
               fmt::format("{} is not a number within {} to {}", in_quotes(text(name)), shortest(low), shortest(high)));
  return low;
}

std::string OptionValues::choice(const std::string& name, const std::vector<std::string>& choices,
                                 Problems& problems) const {
  if (std::count(choices.begin(), choices.end(), text(name)) > 0) return text(name);
  problems.add({format_}, name, fmt::format("{} is none of {}", in_quotes(text(name)), fmt::join(choices, ", ")));
  return choices.front();
}

std::vector<std::string> OptionValues::list(const std::string& name) const {
  std::vector<std::string> items;
  std::string_view rest = text(name);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('+'), rest.size());
    items.emplace_back(trimmed(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return items;
}

bool Reading::add(const Place& place, policy::Job job) {
  SCALAI_CHECK(job.gpus > 0 && job.work > 0, job.name);
  if (file > 1) job.name = fmt::format("{}/{}", file, job.name);
  if (!names.insert(job.name).second) {
    problems.add(place, "", fmt::format("there is a job {} already", in_quotes(job.name)));
    return false;
  }
  jobs.push_back(std::move(job));
  return true;
}

int Reading::host_of(const std::string& name) {
  const auto [found, fresh] = host_index_.try_emplace(name, static_cast<int>(hosts.size()));
  if (fresh) hosts.push_back(name);
  return found->second;
}

void Reading::change(const Place& place, double at_s, bool comes, const std::string& name, const std::string& cause) {
  const auto host = static_cast<size_t>(host_of(name));
  present.resize(std::max(present.size(), host + 1), 0);
  if (present[host] == (comes ? 1 : 0)) {
    problems.add(place, "", fmt::format("host {} is {} already", in_quotes(name), comes ? "there" : "gone"));
    return;
  }
  present[host] = comes ? 1 : 0;
  changes.push_back({at_s, comes, static_cast<int>(host), cause});
}

void Reading::follow(std::vector<std::pair<double, int>> counts, const std::string& name) {
  if (counts.empty()) return;
  int64_t inversions = 0;
  for (size_t i = 1; i < counts.size(); ++i) inversions += counts[i].first < counts[i - 1].first ? 1 : 0;
  if (inversions > 0) {
    note(fmt::format("{} rows were earlier than the row before: sorted by time", inversions));
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  int up = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto [at_s, count] = counts[i];
    if (i + 1 < counts.size() && counts[i + 1].first == at_s) continue;
    for (; up < count; ++up) changes.push_back({at_s, true, host_of(fmt::format("{}{}", name, up))});
    while (up > count) changes.push_back({at_s, false, host_of(fmt::format("{}{}", name, --up))});
  }
  host_end_s = std::max(host_end_s, counts.back().first);
}

std::vector<TraceOption> with_job_options(std::vector<TraceOption> own, const std::string& origin) {
  own.push_back({"from", "0s", "jobs submitted before are left out; submission times count from here"});
  own.push_back({"until", "", "jobs submitted at this time or later are left out"});
  own.push_back({"limit", "0", "only the first so many jobs (0 = all)"});
  own.push_back({"gpus-min", "1", "jobs that ask for fewer GPUs are left out"});
  own.push_back({"gpus-max", "0", "jobs that ask for more GPUs are left out (0 = none are)"});
  own.push_back(
      {"load", "0",
       "submissions move closer or apart until the jobs ask for this share of load-gpus, from the first to the "
       "last: 0.9 (0 = they stay)"});
  own.push_back({"load-gpus", "0", "GPUs that `load` is a share of"});
  own.push_back({"origin", origin, "what time 0 is: first (the first submission) or file (the file's own 0)"});
  return own;
}

std::vector<TraceOption> with_host_options(std::vector<TraceOption> own, const std::string& identity,
                                           const std::string& removal) {
  own.push_back({"hosts", identity,
                 "slots: an instance takes the first free place, so there are as many hosts as were up at once; names: "
                 "every instance is a host of its own"});
  own.push_back({"most-hosts", "0", "only the first so many hosts (with slots: places) of the trace; 0 = all"});
  own.push_back({"from", "0s", "the run starts at this time of the trace, with the hosts up then"});
  own.push_back({"until", "", "what happens at this time or later is left out"});
  own.push_back({"removal", removal, "what a removed host is: taken (preempted) or failed"});
  own.push_back({"notice", "0s", "how long before its removal a taken host gets notice"});
  return own;
}

policy::Job duration_job(std::string name, double submit_s, int64_t gpus, double duration_s) {
  policy::Job job;
  job.name = std::move(name);
  job.submit_s = submit_s;
  job.gpus = job.min_gpus = job.max_gpus = static_cast<int>(gpus);
  job.work = job.duration_s = duration_s;
  return job;
}

std::string stem_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t point = file.find_last_of('.');
  return point == std::string::npos || point == 0 ? file : file.substr(0, point);
}

}  // namespace scalai::trace
