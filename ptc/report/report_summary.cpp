// summary.json to and from JSON, by one list of keys (the functions `fields`), and what is looked up in it.

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/version.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

using Json = nlohmann::ordered_json;

template <class Io>
void fields(Io& io, plan::ClassBytes& bytes) {
  io("kept", bytes.kept);
  io("same_device", bytes.same_device);
  io("same_host", bytes.same_host);
  io("cross_host", bytes.cross_host);
  io("from_storage", bytes.from_storage);
}

template <class Io>
void fields(Io& io, AnyPlacementBound& bound) {
  io("cross_host", bound.cross_host);
}

template <class Io>
void fields(Io& io, control::PhaseSeconds& phases) {
  io("detect", phases.detect);
  io("stop", phases.stop);
  io("plan", phases.plan);
  io("restart", phases.restart);
  io("prepare", phases.prepare);
  io("transfer", phases.transfer);
  io("verify", phases.verify);
  io("resume", phases.resume);
  io("aborted", phases.aborted);
}

template <class Io>
void fields(Io& io, Basis& basis) {
  io("of", basis.of);
  io("basis", basis.basis);
  io("from", basis.from);
  io("low", basis.low);
  io("high", basis.high);
  io("unit", basis.unit);
}

template <class Io>
void fields(Io& io, ReconfigurationSummary& r) {
  io("index", r.index);
  io("at_s", r.at_s);
  io("resumed_s", r.resumed_s);
  io("cause", r.cause);
  io("from", r.from);
  io("to", r.to);
  io("from_gpus", r.from_gpus);
  io("to_gpus", r.to_gpus);
  io("step", r.step);
  io("rolled_back_steps", r.rolled_back_steps);
  io("completed", r.completed);
  io("aborted_attempts", r.aborted_attempts);
  io("plan_file", r.plan_file);
  io("plan_digest", r.plan_digest);
  io("rounds", r.rounds);
  io("bytes", r.bytes);
  io("lower_bound_bytes", r.lower_bound_bytes);
  io("lower_bound_any_placement", r.lower_bound_any_placement);
  io("phases_s", r.phases_s);
  io.optional("scenario_phases_s", r.scenario_phases_s);
  io("pause_s", r.pause_s);
  io("survives_host_losses", r.survives_host_losses);
}

template <class Io>
void fields(Io& io, JobTotals& totals) {
  io("reconfigurations", totals.reconfigurations);
  io("completed", totals.completed);
  io("aborted_attempts", totals.aborted_attempts);
  io("pause_s", totals.pause_s);
  io("phases_s", totals.phases_s);
  io("bytes", totals.bytes);
  io("transferred_bytes", totals.transferred_bytes);
}

template <class Io>
void fields(Io& io, DatasetSummary& dataset) {
  io("index", dataset.index);
  io("samples", dataset.samples);
  io("sequence", dataset.sequence);
  io("seed", dataset.seed);
  io("shuffle", dataset.shuffle);
  io("drop_last", dataset.drop_last);
  io("pass", dataset.pass);
  io("consumed", dataset.consumed);
  io("samples_read", dataset.samples_read);
  io("bytes_read", dataset.bytes_read);
  io("steps_read_again", dataset.steps_read_again);
  io("samples_read_again", dataset.samples_read_again);
  io.optional("samples_not_proved", dataset.samples_not_proved);
  io("exactly_once", dataset.exactly_once);
}

template <class Io>
void fields(Io& io, RedundancySummary& redundancy) {
  io("copies", redundancy.copies);
  io("made", redundancy.made);
  io("survives_host_losses", redundancy.survives_host_losses);
  io.optional("left_out", redundancy.left_out);
}

template <class Io>
void fields(Io& io, ConfigurationSummary& configuration) {
  io("since_s", configuration.since_s);
  io("layout", configuration.layout);
  io("gpus", configuration.gpus);
  io.optional("global_batch", configuration.global_batch);
  io("micro_batch", configuration.micro_batch);
  io("recompute", configuration.recompute);
  io("step_s", configuration.step_s);
  io("mfu", configuration.mfu);
  io.optional("idle", configuration.idle);
}

template <class Io>
void fields(Io& io, TrainedSummary& trained) {
  io("layout", trained.layout);
  io("gpus", trained.gpus);
  io("steps", trained.steps);
  io("step_s", trained.step_s);
  io("scenario_step_s", trained.scenario_step_s);
}

template <class Io>
void fields(Io& io, ScheduleSummary& schedule) {
  io("submit_s", schedule.submit_s);
  io("first_start_s", schedule.first_start_s);
  io("waited_s", schedule.waited_s);
  io("restarts", schedule.restarts);
  io("preemptions", schedule.preemptions);
  io("deadline_s", schedule.deadline_s);
  io("deadline_met", schedule.deadline_met);
}

template <class Io>
void fields(Io& io, WaitSummary& wait) {
  io("reason", wait.reason);
  io("seconds", wait.seconds);
  io("until_end", wait.until_end);
}

template <class Io>
void fields(Io& io, DowntimeSummary& downtime) {
  io("reconfigurations_s", downtime.reconfigurations_s);
  io("waiting_s", downtime.waiting_s);
  io("waits", downtime.waits);
  io("run_again_s", downtime.run_again_s);
  io("cut_off_s", downtime.cut_off_s);
  io("snapshots_s", downtime.snapshots_s);
}

template <class Io>
void fields(Io& io, SecondsInterval& interval) {
  io("low", interval.low);
  io("high", interval.high);
}

template <class Io>
void fields(Io& io, JobIntervals& intervals) {
  io("wall_s", intervals.wall_s);
  io("downtime_s", intervals.downtime_s);
  io("without", intervals.without);
}

template <class Io>
void fields(Io& io, MomentSummary& moment) {
  io("interval_s", moment.interval_s);
  io("lost_s", moment.lost_s);
  io("downtime_expected_s", moment.expected_s);
  io("downtime_low_s", moment.low_s);
  io("downtime_high_s", moment.high_s);
  io("moved_runs", moment.moved_runs);
}

template <class Io>
void fields(Io& io, LossEffectSummary& effect) {
  io("job", effect.job);
  io("outcome", effect.outcome);
  io("reconfiguration", effect.reconfiguration);
}

template <class Io>
void fields(Io& io, LossSummary& loss) {
  io("at_s", loss.at_s);
  io("noticed_s", loss.noticed_s);
  io("devices", loss.devices);
  io("gpus", loss.gpus);
  io("effects", loss.effects);
  io.optional("cause", loss.cause);
}

template <class Io>
void fields(Io& io, NoticeSummary& notice) {
  io("at_s", notice.at_s);
  io("deadline_s", notice.deadline_s);
  io("devices", notice.devices);
  io("answer", notice.answer);
  io("starts_s", notice.starts_s);
  io("takes_s", notice.takes_s);
  io("only_there_bytes", notice.only_there_bytes);
  io("in_time_bytes", notice.in_time_bytes);
  io("lost", notice.lost);
  io("step", notice.step);
  io("repeated_steps", notice.repeated_steps);
  io("repeated_s", notice.repeated_s);
}

template <class Io>
void fields(Io& io, JobSummary& job) {
  io("name", job.name);
  io("state", job.state);
  io("failure", job.failure);
  io("steps", job.steps);
  io("samples", job.samples);
  io("wall_s", job.wall_s);
  io("training_s", job.training_s);
  io("downtime_s", job.downtime_s);
  io.optional("downtime", job.downtime);
  io.optional("interval", job.interval);
  io.optional("any_moment", job.any_moment);
  io("lost_steps", job.lost_steps);
  io.optional("checkpoints_left_out", job.checkpoints_left_out);
  io("goodput_samples_per_s", job.goodput_samples_per_s);
  io("gpu_hours", job.gpu_hours);
  io.optional("cost_usd", job.cost_usd);
  io.optional("schedule", job.schedule);
  io.optional("dataset", job.dataset);
  io.optional("redundancy", job.redundancy);
  io.optional("configurations", job.configurations);
  io.optional("trained", job.trained);
  io.optional("notices", job.notices);
  io("totals", job.totals);
  io("reconfigurations", job.reconfigurations);
}

template <class Io>
void fields(Io& io, Summary& summary) {
  io("schema_version", summary.schema_version);
  io("version", summary.version);
  io("scenario", summary.scenario);
  io("scenario_digest", summary.scenario_digest);
  io("seed", summary.seed);
  io("strategy", summary.strategy);
  io("runtime", summary.runtime);
  io("end_s", summary.end_s);
  io.optional("basis", summary.basis);
  io("jobs", summary.jobs);
  io.optional("losses", summary.losses);
}

class Writer {
 public:
  template <class Object>
  static Json object(Object& value) {
    Writer writer;
    fields(writer, value);
    return std::move(writer.json_);
  }

  template <class Value>
  void operator()(const char* key, Value& value) {
    json_[key] = json_of(key, value);
  }
  // A key that is not there when the value is not.
  template <class Value>
  void optional(const char* key, std::optional<Value>& value) {
    if (value) (*this)(key, *value);
  }

 private:
  // By reference, so that none of these loses to the general object below.
  static Json json_of(const char* key, double& value) {
    SCALAI_CHECK(std::isfinite(value), key);
    return value;
  }
  template <class Value>
  static Json json_of(const char* key, std::optional<Value>& value) {
    return value ? json_of(key, *value) : Json(nullptr);
  }
  static Json json_of(const char*, bool& value) { return value; }
  static Json json_of(const char*, int64_t& value) { return value; }
  static Json json_of(const char*, uint64_t& value) { return value; }
  static Json json_of(const char*, std::string& value) { return value; }
  template <class Element>
  static Json json_of(const char*, std::vector<Element>& elements) {
    Json array = Json::array();
    for (Element& element : elements) array.push_back(object(element));
    return array;
  }
  template <class Object>
  static Json json_of(const char*, Object& value) {
    return object(value);
  }

  Json json_ = Json::object();
};

// Keeps the first problem: what is wrong at which JSON pointer.
class Reader {
 public:
  Reader(const Json& json, std::string path, absl::Status& status)
      : json_(json), path_(std::move(path)), status_(status) {}

  template <class Value>
  void operator()(const char* key, Value& value) {
    const auto found = json_.find(key);
    const std::string path = path_ + "/" + key;
    if (found == json_.end()) return problem(path, "is missing");
    read(*found, path, value);
  }
  template <class Value>
  void optional(const char* key, std::optional<Value>& value) {
    if (json_.contains(key)) (*this)(key, value.emplace());
  }

 private:
  void problem(const std::string& path, std::string_view what) {
    if (status_.ok()) status_ = invalid(fmt::format("{} {}", path, what));
  }

  void read(const Json& json, const std::string& path, double& value) {
    if (!json.is_number()) return problem(path, "is not a number");
    value = json.get<double>();
  }
  template <class Value>
  void read(const Json& json, const std::string& path, std::optional<Value>& value) {
    if (json.is_null()) return value.reset();
    read(json, path, value.emplace());
  }
  void read(const Json& json, const std::string& path, bool& value) {
    if (!json.is_boolean()) return problem(path, "is not true or false");
    value = json.get<bool>();
  }
  void read(const Json& json, const std::string& path, int64_t& value) {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const bool too_large = json.is_number_unsigned() && json.get<uint64_t>() > kLargest;
    if (!json.is_number_integer() || too_large) return problem(path, "is not a whole number");
    value = json.get<int64_t>();
  }
  void read(const Json& json, const std::string& path, uint64_t& value) {
    if (!json.is_number_unsigned()) return problem(path, "is not a whole number >= 0");
    value = json.get<uint64_t>();
  }
  void read(const Json& json, const std::string& path, std::string& value) {
    if (!json.is_string()) return problem(path, "is not a text");
    value = json.get<std::string>();
  }
  template <class Element>
  void read(const Json& json, const std::string& path, std::vector<Element>& elements) {
    if (!json.is_array()) return problem(path, "is not a list");
    for (const Json& element : json) {
      const std::string element_path = fmt::format("{}/{}", path, elements.size());
      read(element, element_path, elements.emplace_back());
    }
  }
  template <class Object>
  void read(const Json& json, const std::string& path, Object& value) {
    if (!json.is_object()) return problem(path, "is not an object");
    Reader reader(json, path, status_);
    fields(reader, value);
  }

  const Json& json_;
  std::string path_;
  absl::Status& status_;
};

std::string text_of(const Json& json) { return json_text(json, {.indent = 2}) + "\n"; }

// --- expectations ----------------------------------------------------------------------------------------------------

// Null when nothing is there.
const Json* find(const Json& root, const std::string& pointer) {
  try {
    const Json::json_pointer place(pointer);
    return root.contains(place) ? &root.at(place) : nullptr;
  } catch (const Json::exception&) {  // no JSON pointer
    return nullptr;
  }
}

// Numbers computed in floating point are equal when they differ by rounding only.
bool equal(const Json& json, double wanted) {
  const double value = json.get<double>();
  const double tolerance = json.is_number_integer() ? 0 : 1e-9 * std::max(std::fabs(value), std::fabs(wanted));
  return std::fabs(value - wanted) <= tolerance;
}

// What is wrong about the value; "" = nothing.
std::string complaint(const Json& json, const scenario::Expectation& expectation) {
  const std::string shown = json_text(json);
  if (expectation.is) {
    const std::string text = json.is_string() ? json.get<std::string>() : shown;
    return text == *expectation.is ? "" : fmt::format("is {}, expected \"{}\"", shown, *expectation.is);
  }
  if (!json.is_number()) return fmt::format("is {}, expected a number", shown);
  const auto value = json.get<double>();
  const auto expected = [&](std::string_view what, double bound) {
    return fmt::format("is {}, expected {} {}", shown, what, shortest(bound));
  };
  if (expectation.at_least && value < *expectation.at_least) return expected("at least", *expectation.at_least);
  if (expectation.at_most && value > *expectation.at_most) return expected("at most", *expectation.at_most);
  if (expectation.equals && !equal(json, *expectation.equals)) return expected("exactly", *expectation.equals);
  return "";
}

}  // namespace

std::string summary_json(const control::RunReport& report) {
  Summary summary = summarize(report);
  return text_of(Writer::object(summary));
}

absl::StatusOr<Summary> read_summary(const std::string& text) {
  const absl::StatusOr<Json> read = read_ordered_json(text);
  if (!read.ok()) return invalid("not a summary.json: " + message_of(read.status()));
  const Json& json = *read;
  if (!json.is_object()) return invalid("not a summary.json: it is no JSON object");
  const auto version = json.find("schema_version");
  if (version == json.end()) return invalid("not a summary.json: it has no schema_version");
  if (*version != Summary::kSchemaVersion) {
    return invalid(fmt::format("summary.json of schema version {}; this program reads version {}", json_text(*version),
                               Summary::kSchemaVersion));
  }
  Summary summary;
  absl::Status status;
  Reader reader(json, "", status);
  fields(reader, summary);
  if (!status.ok()) return invalid("not a summary.json: " + message_of(status));
  return summary;
}

std::string manifest_json(const Manifest& manifest) {
  Json json;
  json["schema_version"] = Summary::kSchemaVersion;
  json["version"] = kVersion;
  json["revision"] = manifest.revision;
  json["command_line"] = manifest.command_line;
  json["started_at"] = manifest.started_at;
  json["wall_clock_s"] = manifest.wall_clock_s;
  return text_of(json);
}

std::string failed_expectations(const scenario::Scenario& scenario, const std::string& strategy,
                                const std::string& summary_json_text) {
  const Json summary = read_ordered_json(summary_json_text).value_or(nullptr);
  std::string lines;
  for (const scenario::Expectation& expectation : scenario.expectations) {
    if ((expectation.strategy.empty() ? scenario.strategy : expectation.strategy) != strategy) continue;
    const Json* json = find(summary, expectation.metric);
    const std::string wrong = json == nullptr ? "is not in summary.json" : complaint(*json, expectation);
    if (!wrong.empty()) lines += fmt::format("{} {}\n", expectation.metric, wrong);
  }
  return lines;
}

}  // namespace scalai::report
