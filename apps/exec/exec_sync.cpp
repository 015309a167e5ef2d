// `scalai sync`: the weights of a run that trains, in the memories of receivers in another layout.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_split.h"
#include "apps/common/output.h"
#include "apps/common/runs/reader_transport.h"
#include "apps/common/runs/run_folder.h"
#include "apps/common/transform_option.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_session.h"
#include "apps/exec/exec_steering.h"
#include "executor/rpc/token.h"
#include "executor/sync/sync.h"
#include "ptc/base/backoff.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;
using Step = std::shared_ptr<const ex::live::LiveStep>;

constexpr double kRest_s = 0.01;                      // the job's steps pass meanwhile
constexpr double kPatience_s = 5;                     // for a step, until it is asked for again
constexpr int kLate = 12;                             // so many times in vain are told
constexpr double kPause_s = 1, kLongestPause_s = 30;  // after a step that did not arrive

struct Request {
  std::string run, job, out, listen, launcher, after;
  ex::sync::SyncTarget target;
  std::vector<std::string> machines;  // by ssh; empty: here, or by the launcher
  bool no_workers = false;
  int64_t every = 0;  // steps; 0: one step only
  int64_t digest_bytes = 0;
  double orphan_timeout_s = 60;
  StateOptions state;
  bool json = false;
};

// "tp2,dp2@2", "tp2@node1,node2", "layout.textproto@4".
absl::Status read_target(const std::string& text, Request& request) {
  const size_t at = text.find('@');
  const std::string layout = text.substr(0, at), hosts = at == std::string::npos ? "1" : text.substr(at + 1);
  int ranks = 0;
  if (layout.ends_with(".textproto")) {
    SCALAI_ASSIGN_OR_RETURN(const std::string file, read_file(layout));
    SCALAI_ASSIGN_OR_RETURN(collection::CollectionFile parsed, collection::parse_collection(file, layout));
    ranks = parsed.collection.ranks();
    request.target.layout.collection = std::move(parsed.collection);
  } else {
    SCALAI_ASSIGN_OR_RETURN(request.target.layout.layout, collection::parse_layout(layout));
    ranks = request.target.layout.layout->world();
  }
  int count = 0;
  const auto [end, error] = std::from_chars(hosts.data(), hosts.data() + hosts.size(), count);
  if (error != std::errc() || end != hosts.data() + hosts.size()) {
    request.machines = absl::StrSplit(hosts, ',');
    count = static_cast<int>(request.machines.size());
    for (const std::string& name : request.machines) {
      if (name.empty() || name.starts_with('-')) return invalid(fmt::format("\"{}\" is not the name of a host", name));
    }
  }
  if (count < 1 || ranks % count != 0)
    return invalid(fmt::format("{} ranks do not fit on {} hosts evenly", ranks, count));
  request.target.gpus_of_host.assign(static_cast<size_t>(count), ranks / count);
  return absl::OkStatus();
}

absl::StatusOr<Request> read_request_of(const Arguments& arguments) {
  Request request{.run = arguments.positional().front(),
                  .job = arguments.text("job"),
                  .listen = arguments.text("listen"),
                  .launcher = arguments.text("launcher"),
                  .after = arguments.text("after"),
                  .no_workers = arguments.flag("no-workers"),
                  .every = arguments.has("every") ? arguments.count("every") : 0,
                  .digest_bytes = arguments.bytes("compare"),
                  .orphan_timeout_s = arguments.seconds("orphan-timeout"),
                  .json = arguments.text("format") == "json"};
  if (!arguments.has("out")) return invalid("--out=DIR is needed: readers find the receivers by it");
  request.out = absolute_path(arguments.text("out"));
  if (!arguments.has("to")) return invalid("--to=LAYOUT@HOSTS is needed, as tp2,dp2@2");
  if (const absl::Status read = read_target(arguments.text("to"), request); !read.ok())
    return invalid(fmt::format("--to={}: {}", arguments.text("to"), message_of(read)));
  if (arguments.has("dtype")) {
    SCALAI_ASSIGN_OR_RETURN(request.target.dtype, tensor::parse_dtype(arguments.text("dtype")));
  }
  request.target.transforms = arguments.texts("transform");
  request.target.folder = absolute_path(".");
  SCALAI_RETURN_IF_ERROR(parse_transforms(request.target.transforms).status());
  if (request.every < 0 || (arguments.has("every") && request.every == 0)) return invalid("--every is at least 1");
  if (request.digest_bytes != 0 && request.digest_bytes < 4096) return invalid("--compare is at least 4KiB, or 0");
  const int others =
      (request.no_workers ? 1 : 0) + (request.launcher.empty() ? 0 : 1) + (request.machines.empty() ? 0 : 1);
  if (others > 1) return invalid("names of hosts, --launcher and --no-workers exclude each other");
  request.state = {.backend = arguments.text("backend"),
                   .devices_per_gpu = static_cast<int>(arguments.count("devices-per-gpu")),
                   .memory_cap = arguments.has("memory") ? arguments.bytes("memory") : 0};
  if (request.state.devices_per_gpu < 1 || request.state.devices_per_gpu > 1024)
    return invalid("--devices-per-gpu is 1 to 1024");
  if (arguments.has("memory") && request.state.memory_cap == 0) return invalid("--memory is more than 0");
  if (request.listen.empty()) request.listen = others == 0 ? "127.0.0.1:0" : "0.0.0.0:0";
  return request;
}

void show(const Request& request, const ex::sync::Synced& synced) {
  if (request.json) {
    print("{}\n", json_text(nlohmann::json{{"step", synced.step},
                                           {"seconds", synced.seconds},
                                           {"state_bytes", synced.state_bytes},
                                           {"planned_bytes", synced.planned_bytes},
                                           {"least_bytes", synced.least_bytes},
                                           {"moved_bytes", synced.moved_bytes},
                                           {"read_bytes", synced.read_bytes},
                                           {"hottest_sender", synced.hottest_sender}}));
  } else {
    print("step {} after {}: {} of {} moved, {} {}out of the run{}\n", synced.step, format_seconds(synced.seconds),
          format_bytes(synced.moved_bytes), format_bytes(synced.planned_bytes), format_bytes(synced.read_bytes),
          request.target.transforms.empty() ? "of these " : "read ",
          synced.hottest_sender > 0 ? fmt::format(", hottest sender {:.2f} x mean", synced.hottest_sender) : "");
  }
  std::fflush(stdout);
}

// The steps of the training run, one after another, without waiting for them.
class Steps {
 public:
  // `address`: of the run's controller; another one there is another run.
  Steps(const RunFolder& folder, std::string address, ex::live::LiveRun& run, std::string job)
      : folder_(folder), address_(std::move(address)), run_(run), job_(std::move(job)) {}

  bool is_over() {
    if (const auto address = folder_.address(); !address.ok() || *address != address_) over_ = true;
    return over_;
  }
  // The first after `after_step`, when it is there; nothing until then.
  Step poll(int64_t after_step) {
    if (over_ || Clock::now() < not_before_) return nullptr;
    if (!asked_.valid())
      asked_ = std::async(std::launch::async, [this, after_step] { return run_.newest(job_, after_step); });
    if (asked_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return nullptr;
    absl::StatusOr<Step> step = asked_.get();
    if (step.ok()) return *std::move(step);
    if (!is_over() && (!absl::IsDeadlineExceeded(step.status()) || ++late_ % kLate == 0)) failed(step.status());
    return nullptr;
  }
  // Why no step will ever come; OK: not known.
  absl::Status hopeless() const {
    return absl::IsInvalidArgument(last_) || absl::IsNotFound(last_) || absl::IsUnauthenticated(last_) ||
                   absl::IsPermissionDenied(last_) || absl::IsFailedPrecondition(last_)
               ? last_
               : absl::OkStatus();
  }
  // Said once; the next attempt comes after a while.
  void failed(const absl::Status& why) {
    last_ = why;
    if (std::string text = message_of(why); text != said_) {
      say("scalai sync: warning: {}; tried again\n", text);
      said_ = std::move(text);
    }
    not_before_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(backoff_.next_s()));
  }
  void succeeded() {
    backoff_ = first_pause();
    said_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const RunFolder& folder_;
  const std::string address_;
  ex::live::LiveRun& run_;
  const std::string job_;
  absl::Status last_;
  int late_ = 0;
  std::future<absl::StatusOr<Step>> asked_;
  bool over_ = false;
  std::string said_;
  static Backoff first_pause() { return Backoff(kPause_s, kLongestPause_s, static_cast<uint64_t>(::getpid())); }
  Backoff backoff_ = first_pause();
  Clock::time_point not_before_;
};

// --after: one at a time; the next step waits for its end.
class Hook {
 public:
  explicit Hook(const Request& request) : request_(request) {}
  ~Hook() {
    if (running_) (void)running_->signal(SIGTERM);
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  void begin(int64_t step) {
    if (request_.after.empty()) return;
    absl::StatusOr<ex::rpc::Process> process =
        ex::rpc::Process::start({.binary = "/bin/sh",
                                 .arguments = {"sh", "-c", request_.after},
                                 .environment = {{"SCALAI_STEP", std::to_string(step)}, {"SCALAI_RUN", request_.out}},
                                 .log_file = request_.out + "/after.log"});
    if (process.ok()) {
      running_ = *std::move(process);
    } else {
      say("scalai sync: warning: --after: {}\n", message_of(process.status()));
    }
  }
  bool is_over() {
    if (!running_) return true;
    const std::optional<ex::rpc::ProcessEnd> end = running_->poll();
    if (!end) return false;
    if (!end->ok()) say("scalai sync: warning: --after: {}, see {}/after.log\n", end->str(), request_.out);
    running_.reset();
    return true;
  }

 private:
  const Request& request_;
  std::optional<ex::rpc::Process> running_;
};

bool is_lasting(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsResourceExhausted(status);
}

absl::Status push(const Request& request, Steps& steps, Step step, ex::sync::Sync& sync,
                  const std::atomic<bool>& stop) {
  Hook hook(request);
  int64_t first = -1, held = -1;
  bool told = false;
  while (!stop) {
    if (step != nullptr) {
      absl::StatusOr<ex::sync::Synced> synced = sync.bring(*step);
      step.reset();
      if (synced.ok()) {
        steps.succeeded();
        held = synced->step;
        if (first < 0 || held < first) first = held;  // a job that lost its state repeats steps
        show(request, *synced);
        hook.begin(held);
      } else if (is_lasting(synced.status()) && held < 0) {
        return synced.status();
      } else {
        steps.failed(synced.status());
      }
    }
    const bool due = !sync.is_whole() || request.every > 0;
    // Asked for before the rest, so that the job does not pass the step meanwhile.
    if (hook.is_over() && due && !steps.is_over())
      step = steps.poll(sync.is_whole() ? ex::sync::next_due(first, held, request.every) - 1 : -1);
    sync.rest(step == nullptr ? kRest_s : 0);
    if (steps.is_over() && !std::exchange(told, true)) {
      if (held < 0)
        return absl::NotFoundError(fmt::format("{}: the run is over, and no step has arrived", request.run));
      say("scalai sync: the run is over; receivers keep step {} until this is ended\n", held);
      if (const absl::Status parted = sync.part(); !parted.ok()) say("scalai sync: warning: {}\n", message_of(parted));
    }
  }
  return absl::OkStatus();
}

// Requests of readers, which may come before there are receivers, or when there are none any more.
class Door {
 public:
  absl::StatusOr<std::string> answer(const proto::CtlRequest& request) {
    const std::shared_lock inside(mutex_);
    return sync_ != nullptr ? sync_->answer(request) : absl::UnavailableError("there are no receivers now");
  }
  void open(ex::sync::Sync& sync) {
    const std::unique_lock alone(mutex_);
    sync_ = &sync;
  }
  void close() {
    sync_->end();  // whoever waits inside leaves
    const std::unique_lock alone(mutex_);
    sync_ = nullptr;
  }

 private:
  std::shared_mutex mutex_;
  ex::sync::Sync* sync_ = nullptr;
};

absl::Status serve(const Request& request, const ex::rpc::CtlTarget& target, const HowRun& how, Steps& steps,
                   Step first, const std::atomic<bool>& stop) {
  SCALAI_RETURN_IF_ERROR(ex::sync::plan_sync(*first, request.target).status());  // before anything is there
  const RunFolder folder(request.out);
  SCALAI_ASSIGN_OR_RETURN(ex::journal::JournalLock lock, folder.claim());
  StateOptions state = request.state;
  state.transport = how.state.transport == "shared-memory" ? "shared-memory" : "ucx";
  if (state.transport == "shared-memory" && !request.machines.empty())
    return invalid(
        fmt::format("{} keeps its state in memory that only its machine sees: receivers are here "
                    "(--to=LAYOUT@N)\nhint: scalai launch --transport=ucx",
                    request.run));
  const bool local = !request.no_workers && request.launcher.empty() && request.machines.empty();
  if (local) SCALAI_RETURN_IF_ERROR(check_here(state, request.target.gpus_of_host));
  const cluster::Cluster cluster = ex::sync::joint_cluster(first->state(), request.target.gpus_of_host);
  const int first_host = first->state().gpus_of_host_size();
  SCALAI_ASSIGN_OR_RETURN(const std::string run_id, ex::rpc::make_token());
  const auto stopped = [&stop] { return stop.load(); };
  Door door;
  SCALAI_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::start(cluster, {.server = {.bind_address = request.listen,
                                          .token = target.token,  // by which workers of both runs know each other
                                          .controller = {.run_id = run_id},
                                          .on_ctl = [&](const proto::CtlRequest& asked) { return door.answer(asked); }},
                               .log_folder = folder.workers(),
                               .local = local,
                               .launcher = request.launcher,
                               .token_file = folder.path() + "/token",
                               .state = state,
                               .orphan_timeout_s = request.orphan_timeout_s,
                               .stopped = stopped,
                               .first_host = first_host,
                               .by_ssh = request.machines}));
  SCALAI_ASSIGN_OR_RETURN(
      const ex::journal::Journal journal,
      folder.begin(std::move(lock), {.scenario_text = "", .scenario_digest = "", .strategy = "sync", .run_id = run_id},
                   {.local_workers = local, .launcher = request.launcher, .state = state, .synced = true}, target.token,
                   session->controller().address()));
  if (request.no_workers) {
    say("waiting for {} workers; on each host, with SCALAI_TOKEN from {}/token:\n"
        "  scalai exec worker --controller={} {}\n",
        request.target.gpus_of_host.size(), folder.path(), session->controller().address(),
        fmt::join(words_of(state), " "));
  }
  absl::Status done = session->pool().start();
  if (done.ok()) {
    ex::sync::Sync sync(cluster, session->controller(), session->pool(),
                        {.place = request.run, .target = request.target, .first_host = first_host, .stopped = stopped});
    door.open(sync);
    done = push(request, steps, std::move(first), sync, stop);
    door.close();
  }
  session->dismiss();
  folder.end();
  return stop ? absl::OkStatus() : done;
}

absl::Status run_sync(const Request& request, const std::atomic<bool>& stop) {
  const RunFolder training(request.run);
  SCALAI_ASSIGN_OR_RETURN(const ex::rpc::CtlTarget target, training.target());
  SCALAI_ASSIGN_OR_RETURN(const HowRun how, training.how());
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<ex::transport::PeerTransport> transport, reader_transport(how, target));
  ex::live::LiveRun run({.target = target,
                         .place = training.path(),
                         .digest_bytes = request.digest_bytes,
                         .patience_s = kPatience_s,
                         .transport = transport.get()});
  Steps steps(training, target.address, run, request.job);
  Step first;
  while (!stop && first == nullptr) {
    first = steps.poll(-1);
    if (steps.is_over()) return missing(fmt::format("{}: the run is over", request.run));
    SCALAI_RETURN_IF_ERROR(steps.hopeless());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return stop ? absl::OkStatus() : serve(request, target, how, steps, std::move(first), stop);
}

int sync_command(const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  std::atomic<bool> stop = false;
  const SignalWatch signals([&](int times) {
    if (times > 1) std::_Exit(128 + SIGTERM);
    stop = true;
  });
  const absl::StatusOr<Request> request = read_request_of(arguments);
  if (!request.ok()) return usage_error("sync", message_of(request.status()));
  const absl::Status done = run_sync(*request, stop);
  return done.ok() ? 0 : report_error(done);
}

std::vector<OptionSpec> receiver_options() {
  std::vector<OptionSpec> specs = state_option_specs();
  std::erase_if(specs, [](const OptionSpec& one) {
    return one.name != "backend" && one.name != "devices-per-gpu" && one.name != "memory";
  });
  return specs;
}

}  // namespace

Command exec_sync_command() {
  const std::vector<OptionSpec> own = {
      text_option(
          "to", "LAYOUT@HOSTS",
          "Layout of the receivers, as tp2,dp2, or a collection file (.textproto), and their hosts: a number, or "
          "names for ssh (tp2@node1,node2). Without @HOSTS one host."),
      text_option("out", "DIR", "Folder by which readers find the receivers, as that of a run; all hosts see it."),
      count_option("every", "N",
                   "Every N steps, as long as the run goes on: that step, or the first after it that is there; without "
                   "it one step."),
      text_option("job", "NAME", "Which job; needed when there are several."),
      text_option("dtype", "TYPE",
                  "Type of floating parameters at the receivers, as BF16; without it as they are trained."),
      transform_option(),
      bytes_option("compare", "SIZE",
                   "What has not changed since the last step does not travel: the run's workers compare pieces of this "
                   "size. 0: everything travels.",
                   "1MiB"),
      text_option("after", "COMMAND",
                  "Run by sh when a step has arrived, with SCALAI_STEP and SCALAI_RUN (--out) set."),
      flag_option("no-workers", "Start no receivers; wait until they join."),
      text_option("launcher", "COMMAND",
                  "Start the receivers by this command, one on each host: \"srun --ntasks-per-node=1\"."),
      text_option("listen", "HOST:PORT",
                  "Where receivers reach this program; port 0 is any free one. Default: 127.0.0.1:0, with other hosts "
                  "0.0.0.0:0."),
      seconds_option("orphan-timeout", "TIME", "How long receivers keep what they have when this program is gone.",
                     "60s"),
      choice_option("format", "FORMAT", "How each step is reported.", {"text", "json"}, "text")};
  return {
      {.name = "scalai-exec",
       .summary = "push the weights of a run that trains to receivers in another layout",
       .usage = "scalai sync RUN --to=LAYOUT@HOSTS --out=DIR [options]",
       .description =
           R"(RUN is the --out folder of a run of `scalai launch` or `scalai exec` that goes on. Receivers, one process a host, read its weights
out of its workers' memories and pass them on to each other; no checkpoint is written (docs/howto/live.md). All of them have a step, or
all stay at the one before. Who reads there finds them as a run: scalai fs mount m --run=DIR, scalai.live("DIR"). Ends by SIGTERM.)",
       .options = joined({own, receiver_options()}),
       .examples = {"scalai sync out/gpt --to=tp2@1 --out=out/serving --every=10",
                    "scalai sync out/gpt --to=dp1 --transform='scale(0.5, tensors=layers.*)' --out=out/serving",
                    "scalai sync out/gpt --to=tp4,dp2@node1,node2 --dtype=BF16 --out=/shared/serving --every=1",
                    "scalai fs mount m --run=out/serving"},
       .min_arguments = 1,
       .max_arguments = 1},
      sync_command};
}

}  // namespace scalai::apps
