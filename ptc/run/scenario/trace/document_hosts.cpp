#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nlohmann/json.hpp"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"
#include "ptc/run/scenario/trace/lines.h"

namespace scalai::trace {
namespace {

using nlohmann::json;

constexpr double kLongestTime = 1e11;  // seconds
constexpr int64_t kMostHosts = 100000;

std::optional<double> number_in(const json& value, double low, double high) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) return std::nullopt;
  return number;
}

std::optional<int> count_in(const json& value) {
  const std::optional<double> number = number_in(value, 0, static_cast<double>(kMostHosts));
  if (!number || *number != static_cast<int>(*number)) return std::nullopt;
  return static_cast<int>(*number);
}

std::string shown(const json& value) { return in_quotes(json_text(value).substr(0, 100)); }

// The document, or a problem.
std::optional<json> read_document(const std::string& path, const std::string& text, Reading& reading) {
  absl::StatusOr<json> document = read_json(text, path);
  if (document.ok()) return *std::move(document);
  reading.problems.add({}, "", message_of(document.status()));
  return std::nullopt;
}

// {"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, …]}: instances available at each tick.
absl::Status read_skypilot(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::optional<json> document = read_document(path, text, reading);
  if (!document) return absl::OkStatus();
  const json* gap = nullptr;
  if (document->is_object() && document->contains("metadata") && (*document)["metadata"].is_object() &&
      (*document)["metadata"].contains("gap_seconds")) {
    gap = &(*document)["metadata"]["gap_seconds"];
  }
  const std::optional<double> gap_s = gap == nullptr ? std::nullopt : number_in(*gap, 1e-3, 1e7);
  if (!gap_s) {
    reading.problems.add({path, 0, "/metadata"}, "gap_seconds",
                         gap == nullptr ? "is missing" : shown(*gap) + " is no time between ticks");
    return absl::OkStatus();
  }
  if (!document->contains("data") || !(*document)["data"].is_array() || (*document)["data"].empty()) {
    reading.problems.add({path}, "data", "is no array of counts");
    return absl::OkStatus();
  }
  const std::string name = stem_of(path);
  if (!fit_as_name(name)) {
    reading.problems.add({path}, "", "the file's name names the hosts, and is no name");
    return absl::OkStatus();
  }
  Counts counts;
  const json& data = (*document)["data"];
  for (size_t i = 0; i < data.size(); ++i) {
    const std::optional<int> count = count_in(data[i]);
    ++reading.summary.rows;
    if (!count) {
      reading.problems.add({path, 0, fmt::format("/data/{}", i)}, "", shown(data[i]) + " is no count of instances");
      continue;
    }
    counts.emplace_back(static_cast<double>(i) * *gap_s, *count);
  }
  reading.origin = 0;
  reading.follow(std::move(counts), name + "/");
  reading.host_end_s = std::max(reading.host_end_s, static_cast<double>(data.size()) * *gap_s);
  return absl::OkStatus();
}

// [60000, "add", {"nodes": ["node-27"], "duration": 60000, …}], one a line.
class Replay {
 public:
  explicit Replay(Reading& reading) : reading_(reading) {}

  void row(const Place& place, std::string_view line) {
    ++reading_.summary.rows;
    const absl::StatusOr<json> read = read_json(line);
    if (!read.ok()) return reading_.problems.add(place, "", message_of(read.status()));
    const json& step = *read;
    if (!step.is_array() || step.size() != 3 || !step[1].is_string() || !step[2].is_object()) {
      reading_.problems.add(place, "", "is no [time_ms, event, {nodes, duration}]");
      return;
    }
    const std::optional<double> time_ms = number_in(step[0], 0, kLongestTime);
    if (!time_ms || *time_ms / 1e3 < last_s_) {
      reading_.problems.add(place, "time_ms", time_ms ? "is earlier than the row before" : "is no time");
      return;
    }
    last_s_ = *time_ms / 1e3;
    const std::string event = step[1].get<std::string>();
    if (event != "add" && event != "remove" && event != "no-op" && event != "migration") {
      reading_.problems.add(place, "event", in_quotes(event) + " is none of add, remove, no-op, migration");
      return;
    }
    nodes(place, event, step[2]);
  }

 private:
  void nodes(const Place& place, const std::string& event, const json& details) {
    const std::optional<double> lasts_ms =
        details.contains("duration") ? number_in(details["duration"], 0, kLongestTime) : std::nullopt;
    if (!lasts_ms) reading_.problems.add(place, "duration", "is missing or no time");
    reading_.host_end_s = std::max(reading_.host_end_s, last_s_ + lasts_ms.value_or(0) / 1e3);
    if (!details.contains("nodes") || !details["nodes"].is_array()) {
      reading_.problems.add(place, "nodes", "is missing or no array");
      return;
    }
    const bool changes = event == "add" || event == "remove";
    if (!changes && !details["nodes"].empty()) {
      reading_.problems.add(place, "nodes", fmt::format("an event {} has nodes", event));
    }
    for (const json& node : details["nodes"]) {
      if (!node.is_string() || !fit_as_name(node.get_ref<const std::string&>())) {
        reading_.problems.add(place, "nodes", shown(node) + " is no name");
      } else if (changes) {
        reading_.change(place, last_s_, event == "add", node.get<std::string>());
      }
    }
  }

  Reading& reading_;
  double last_s_ = 0;
};

// Two numbers a row: the counts form, "time_ms,instances".
bool read_parcae_count(const Place& place, std::string_view line, Counts& counts, Problems& problems) {
  std::vector<std::string> fields;
  if (!split_fields(line, ',', fields) || fields.size() != 2) return false;
  const auto time = number_of(fields[0]);
  const auto count = whole_of(fields[1]);
  if (!time || *time < 0 || *time > kLongestTime) problems.add(place, "time_ms", in_quotes(fields[0]) + " is no time");
  if (!count || *count < 0 || *count > kMostHosts) {
    problems.add(place, "instances", in_quotes(fields[1]) + " is no count of instances");
  } else if (time) {
    counts.emplace_back(*time / 1e3, static_cast<int>(*count));
  }
  return true;
}

absl::Status read_parcae(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path, reading.bytes_read));
  Replay replay(reading);
  Counts counts;
  std::string_view line;
  bool replays = false;
  while (lines.next(line)) {
    if (trimmed(line).empty()) continue;
    const Place place{path, lines.row()};
    replays = replays || (counts.empty() && trimmed(line).front() == '[');
    if (replays) {
      replay.row(place, line);
      continue;
    }
    ++reading.summary.rows;
    if (!read_parcae_count(place, line, counts, reading.problems)) {
      reading.problems.add(place, "", "is neither [time_ms, event, {…}] nor time_ms,instances");
    }
  }
  reading.origin = 0;
  if (!counts.empty()) reading.note("the trace counts hosts only: the one that came last is the first to go");
  if (reading.problems.empty()) reading.follow(std::move(counts), "host-");
  return lines.status();
}

// GPUs of an entry of a schedule: "size", or "para_conf": {"size"}.
std::optional<int> size_of_entry(const json& entry) {
  const json* holder = &entry;
  if (entry.contains("para_conf") && entry["para_conf"].is_object()) holder = &entry["para_conf"];
  return holder->contains("size") ? count_in((*holder)["size"]) : std::nullopt;
}

// Tenplex: [{"time": 35, "size": 16}, …, {"time": 0, "size": 0}], how many minutes on how many GPUs; or "step": the
// step from which on. An entry of size 0 is the end.
class Schedule {
 public:
  Schedule(std::string path, Reading& reading) : path_(std::move(path)), reading_(reading) {
    unit_s_ = reading.options.seconds("unit", reading.problems);
    step_s_ = reading.options.given("step") ? reading.options.seconds("step", reading.problems) : 0;
  }

  void read(const json& document) {
    if (!document.is_array() || document.empty() || !document[0].is_object()) {
      reading_.problems.add({path_}, "", "is no array of {time, size} or {step, size}");
      return;
    }
    const bool steps = document[0].contains("step");
    if (steps && step_s_ <= 0) {
      reading_.problems.add({path_}, "step", "the schedule counts steps, whose length it does not say",
                            "set step=… to the time of one");
      return;
    }
    for (size_t i = 0; i < document.size(); ++i) {
      pointer_ = fmt::format("/{}", i);
      ++reading_.summary.rows;
      if (document[i].is_object()) {
        entry(document[i], steps);
      } else {
        problem("", "is no object");
      }
    }
    if (!reading_.problems.empty()) return;
    reading_.follow(std::move(counts_), "gpu-");
    reading_.host_end_s = std::max(reading_.host_end_s, at_s_);
    reading_.origin = 0;
  }

 private:
  void problem(std::string_view field, const std::string& reason) {
    reading_.problems.add({path_, 0, pointer_}, field, reason);
  }

  void entry(const json& value, bool steps) {
    const char* field = steps ? "step" : "time";
    const std::optional<double> number = value.contains(field) ? number_in(value[field], 0, 1e9) : std::nullopt;
    const std::optional<int> gpus = size_of_entry(value);
    if (!number) problem(field, "is missing or no number");
    if (!gpus) problem("size", "is missing or no number of GPUs");
    if (!number || !gpus) return;
    if (ended_) return problem("", "follows the end of the schedule, an entry of size 0");
    if (steps) {
      const bool first = counts_.empty();
      if (first ? *number != 0 : *number * step_s_ <= at_s_) {
        return problem(field, first ? "the first entry is not at step 0" : "is not after the entry before");
      }
      at_s_ = *number * step_s_;
    }
    ended_ = *gpus == 0;
    if (!ended_) counts_.emplace_back(at_s_, *gpus);
    if (!steps) at_s_ += *number * unit_s_;
  }

  std::string path_, pointer_;
  Reading& reading_;
  double unit_s_ = 60, step_s_ = 0, at_s_ = 0;
  bool ended_ = false;
  Counts counts_;
};

absl::Status read_tenplex(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::optional<json> document = read_document(path, text, reading);
  if (!document) return absl::OkStatus();
  Schedule schedule(path, reading);
  if (reading.problems.empty()) schedule.read(*document);
  return absl::OkStatus();
}

// {"node_id", "event_time" in days, "event_type": "fault_start" or "fault_end", "fault_type": {Level, Class, Desc}}, in
// order of time. A server is down while one of its faults lasts.
class Faults {
 public:
  Faults(const std::string& path, Reading& reading) : path_(path), reading_(reading) {
    for (const std::string& name : reading.options.list("without")) left_out_.emplace(name, false);
  }

  void row(size_t index, const json& value) {
    pointer_ = fmt::format("/{}", index);
    const Place place{path_, 0, pointer_};
    ++reading_.summary.rows;
    const std::string server = text_at(value, "/node_id"), type = text_at(value, "/event_type"),
                      fault = text_at(value, "/fault_type/Class");
    const json::json_pointer time("/event_time");
    const auto days = value.contains(time) ? number_in(value[time], last_days_, kLongestTime / kDay) : std::nullopt;
    if (!days) reading_.problems.add(place, "event_time", "is no time in days, or earlier than the row before");
    if (!fit_as_name(server)) reading_.problems.add(place, "node_id", "is missing or no name");
    if (!fit_as_name(fault)) reading_.problems.add(place, "fault_type", "has no Class");
    if (type != "fault_start" && type != "fault_end")
      reading_.problems.add(place, "event_type", in_quotes(type) + " is neither fault_start nor fault_end");
    if (!days || !reading_.problems.empty()) return;
    last_days_ = *days;
    change(place, server, fault, type == "fault_start");
  }

  // Servers that never fail are in no row.
  void finish() {
    for (const auto& [name, seen] : left_out_) {
      if (!seen) reading_.problems.add({path_}, "without", "no fault is of class " + in_quotes(name));
    }
    const auto servers = static_cast<size_t>(reading_.options.count("servers", 1, kMostHosts, reading_.problems));
    if (reading_.hosts.size() > servers)
      reading_.problems.add({path_}, "servers",
                            fmt::format("{} have faults", counted(reading_.hosts.size(), "server")));
    while (reading_.hosts.size() < servers) come(fmt::format("server-{}", reading_.hosts.size()));
    reading_.origin = 0;
    reading_.host_end_s = std::max(reading_.host_end_s, last_days_ * kDay);
  }

 private:
  static constexpr double kDay = 86400;  // seconds

  static std::string text_at(const json& value, const char* pointer) {
    const json::json_pointer at(pointer);
    return value.contains(at) && value[at].is_string() ? value[at].get<std::string>() : "";
  }

  void come(const std::string& server) { reading_.change({path_}, 0, true, server); }

  void change(const Place& place, const std::string& server, const std::string& fault, bool starts) {
    const auto [known, fresh] = faults_.try_emplace(server, 0);
    if (fresh) come(server);
    if (const auto left_out = left_out_.find(fault); left_out != left_out_.end()) {
      left_out->second = true;
      return reading_.drop("of a class that is left out");
    }
    int& faults = known->second;
    if (!starts && faults == 0) return reading_.problems.add(place, "", "a fault ends that has not begun");
    faults += starts ? 1 : -1;
    if (faults == (starts ? 1 : 0)) reading_.change(place, last_days_ * kDay, !starts, server, starts ? fault : "");
  }

  std::string path_, pointer_;
  Reading& reading_;
  std::map<std::string, bool> left_out_;  // classes, and whether a row has them
  std::map<std::string, int> faults_;     // by server: how many last
  double last_days_ = 0;
};

absl::Status read_infinitehbd(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::optional<json> document = read_document(path, text, reading);
  if (!document) return absl::OkStatus();
  if (!document->is_array()) {
    reading.problems.add({path}, "", "is no array of events");
    return absl::OkStatus();
  }
  Faults faults(path, reading);
  for (size_t i = 0; i < document->size(); ++i) faults.row(i, (*document)[i]);
  faults.finish();
  return absl::OkStatus();
}

}  // namespace

std::vector<Format> document_host_formats() {
  constexpr TraceContent kHosts = TraceContent::kHosts;
  return {
      {{"parcae", kHosts, "replay as a JSON array a line, or counts (github.com/JF-D/Parcae aws/traces)",
        with_host_options({}, "slots")},
       read_parcae},
      {{"skypilot", kHosts,
        "spot availability of zones, JSON with gap_seconds and data; several files are several zones "
        "(github.com/skypilot-org/spot-traces)",
        with_host_options({}, "names")},
       read_skypilot},
      {{"tenplex", kHosts, "schedules of one job's GPUs over time (github.com/kungfu-team/tenplex); a host is a GPU",
        with_host_options(
            {{"unit", "1min", "what a `time` of 1 is"}, {"step", "", "how long a step takes, for schedules in steps"}},
            "names")},
       read_tenplex},
      {{"infinitehbd", kHosts,
        "faults of servers, with class and repair (github.com/stepfun-ai/InfiniteHBD-Trace fault_trace.json)",
        with_host_options({{"servers", "400", "servers of the cluster; those without a fault are in no row"},
                           {"without", "", "classes of faults that are left out: Stress Test Failure+Change"}},
                          "names", "failed")},
       read_infinitehbd},
  };
}

}  // namespace scalai::trace
