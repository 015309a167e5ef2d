#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"

namespace scalai::trace {
namespace {

constexpr Bounds kMilliseconds{0, 1e14};
constexpr Bounds kHostCount{0, 100000};

// "time_ms,add|remove,nodeN"
void read_change(Csv& csv, double& last_s, Reading& reading) {
  csv.set_header({"time_ms", "event", "node"});
  const auto time = csv.number("time_ms", kMilliseconds);
  const std::string_view event = csv.text("event");
  const auto node = csv.name("node");
  if (event != "add" && event != "remove") {
    csv.problem("event", fmt::format("{} is neither add nor remove", in_quotes(event)));
    return;
  }
  if (!time || !node) return;
  if (*time / 1e3 < last_s) return csv.problem("time_ms", "is earlier than the row before");
  last_s = *time / 1e3;
  reading.host_end_s = std::max(reading.host_end_s, last_s);
  reading.change(csv.place(), last_s, event == "add", *node);
}

// "2021-12-11, 11:11:30, 55"
void read_stamped_count(Csv& csv, Counts& counts) {
  csv.set_header({"date", "time", "instances"});
  const std::string stamp = fmt::format("{} {}", csv.text("date"), csv.text("time"));
  const auto at = time_of(stamp);
  if (!at) csv.problem("date", fmt::format("{} is no date and time", in_quotes(stamp)));
  const auto count = csv.count("instances", kHostCount);
  if (at && count) counts.emplace_back(*at, static_cast<int>(*count));
}

// "21000,17"
void read_count(Csv& csv, Counts& counts) {
  csv.set_header({"time_ms", "instances"});
  const auto time = csv.number("time_ms", kMilliseconds);
  const auto count = csv.count("instances", kHostCount);
  if (time && count) counts.emplace_back(*time / 1e3, static_cast<int>(*count));
}

enum class RowForm : uint8_t { kChange, kStampedCount, kCount, kUnknown };

RowForm form_of(const std::vector<std::string>& fields) {
  if (fields.size() == 2) return RowForm::kCount;
  if (fields.size() != 3) return RowForm::kUnknown;
  return trimmed(fields[0]).find('-') != std::string_view::npos ? RowForm::kStampedCount : RowForm::kChange;
}

absl::Status read_rows(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  csv.set_free();
  Counts counts;
  double last_s = 0;
  RowForm form = RowForm::kUnknown;  // of the first row; the others are to be like it
  while (csv.next()) {
    const RowForm row = form_of(csv.fields());
    if (form == RowForm::kUnknown) form = row;
    if (row == RowForm::kUnknown || row != form) {
      csv.problem("", form == row ? "is a row of no known form" : "is a row of another form than those before",
                  "rows are time_ms,add|remove,node, or date, time, instances, or time_ms,instances");
    } else if (form == RowForm::kChange) {
      read_change(csv, last_s, reading);
    } else if (form == RowForm::kStampedCount) {
      read_stamped_count(csv, counts);
    } else {
      read_count(csv, counts);
    }
  }
  reading.summary.rows += csv.rows();
  if (form != RowForm::kStampedCount) reading.origin = 0;
  if (!counts.empty()) reading.note("the trace counts hosts only: the one that came last is the first to go");
  if (reading.problems.empty()) reading.follow(std::move(counts), "host-");
  return csv.status();
}

// Polls of single instances, every 10 to 15 minutes: created, alive, preempted (not running), create_failed, deleted.
class Polls {
 public:
  explicit Polls(Reading& reading)
      : reading_(reading),
        gpu_(reading.options.text("gpu")),
        gpus_(reading.options.text("gpus")),
        zone_(reading.options.text("zone")) {}

  void row(Csv& csv) {
    const auto at = csv.time("timestamp_utc");
    const std::string event(csv.text("event"));
    if (!known(event)) {
      csv.problem("event", in_quotes(event) + " is no event",
                  "there are created, alive, preempted, create_failed, deleted");
      return;
    }
    if (!at) return;
    if (*at < last_s_) return csv.problem("timestamp_utc", "is earlier than the row before");
    last_s_ = *at;
    if (event == "create_failed") return reading_.drop("create_failed: not granted");
    const auto instance = csv.name("instance");
    if (!instance || !reads(csv, event, *instance)) return;
    reading_.host_end_s = std::max(reading_.host_end_s, *at);
    const bool comes = event == "created" || event == "alive";
    const bool is_up = up_.count(*instance) > 0;
    if (comes == is_up) return repeated(event);
    if (comes) {
      up_.insert(*instance);
    } else {
      up_.erase(*instance);
    }
    reading_.change(csv.place(), *at, comes, *instance);
  }

  // Mixed kinds of instances cannot be hosts of one trace.
  void finish(const std::string& path) {
    if (kinds_.size() > 1) {
      reading_.problems.add({path}, "",
                            fmt::format("has instances of {} kinds: {}", kinds_.size(), fmt::join(kinds_, ", ")),
                            "choose one with gpu=… and gpus=…");
    }
    if (gone_again_ > 0) {
      reading_.note(fmt::format("{} rows say preempted or deleted of instances that were gone already", gone_again_));
    }
  }

 private:
  static bool known(const std::string& event) {
    return event == "created" || event == "alive" || event == "preempted" || event == "create_failed" ||
           event == "deleted";
  }

  // True when the instance is one that was asked for. What it is stands in the rows that say that it is there.
  bool reads(Csv& csv, const std::string& event, const std::string& instance) {
    if (event != "created" && event != "alive") {
      if (wanted_.count(instance) > 0) return true;
      reading_.drop(known_.count(instance) > 0 ? "of another kind or zone" : "of an instance that was never there");
      return false;
    }
    const auto gpus = csv.count("num_gpus", kGpuCount);
    const auto gpu = csv.name("gpu_type");
    const auto zone = csv.name("zone");
    if (!gpus || !gpu || !zone) return false;
    known_.insert(instance);
    const bool wanted = (gpu_.empty() || gpu_ == *gpu) && (gpus_.empty() || gpus_ == std::to_string(*gpus)) &&
                        (zone_.empty() || zone_ == *zone);
    if (!wanted) {
      reading_.drop("of another kind or zone");
      return false;
    }
    wanted_.insert(instance);
    kinds_.insert(fmt::format("{} x {}", *gpus, *gpu));
    return true;
  }

  void repeated(const std::string& event) {
    if (event != "alive") ++gone_again_;
  }

  Reading& reading_;
  std::string gpu_, gpus_, zone_;
  double last_s_ = -1e18;
  std::set<std::string> up_, known_, wanted_, kinds_;
  int64_t gone_again_ = 0;
};

absl::Status read_polls(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  if (!csv.read_header({"timestamp_utc", "event", "instance", "num_gpus", "gpu_type", "zone"})) return csv.status();
  Polls polls(reading);
  while (csv.next()) polls.row(csv);
  polls.finish(path);
  reading.summary.rows += csv.rows();
  return csv.status();
}

}  // namespace

std::vector<Format> host_formats() {
  constexpr TraceContent kHosts = TraceContent::kHosts;
  const std::vector<TraceOption> options = with_host_options({}, "slots");
  const std::vector<TraceOption> kinds = with_host_options({{"gpu", "", "only instances with this GPU"},
                                                            {"gpus", "", "only instances with so many"},
                                                            {"zone", "", "only there"}},
                                                           "slots");
  return {
      {{"bamboo", kHosts, "spot instances: add and remove rows, or counts (github.com/uclasystem/bamboo traces)",
        options},
       read_rows},
      {{"oobleck", kHosts, "the same rows (github.com/SymbioticLab/Oobleck tools/simulator/traces)", options},
       read_rows},
      {{"aws-spot-availability", kHosts,
        "polls of spot instances, EC2 or GCP, as CSV timestamp_utc, event, instance, num_gpus, gpu_type, zone "
        "(from github.com/stanford-futuredata/training_on_a_dime)",
        kinds},
       read_polls},
  };
}

}  // namespace scalai::trace
