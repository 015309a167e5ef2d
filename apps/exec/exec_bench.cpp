#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/output.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_device_bench.h"
#include "apps/exec/exec_session.h"
#include "executor/bench/cases.h"
#include "executor/bench/driver.h"
#include "executor/bench/measurement.h"
#include "executor/bench/yardsticks.h"
#include "executor/state/available_memory.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;
namespace bench = scalai::executor::bench;
namespace fs = std::filesystem;

struct BenchOptions {
  bench::CaseOptions cases;
  DeviceBenchOptions devices;  // what is not of workers, but of devices themselves
  int repetitions = 5;
  std::string transport, huge_pages;
  std::string alltoallw;
  std::string folder;
};

// A folder for logs: the user's, or one that goes with this.
class Folder {
 public:
  static absl::StatusOr<std::unique_ptr<Folder>> make(const std::string& wanted) {
    std::unique_ptr<Folder> folder(new Folder);
    folder->path_ = wanted;
    if (!wanted.empty()) {
      SCALAI_RETURN_IF_ERROR(make_folders(wanted));
      return folder;
    }
    folder->temporary_.emplace("scalai-bench");
    folder->path_ = folder->temporary_->path();
    if (folder->path_.empty()) return missing("cannot make a temporary folder for logs");
    return folder;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  Folder() = default;
  std::string path_;
  std::optional<ScratchFolder> temporary_;
};

absl::StatusOr<bench::Runs> run_on_workers(const bench::Case& one, const plan::Plan& plan,
                                           const BenchOptions& options) {
  const cluster::Cluster cluster = bench::cluster_of(one.devices);
  SCALAI_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::start_measuring(cluster, {.transport = options.transport, .huge_pages = options.huge_pages},
                               options.folder));
  const absl::Status ready = session->pool().start();
  absl::StatusOr<bench::Runs> runs =
      ready.ok() ? bench::run_case(session->pool(), one, plan, options.repetitions) : ready;
  session->dismiss();
  return runs;
}

void measure_yardsticks(const bench::Case& one, const BenchOptions& options, bench::Measurement& measured) {
  const auto add = [&](const std::string& name, const absl::StatusOr<double>& seconds) {
    if (seconds.ok()) {
      measured.yardsticks.push_back({name, *seconds});
    } else if (!absl::IsNotFound(seconds.status())) {
      say("scalai exec bench: {}: {}\n", name, message_of(seconds.status()));
    }
  };
  add("memcpy", bench::memcpy_seconds(measured.busiest_received, options.repetitions));
  if (one.rows > 0) {
    add("MPI_Alltoallw", bench::alltoallw_seconds({.program = options.alltoallw,
                                                   .log_file = options.folder + "/alltoallw.log",
                                                   .ranks = one.devices,
                                                   .rows = one.rows,
                                                   .columns = one.columns,
                                                   .repetitions = options.repetitions}));
  }
  if (options.transport == "ucx") {
    add("ucx_perftest",
        bench::ucx_seconds({.log_file = options.folder + "/ucx_perftest.log", .bytes = measured.busiest_bytes}));
  }
}

absl::Status check_memory(const bench::Case& one) {
  const int64_t needed = bench::bytes_on_devices(one.from) + bench::bytes_on_devices(one.to);
  const int64_t available = ex::state::available_memory();
  if (needed <= available) return absl::OkStatus();
  return missing(
      fmt::format("{} at {} devices needs up to {} of memory, this machine has {} left; take fewer devices, "
                  "fewer --bytes or a smaller --scale-model",
                  one.name, one.devices, format_bytes(needed), format_bytes(available)));
}

absl::StatusOr<bench::Measurement> measure(const bench::Case& one, const BenchOptions& options) {
  SCALAI_RETURN_IF_ERROR(check_memory(one));
  const cluster::Cluster cluster = bench::cluster_of(one.devices);
  const collection::Residency nobody_lost;
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan, plan::make_plan({one.from, one.to, cluster, nobody_lost, {}}));
  SCALAI_ASSIGN_OR_RETURN(bench::Runs runs, run_on_workers(one, plan, options));
  bench::Measurement measured{.name = one.name,
                              .devices = one.devices,
                              .transport = options.transport,
                              .state_bytes = one.state_bytes,
                              .moved_bytes = plan.bytes().moved(),
                              .prepare_s = median(runs.prepare_s).value_or(0),
                              .first_s = runs.first_s,
                              .transfer_s = std::move(runs.transfer_s),
                              .errors = runs.errors};
  for (const plan::DeviceTraffic& device : plan::device_traffic(plan)) {
    measured.busiest_received = std::max(measured.busiest_received, device.received);
    measured.busiest_bytes = std::max({measured.busiest_bytes, device.received, device.sent});
  }
  if (runs.errors > 0) say("scalai exec bench: {} at {} devices: {}\n", one.name, one.devices, runs.first_error);
  measure_yardsticks(one, options, measured);
  return measured;
}

absl::StatusOr<BenchOptions> read_options(const Arguments& arguments) {
  const std::string backend = arguments.text("backend");
  const int64_t bytes = arguments.has("bytes") ? arguments.bytes("bytes") : 0;
  BenchOptions options{.cases = {.names = {}, .devices = {}, .bytes = bytes > 0 ? bytes : int64_t{1} << 30},
                       .devices = {.models = arguments.list("models"),
                                   .bytes = bytes,
                                   .state = {.backend = backend, .nccl = arguments.text("nccl")}},
                       .repetitions = static_cast<int>(arguments.count("repetitions")),
                       .transport = arguments.text("transport"),
                       .huge_pages = arguments.text("huge-pages"),
                       .alltoallw = arguments.text("alltoallw")};
  const std::vector<std::string> of_devices = device_case_names();
  std::vector<std::string> names = arguments.list("cases");
  if (names.empty()) names = backend == "cuda" ? of_devices : bench::case_names();
  for (std::string& name : names) {
    const bool is_device = std::find(of_devices.begin(), of_devices.end(), name) != of_devices.end();
    if (!is_device && backend == "cuda")
      return invalid(fmt::format("{} is measured on workers in host memory: --backend=host", name));
    (is_device ? options.devices.cases : options.cases.names).push_back(std::move(name));
  }
  for (const std::string& text : arguments.list("devices")) {
    int devices = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), devices);
    if (error != std::errc() || end != text.data() + text.size())
      return invalid(fmt::format("--devices: \"{}\" is not a number", text));
    options.cases.devices.push_back(devices);
  }
  if (options.repetitions < 1 || options.repetitions > 10'000) return invalid("--repetitions is 1 to 10000");
  SCALAI_ASSIGN_OR_RETURN(options.cases.scale_model, model::parse_fraction(arguments.text("scale-model")));
  options.devices.scale_model = options.cases.scale_model;
  options.devices.repetitions = options.repetitions;
  std::error_code ignored;
  if (options.alltoallw.empty())
    options.alltoallw = fs::read_symlink("/proc/self/exe", ignored).replace_filename("alltoallw_bench").string();
  return options;
}

int bench_command(const Arguments& arguments) {
  auto options = read_options(arguments);
  if (!options.ok()) return usage_error("exec bench", message_of(options.status()));
  const auto cases = bench::make_cases(options->cases);
  if (!cases.ok()) return usage_error("exec bench", message_of(cases.status()));
  const auto folder = Folder::make(arguments.text("out"));
  if (!folder.ok()) return report_error(folder.status());
  options->folder = options->devices.folder = (*folder)->path();
  std::vector<bench::Measurement> list;
  absl::Status ended;
  {
    Progress progress("measuring");
    for (const bench::Case& one : *cases) {
      progress.update(static_cast<double>(list.size()) / static_cast<double>(cases->size()),
                      fmt::format("{} at {} devices", one.name, one.devices));
      auto measured = measure(one, *options);
      if (!measured.ok()) return report_error(measured.status());
      list.push_back(*std::move(measured));
    }
    const auto note = [&](const std::string& what) { progress.update(0, what); };
    ended = measure_devices(options->devices, note, list);
  }
  if (list.empty() && !ended.ok()) return report_error(ended);
  int64_t errors = 0;
  for (const bench::Measurement& one : list) errors += one.errors;
  print(arguments.text("format") == "json" ? bench::json_text(list) : bench::table_text(list, stdout_screen()));
  if (errors == 0) return report_error(ended);
  return report_error(failed(fmt::format("{} pieces of state differ from their expected content", errors)));
}

std::vector<OptionSpec> bench_option_specs() {
  std::vector<std::string> names = bench::case_names();
  for (std::string& name : device_case_names()) names.push_back(std::move(name));
  return {
      list_option("cases", "NAMES",
                  "What to measure: row-column to redeploy on workers, the others on devices themselves. Without it "
                  "the former, with --backend=cuda the latter.",
                  names),
      list_option("devices", "NUMBERS", "Each case with so many devices, each device a worker process: powers of two.",
                  {}, "2,4,8"),
      bytes_option("bytes", "BYTES",
                   "Size of row-column's matrix, of all boxes and of nccl's message (1 GiB without it), and of what a "
                   "layout's case "
                   "copies (4 GiB on a GPU, 256 MiB in host memory)."),
      list_option(
          "models", "NAMES",
          "Of layouts and reconfigurations; without it llama3-8b and gpt3-6.7b for layouts, gpt3-xl (1.3 B) and "
          "gpt3-6.7b for reconfigurations."),
      choice_option("backend", "WHERE",
                    "Where the devices of layouts, nccl and reconfigure are: in host memory, or on GPUs.",
                    {"host", "cuda"}, "host"),
      text_option("nccl", "FILE", "NCCL's library; without it libnccl.so.2 as the loader finds it."),
      text_option("scale-model", "PART", "Make gpt2 and reconfigured models narrower, as `scalai exec` does.", "1"),
      count_option("repetitions", "N", "Times that count, besides a first one that does not; their median is shown.",
                   "5"),
      transport_option(),
      huge_pages_option(),
      text_option("alltoallw", "FILE",
                  "The program alltoallw_bench, run by mpirun; without it the one beside this executable, if there."),
      text_option("out", "DIR", "Keep the workers' logs here."),
      format_option({"table", "json"})};
}

}  // namespace

Command exec_bench_command() {
  return {{.name = "scalai-exec bench",
           .summary = "time changes of state on workers of this machine",
           .usage = "scalai exec bench [--cases=NAMES] [--devices=NUMBERS] [--bytes=BYTES]",
           .description =
               R"(Starts a worker process for each device, makes a state, plans a change of it and runs the plan several
times; every element is checked each time. Beside each time stands what a yardstick took for the same
bytes in the same run: memcpy of what the busiest device receives, MPI_Alltoallw for row-column, and
ucx_perftest with --transport=ucx, where they are installed. Ratios below 1 are in our favour.
Layouts are copied on one device, split and merged, and held against the device's own copies; nccl sends
between all GPUs here; reconfigure takes models with full optimizer state from 8 devices to 4 and back.)",
           .options = bench_option_specs(),
           .examples = {"scalai exec bench --cases=row-column --devices=2,4",
                        "scalai exec bench --cases=tp,redeploy --scale-model=1/4 --format=json"}},
          bench_command};
}

}  // namespace scalai::apps
