#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "nlohmann/json.hpp"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"
#include "ptc/run/scenario/trace/lines.h"

namespace scalai::trace {
namespace {

using nlohmann::json;

struct Attempt {
  std::string start, end;  // "" = missing
  int64_t gpus = 0;
};

struct LoggedJob {
  std::string id, vc, status, submitted;
  std::vector<Attempt> attempts;
};

enum class RunTime : uint8_t { kSpan, kAttempts };

std::string stated(const std::string& text) { return text == "None" ? "" : text; }

// A finished record as a job, or why not. GPUs are those of the first attempt and the run time goes from its start to
// the end of the last one, as the authors' notebook counts; or the attempts' own times are added up.
class Records {
 public:
  Records(std::string file, Reading& reading) : file_(std::move(file)), reading_(reading) {
    const std::string run = reading.options.choice("run", {"span", "attempts"}, reading.problems);
    run_ = run == "span" ? RunTime::kSpan : RunTime::kAttempts;
    vcs_ = reading.options.list("vc");
    states_ = reading.options.list("status");
  }

  void add(const LoggedJob& record, int64_t index) {
    pointer_ = fmt::format("/{}", index);
    ++reading_.summary.rows;
    if (!check_names(record)) return;
    if (!listed(vcs_, record.vc)) return reading_.drop("of another virtual cluster");
    if (!listed(states_, record.status)) return reading_.drop("of another status");
    if (record.attempts.empty()) return reading_.drop("never started");
    const Attempt& first = record.attempts.front();
    if (first.gpus == 0) return reading_.drop("asks for no GPU");
    if (first.start.empty()) return reading_.drop("start not recorded");
    if (record.attempts.back().end.empty()) return reading_.drop("has no end: still running, or not recorded");
    const std::optional<double> submitted = time("submitted_time", record.submitted);
    const std::optional<double> seconds = run_ == RunTime::kSpan ? span(record) : attempts_sum(record);
    if (!submitted || !seconds) return;
    if (*seconds <= 0) return reading_.drop("ran for no time");
    policy::Job job = duration_job(record.id, *submitted, first.gpus, *seconds);
    job.entity = record.vc;
    reading_.add(place(), std::move(job));
  }

  void problem(int64_t index, const std::string& field, const std::string& reason) {
    pointer_ = fmt::format("/{}", index);
    reading_.problems.add(place(), field, reason);
  }

 private:
  Place place() const { return {file_, 0, pointer_}; }

  static bool listed(const std::vector<std::string>& items, const std::string& value) {
    return items.empty() || std::count(items.begin(), items.end(), value) > 0;
  }

  bool check_names(const LoggedJob& record) {
    const size_t before = static_cast<size_t>(reading_.problems.count());
    for (const auto& [field, value] :
         {std::pair{"jobid", &record.id}, {"vc", &record.vc}, {"status", &record.status}}) {
      if (!fit_as_name(*value)) {
        reading_.problems.add(place(), field, value->empty() ? "is missing" : in_quotes(*value) + " is no name");
      }
    }
    return static_cast<size_t>(reading_.problems.count()) == before;
  }

  std::optional<double> time(const std::string& field, const std::string& text) {
    const std::optional<double> value = time_of(text);
    if (!value) {
      reading_.problems.add(place(), field, in_quotes(text) + " is not a date and time",
                            "write it like 2017-10-07 01:12:09");
    }
    return value;
  }

  std::optional<double> span(const LoggedJob& record) {
    const auto start = time("attempts/0/start_time", record.attempts.front().start);
    const size_t last = record.attempts.size() - 1;
    const auto end = time(fmt::format("attempts/{}/end_time", last), record.attempts.back().end);
    if (!start || !end) return std::nullopt;
    if (*end < *start) {
      reading_.problems.add(place(), fmt::format("attempts/{}/end_time", last), "is before the first start");
      return std::nullopt;
    }
    return *end - *start;
  }

  std::optional<double> attempts_sum(const LoggedJob& record) {
    double sum = 0;
    for (size_t i = 0; i < record.attempts.size(); ++i) {
      const Attempt& attempt = record.attempts[i];
      if (attempt.start.empty() || attempt.end.empty()) continue;  // logging errors of the trace
      const auto start = time(fmt::format("attempts/{}/start_time", i), attempt.start);
      const auto end = time(fmt::format("attempts/{}/end_time", i), attempt.end);
      if (!start || !end) return std::nullopt;
      sum += std::max(0.0, *end - *start);
    }
    return sum;
  }

  std::string file_, pointer_;
  Reading& reading_;
  RunTime run_;
  std::vector<std::string> vcs_, states_;
};

// The document as a stream of its tokens: an array of jobs with attempts with servers with GPUs. What else there is
// passes by.
class PhillyTokens : public nlohmann::json_sax<json> {
 public:
  explicit PhillyTokens(Records& records) : records_(records) {}

  const std::string& error() const { return error_; }

  bool null() override { return value(""); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& text) override { return value(text); }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (level()) {
      case Level::kJobs: job_ = LoggedJob(); return open(Level::kJob);
      case Level::kAttempts: job_.attempts.emplace_back(); return open(Level::kAttempt);
      case Level::kServers: return open(Level::kServer);
      case Level::kFile: return stop("is no array of jobs");
      default: return open(Level::kOther);
    }
  }

  bool start_array(std::size_t) override {
    if (level() == Level::kFile) return open(Level::kJobs);
    if (level() == Level::kJob && key_ == "attempts") return open(Level::kAttempts);
    if (level() == Level::kAttempt && key_ == "detail") return open(Level::kServers);
    if (level() == Level::kServer && key_ == "gpus") return open(Level::kGpus);
    return open(Level::kOther);
  }

  bool end_object() override {
    if (level() == Level::kJob) records_.add(job_, index_++);
    levels_.pop_back();
    return true;
  }

  bool end_array() override {
    levels_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (error_.empty()) error_ = fmt::format("is no JSON document (byte {})", position);
    return false;
  }

 private:
  enum class Level : uint8_t { kFile, kJobs, kJob, kAttempts, kAttempt, kServers, kServer, kGpus, kOther };
  static constexpr size_t kDeepest = 64;
  static constexpr size_t kMostAttempts = 100000;

  Level level() const { return levels_.empty() ? Level::kFile : levels_.back(); }
  bool open(Level next) {
    if (levels_.size() >= kDeepest) return stop("is nested too deeply");
    if (job_.attempts.size() > kMostAttempts) return stop("has a job with too many attempts");
    levels_.push_back(next);
    return true;
  }
  bool stop(const std::string& reason) {
    error_ = reason;
    return false;
  }

  // A text or null.
  bool value(const std::string& text) {
    switch (level()) {
      case Level::kFile: return stop("is no array of jobs");
      case Level::kJobs: records_.problem(index_++, "", "is no object"); return true;
      case Level::kJob:
        if (key_ == "jobid") job_.id = text;
        if (key_ == "vc") job_.vc = text;
        if (key_ == "status") job_.status = text;
        if (key_ == "submitted_time") job_.submitted = stated(text);
        return true;
      case Level::kAttempt:
        if (key_ == "start_time") job_.attempts.back().start = stated(text);
        if (key_ == "end_time") job_.attempts.back().end = stated(text);
        return true;
      case Level::kGpus: ++job_.attempts.back().gpus; return true;
      default: return true;
    }
  }
  // A number or a truth value, which no field we read has.
  bool other() {
    if (level() == Level::kFile) return stop("is no array of jobs");
    if (level() == Level::kJobs) return value("");
    if (level() == Level::kJob || level() == Level::kAttempt || level() == Level::kGpus) {
      records_.problem(index_, key_, "is not a text");
    }
    return true;
  }

  Records& records_;
  std::vector<Level> levels_;
  std::string key_, error_;
  LoggedJob job_;
  int64_t index_ = 0;
};

absl::Status read_philly_json(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(std::FILE * opened, open_trace_file(path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(opened, std::fclose);
  Records records(path, reading);
  SCALAI_RETURN_IF_ERROR(reading.problems.status());
  PhillyTokens tokens(records);
  if (json::sax_parse(file.get(), &tokens)) return absl::OkStatus();
  reading.problems.add({path}, "", tokens.error());
  return absl::OkStatus();
}

}  // namespace

std::vector<Format> document_job_formats() {
  return {
      {{"philly-json", TraceContent::kJobs, "Microsoft's cluster_job_log (github.com/msr-fiddle/philly-traces)",
        with_job_options(
            {{"vc", "", "only jobs of these virtual clusters, parted by +"},
             {"status", "", "only jobs that ended so, parted by +: Pass+Killed+Failed"},
             {"run", "span", "run time: span (first start to last end, as the authors count) or attempts (their sum)"}},
            "first")},
       read_philly_json}};
}

}  // namespace scalai::trace
