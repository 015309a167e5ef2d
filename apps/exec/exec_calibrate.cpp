#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/common/output.h"
#include "apps/common/run_report.h"
#include "apps/exec/calibration.h"
#include "apps/exec/calibration_plans.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_session.h"
#include "executor/bench/rows_bench.h"
#include "executor/controller/exec_runtime.h"
#include "executor/controller/job_work.h"
#include "executor/rpc/token.h"
#include "executor/state/available_memory.h"
#ifdef SCALAI_WITH_UCX
#include "executor/transport/ucx_info.h"
#include "executor/transport/ucx_transport.h"
#endif
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/report/run_scenario.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;
namespace bench = scalai::executor::bench;
namespace fs = std::filesystem;

constexpr int kMostDevices = 64;
constexpr int kSizes = 4;           // of each series
constexpr int64_t kSizeFactor = 4;  // from one to the next
constexpr int64_t kLeastBytes = int64_t{64} << 10;
constexpr double kOrphanTimeout_s = 10;

struct CalibrateOptions {
  std::string out;
  int hosts = 1, gpus = 1;
  int64_t bytes = 0;  // of the largest plans, on each device
  int repetitions = 1;
  bool network = false;
};

cluster::Cluster cluster_of(const CalibrateOptions& options) {
  cluster::Cluster cluster{.name = "calibrated"};
  for (int host = 0; host < options.hosts; ++host)
    cluster.hosts.push_back({.first_device = host * options.gpus, .gpus = options.gpus});
  cluster.storage_read_bytes_per_s = cluster.storage_write_bytes_per_s = 1;  // there is one
  return cluster;
}

// Every host pulls once and is pulled from once at each size.
std::vector<CalibrationPlan> plans_of(const cluster::Cluster& cluster, const CalibrateOptions& options) {
  std::vector<CalibrationPlan> plans;
  int64_t bytes = options.bytes;
  for (int size = 0; size < kSizes; ++size, bytes /= kSizeFactor) {
    if (options.hosts > 1) {
      plans.push_back(shift_plan(cluster, bytes));
      plans.push_back(exchange_plan(cluster, bytes));
      for (int host = 0; host < options.hosts; ++host)
        plans.push_back(pair_plan(cluster, HostId(host), HostId((host + 1) % options.hosts), bytes));
    }
    if (options.gpus > 1) plans.push_back(same_host_plan(cluster, bytes));
    plans.push_back(same_device_plan(cluster, bytes));
  }
  return plans;
}

int64_t bytes_of(const plan::Plan& plan, const std::string& series) {
  if (series == "same host") return plan.bytes().same_host;
  if (series == "same device") return plan.bytes().same_device;
  if (series == "together") return plan.bytes().cross_host + plan.bytes().same_device;
  return series == "read" ? plan.bytes().from_storage : plan.bytes().cross_host;
}

// Makes state, times plans on it as the executor runs them, and forgets it.
class Stopwatch {
 public:
  Stopwatch(const cluster::Cluster& cluster, ex::controller::WorkerPool& pool, const std::string& folder)
      : pool_(pool) {
    scenario_.cluster = cluster;
    scenario_.jobs.resize(1);
    scenario_.jobs[0].name = "calibration";
    options_.folder = folder;
  }

  // Adds one time to each. Nothing is committed.
  absl::Status run(const CalibrationPlan& one, Measured& prepared, Measured& moved) {
    ex::controller::JobWork work(0, scenario_, pool_, options_);
    control::Execute execute = begin(one);
    SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, plan::make_plan({*execute.from, *execute.to, scenario_.cluster, {}, {}}));
    SCALAI_RETURN_IF_ERROR(work.begin(*execute.from, 0));
    SCALAI_RETURN_IF_ERROR(time(work, std::move(plan), execute, prepared, moved));
    return work.forget(ex::state::StateVersion::epoch(execute.from->epoch));
  }

  absl::Status run_storage(const CalibrationPlan& one, Measured& written, Measured& read) {
    ex::controller::JobWork work(0, scenario_, pool_, options_);
    control::Execute execute = begin(one);
    execute.snapshot = 1;
    const collection::Residency residency{.lost = {}, .extra = {}, .storage = true};
    SCALAI_ASSIGN_OR_RETURN(
        plan::Plan plan,
        plan::make_plan(
            {*execute.from, *execute.to, scenario_.cluster, residency, {.sources = plan::SourceRule::kStorage}}));
    SCALAI_RETURN_IF_ERROR(work.begin(*execute.from, 0));
    const auto began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(work.background(
        {.tag = execute.snapshot, .what = "checkpoint", .flows = {}, .collection = execute.from, .copies = {}}));
    written.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    written.bytes = plan.bytes().from_storage;
    Measured prepared;
    SCALAI_RETURN_IF_ERROR(time(work, std::move(plan), execute, prepared, read));
    return work.forget(ex::state::StateVersion::epoch(execute.from->epoch));
  }

 private:
  control::Execute begin(const CalibrationPlan& one) {
    collection::Collection from = one.from, to = one.to;
    from.epoch = ++epoch_;
    to.epoch = ++epoch_;
    return {.epoch = to.epoch,
            .reconfiguration = 1,
            .plan = {},
            .from = std::make_shared<const collection::Collection>(std::move(from)),
            .to = std::make_shared<const collection::Collection>(std::move(to)),
            .gone = {},
            .extra = {},
            .stage = {},
            .load = {}};
  }

  absl::Status time(ex::controller::JobWork& work, plan::Plan plan, control::Execute& execute, Measured& prepared,
                    Measured& moved) const {
    using What = change::Stage::What;
    prepared.bytes = plan::most_allocated_bytes(plan);
    moved.bytes = bytes_of(plan, moved.series);
    const int rounds = plan.rounds();
    execute.plan = std::move(plan);
    double transfer_s = 0;
    for (int round = -1; round < rounds; ++round) {
      const change::Stage stage{.what = round < 0 ? What::kPrepare : What::kRound,
                                .phase = &change::PhaseSeconds::transfer,
                                .round = round,
                                .mark = round + 1};
      const ex::controller::StageOutcome outcome = work.run_stage(execute, stage, 0);
      SCALAI_RETURN_IF_ERROR(outcome.status);
      if (round < 0) {
        prepared.seconds.push_back(outcome.seconds);
      } else {
        transfer_s += outcome.seconds;
      }
    }
    moved.seconds.push_back(transfer_s);
    return work.forget(ex::state::StateVersion::epoch(execute.epoch));
  }

  ex::controller::WorkerPool& pool_;
  scenario::Scenario scenario_;
  ex::controller::ExecOptions options_;
  int64_t epoch_ = 0;
};

// Repetitions go over all plans in turn, so that a machine's slow minute meets all of them. The first time counts not:
// this machine's memory is touched for the first time.
absl::StatusOr<std::vector<Measured>> measure(const cluster::Cluster& cluster, ex::controller::WorkerPool& pool,
                                              const CalibrateOptions& options, const std::string& folder) {
  SCALAI_RETURN_IF_ERROR(pool.start());
  const std::vector<CalibrationPlan> plans = plans_of(cluster, options);
  const CalibrationPlan storage = storage_plan(cluster, options.bytes / kSizeFactor);
  std::vector<Measured> measured;
  std::vector<Measured> prepared;
  for (const CalibrationPlan& plan : plans) {
    measured.push_back({plan.series, plan.name, 0, {}});
    prepared.push_back({"prepare", plan.name, 0, {}});
  }
  Measured written{"write", "all devices to storage", 0, {}}, read{storage.series, storage.name, 0, {}};
  Stopwatch stopwatch(cluster, pool, folder);
  Progress progress("measuring");
  Measured cold_room = prepared.front(), cold = measured.front();
  SCALAI_RETURN_IF_ERROR(stopwatch.run(plans.front(), cold_room, cold));
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    progress.update(static_cast<double>(repetition) / options.repetitions,
                    fmt::format("{} of {}", repetition + 1, options.repetitions));
    for (size_t i = 0; i < plans.size(); ++i) SCALAI_RETURN_IF_ERROR(stopwatch.run(plans[i], prepared[i], measured[i]));
    SCALAI_RETURN_IF_ERROR(stopwatch.run_storage(storage, written, read));
  }
  measured.push_back(std::move(written));
  measured.push_back(std::move(read));
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].series == "together") measured.push_back(std::move(prepared[i]));
  }
  return measured;
}

absl::StatusOr<std::vector<Measured>> measure_on_workers(const CalibrateOptions& options) {
  const ScratchFolder scratch("scalai-calibrate");
  if (scratch.path().empty()) return missing("cannot make a temporary folder");
  const int64_t needed = 2 * options.hosts * options.gpus * options.bytes;
  if (needed > ex::state::available_memory()) {
    return missing(fmt::format("the workers need {} of memory, this machine has {} left; give fewer --bytes",
                               format_bytes(needed), format_bytes(ex::state::available_memory())));
  }
  const cluster::Cluster cluster = cluster_of(options);
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::start_measuring(cluster, {.transport = options.network ? "ucx" : "shared-memory"},
                                                   scratch.path(), kOrphanTimeout_s));
  auto measured = measure(cluster, session->pool(), options, scratch.path());
  session->dismiss();
  return measured;
}

// The ways in which state in rows travels over UCX; nothing where workers share memory.
absl::StatusOr<std::vector<bench::RowsTime>> measure_rows(const CalibrateOptions& options) {
  if (!options.network) return std::vector<bench::RowsTime>();
#ifdef SCALAI_WITH_UCX
  SCALAI_ASSIGN_OR_RETURN(const std::string key, ex::rpc::make_token());
  const std::string devices =
      std::getenv("UCX_NET_DEVICES") == nullptr ? ex::transport::ucx_devices_on("lo", true) : "";
  const auto make =
      [&](ex::transport::AnswerHandler handler) -> absl::StatusOr<std::unique_ptr<ex::transport::PeerTransport>> {
    return ex::transport::UcxTransport::create(std::move(handler), {.devices = devices, .key = key});
  };
  return bench::measure_rows(make, {.repetitions = options.repetitions});
#else
  return missing("scalai-exec was built without UCX (Debian: libucx-dev)");
#endif
}

std::string from_text(std::optional<int64_t> row_bytes) {
  return row_bytes ? "from " + format_bytes(*row_bytes) : "at no length";
}

// Beside the lengths measured here, those of executor/transport/rows.h.
std::string crossing_text(const std::vector<bench::RowsTime>& times) {
  using ex::transport::Rows;
  return fmt::format(
      "rows over UCX: gathered is not slower than packed {} (Scalai: from {}), in place not slower than gathered {} "
      "(Scalai: from {})",
      from_text(bench::crossing(times, Rows::kPacked, Rows::kGathered)),
      format_bytes(ex::transport::kGatheredFrom_bytes),
      from_text(bench::crossing(times, Rows::kGathered, Rows::kInPlace)),
      format_bytes(ex::transport::kInPlaceFrom_bytes));
}

std::vector<std::string> rows_comments(const std::vector<bench::RowsTime>& times) {
  if (times.empty()) return {};
  std::vector<std::string> lines = {crossing_text(times),
                                    "Measured: row bytes, bytes, seconds packed, gathered, in place"};
  for (const bench::RowsTime& time : times) {
    lines.push_back(fmt::format("  {}, {}, {:.6f} {:.6f} {:.6f}", time.row_bytes, time.bytes,
                                time.of(ex::transport::Rows::kPacked), time.of(ex::transport::Rows::kGathered),
                                time.of(ex::transport::Rows::kInPlace)));
  }
  return lines;
}

std::string cpu_model() {
  const std::string text = read_file("/proc/cpuinfo").value_or("");
  const size_t at = text.find("model name");
  const size_t colon = text.find(": ", at);
  if (at == std::string::npos || colon == std::string::npos) return "unknown processor";
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

std::vector<std::string> facts_of(const CalibrateOptions& options) {
  return {fmt::format("date:    {}", utc_now("%Y-%m-%d %H:%M UTC")),
          fmt::format("machine: {} cores, {}", std::thread::hardware_concurrency(), cpu_model()),
          fmt::format("command: scalai exec calibrate --out={} --hosts={} --gpus={} --bytes={}B --repetitions={} "
                      "--transport={}",
                      options.out, options.hosts, options.gpus, options.bytes, options.repetitions,
                      options.network ? "ucx" : "shared-memory")};
}

void print_fits(const Calibration& calibration) {
  Table table({"series", "latency>", "rate>", "worst fit>"});
  const auto row = [&](const std::string& name, const std::optional<LineFit>& fit) {
    if (!fit) return;
    table.row({name, format_seconds(fit->latency_s), format_bandwidth(fit->bytes_per_s),
               fmt::format("{:.0f} %", 100 * fit->worst_error)});
  };
  row("one pair of hosts", calibration.pair);
  row("all hosts together", calibration.together);
  row("inside a host", calibration.same_host);
  row("inside two devices", calibration.same_device);
  table.row({"memory of each device", "", format_bandwidth(calibration.allocate_bytes_per_s), ""});
  table.row({"storage, write", "", format_bandwidth(calibration.write_bytes_per_s), ""});
  table.row({"storage, read", "", format_bandwidth(calibration.read_bytes_per_s), ""});
  print(table.text(stdout_screen()));
}

// Measuring takes a minute: what would fail after it fails before.
absl::Status check_folder(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return absl::OkStatus();
  return missing(fmt::format("{}: there is no folder {}", file, folder.string()));
}

// The scenario of a run of real training, with what it measured.
int calibrate_by_run(const std::string& folder, const std::string& out) {
  const auto resolved = read_file(folder + "/scenario.resolved.textproto");
  if (!resolved.ok()) return report_error(resolved.status());
  const auto summary = read_file(folder + "/summary.json");
  if (!summary.ok()) return report_error(summary.status());
  const auto plan_of = [&](const std::string& file) -> absl::StatusOr<plan::Plan> {
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes, read_file(folder + "/" + file));
    return plan::parse_plan(bytes);
  };
  const auto measured = report::measured_scenario(*resolved, *summary, plan_of);
  if (!measured.ok()) return report_error(measured.status());
  const auto checked = scenario::parse_scenario(measured->text, folder + "/" + fs::path(out).filename().string(),
                                                [](const std::string& name) { return read_file(name); });
  if (!checked.ok()) return report_error(checked.status());
  const std::string text =
      scenario::text_in_folder(measured->text, checked->folder, fs::path(out).parent_path().string());
  if (const absl::Status done = write_file(out, text); !done.ok()) return report_error(done);
  Table table({"job", "what", "measured>", "of>"});
  for (const report::MeasuredValue& one : measured->values)
    table.row({one.job, one.what, one.measured, std::to_string(one.samples)});
  print(table.text(stdout_screen()));
  return 0;
}

int calibrate_command(const Arguments& arguments) {
  const CalibrateOptions options{
      .out = arguments.text("out"),
      .hosts = static_cast<int>(std::min<int64_t>(arguments.count("hosts"), kMostDevices + 1)),
      .gpus = static_cast<int>(std::min<int64_t>(arguments.count("gpus"), kMostDevices + 1)),
      .bytes = arguments.bytes("bytes"),
      .repetitions = static_cast<int>(std::min<int64_t>(arguments.count("repetitions"), 1000)),
      .network = arguments.text("transport") == "ucx"};
  const auto wrong = [](const std::string& message) { return usage_error("exec calibrate", message); };
  if (options.out.empty()) return wrong("--out=FILE is needed: the cluster or the scenario goes there");
  if (options.hosts * options.gpus < 2 || options.hosts * options.gpus > kMostDevices)
    return wrong(fmt::format("--hosts times --gpus is 2 to {}", kMostDevices));
  if (options.bytes < kLeastBytes) return wrong(fmt::format("--bytes is at least {}", format_bytes(kLeastBytes)));
  if (options.repetitions < 1) return wrong("--repetitions is at least 1");
  const absl::Status writable = check_folder(options.out);
  if (!writable.ok()) return report_error(writable);
  if (arguments.has("run")) return calibrate_by_run(arguments.text("run"), options.out);
  const int64_t memory_bytes = ex::state::available_memory();
  const auto measured = measure_on_workers(options);
  if (!measured.ok()) return report_error(measured.status());
  const auto rows = measure_rows(options);
  if (!rows.ok()) return report_error(rows.status());
  const auto calibration = calibrate(*measured);
  if (!calibration.ok()) return report_error(calibration.status());
  const CalibratedMachine machine{options.hosts, options.gpus, memory_bytes, facts_of(options), rows_comments(*rows)};
  const absl::Status done = write_file(options.out, cluster_text(machine, *calibration, *measured));
  if (!done.ok()) return report_error(done);
  if (const auto cluster = scenario::load_cluster(options.out); !cluster.ok()) return report_error(cluster.status());
  print_fits(*calibration);
  if (!rows->empty()) print("\n{}\n", crossing_text(*rows));
  print("\nput this into scenarios on {}:\n  {}", options.out, costs_text(*calibration));
  return 0;
}

}  // namespace

Command exec_calibrate_command() {
  return {
      {.name = "calibrate",
       .summary = "measure this machine's transfers and write a cluster file for `scalai sim`",
       .usage = "scalai exec calibrate --out=FILE [--hosts=N] [--gpus=N]\nscalai exec calibrate --run=DIR --out=FILE",
       .description =
           R"(Starts a worker a host and times plans on synthetic state as the executor runs them: between two hosts, between all
of them at the same time, inside hosts and devices, to storage and back. From fits of latency + bytes / rate it
writes a cluster file, with the measured times as comments, and prints the costs that go into scenarios.

With --transport=ucx it also times state in rows, by their length: packed into one array before sending, gathered chunk by
chunk, or handed to UCX as a list. The lengths from which one way beats another stand in the file and on the screen.

With --run=DIR, a run of real training, it writes that run's scenario with the steps and costs that were measured.)",
       .options = {text_option("out", "FILE", "The cluster file, or with --run the scenario, to write."),
                   text_option("run", "DIR", "A run of real training (scalai exec --train, scalai launch), to read."),
                   count_option("hosts", "N", "Hosts of the cluster: workers on this machine.", "8"),
                   count_option("gpus", "N", "Devices of each host.", "1"),
                   bytes_option("bytes", "SIZE",
                                "What each device holds in the largest plans; others are a 4th, 16th and 64th.",
                                "256MiB"),
                   count_option("repetitions", "N", "Times of each plan; medians count.", "5"), transport_option()},
       .examples = {"scalai exec calibrate --out=machine.textproto",
                    "scalai exec calibrate --run=out/gpt --out=measured.textproto",
                    "scalai exec calibrate --hosts=2 --gpus=4 --transport=ucx --out=machine.textproto"}},
      calibrate_command};
}

}  // namespace scalai::apps
