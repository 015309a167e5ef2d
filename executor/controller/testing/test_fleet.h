#pragma once
// For tests: the workers of a run as threads of this process, over FakeNetwork, and whole runs of scenarios on them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/controller/exec_runtime.h"
#include "executor/rpc/testing/fake_network.h"
#include "executor/transport/loopback_transport.h"
#include "executor/worker/worker.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/run/control/run.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::executor::controller::testing {

inline constexpr const char* kToken = "0123456789abcdef-test";

// The worker of a host dies around the n-th command of a name, counted over all workers that the host has had.
struct Death {
  int32_t host = 0;
  std::string what;
  int nth = 1;
  bool after = false;   // the command was run, its reply is lost
  int32_t victim = -1;  // another host's worker dies instead; this one runs the command when that is known
  bool late = false;    // … or before it is
};

// Stands between the controller and a worker: true = the command is answered without being run.
using Swallow = std::function<bool(int32_t host, const std::string& what)>;
// Spoils the reply to the n-th command of a name, counted as for Death.
using Spoil = std::function<void(int32_t host, const std::string& what, int nth, std::string& body)>;

// All functions from the thread of the test.
class Fleet {
 public:
  struct Options {
    int32_t hosts = 4;
    int32_t first_host = 0;
    std::vector<Death> deaths;
    Swallow swallow;
    Spoil spoil{};
    // So often workers that are asked for a checkpoint's files give this reply instead: not yet.
    int busy = 0;
    std::string busy_reply{};
    bool network = false;  // state moves through transports only
    // Of each worker; without it devices in the host's memory.
    std::function<std::shared_ptr<device::Backend>()> backend{};
    transport::LoopbackNetwork* loopback = nullptr;  // of another fleet, whose workers these reach
    int dead_at_start = -1;                          // host whose worker dies after all have joined, before the run
  };
  explicit Fleet(Options options) : options_(std::move(options)), busy_(options_.busy) {
    controller_ = network_.start({.hosts = options_.hosts, .first_host = options_.first_host}, kToken).value();
  }
  ~Fleet() {
    if (later_.valid()) later_.wait();
    controller_->dismiss("the test is over", 10);
    members_.clear();
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  rpc::ControllerEnd& controller() { return *controller_; }
  transport::LoopbackNetwork& loopback() { return loopback_; }
  // The controller dies; workers join the next one.
  void replace_controller() {
    controller_.reset();
    controller_ = network_.start({.epoch = ++epoch_, .hosts = options_.hosts}, kToken).value();
  }
  int deaths() const { return deaths_; }  // that nobody asked for
  WorkerPoolOptions pool_options() {
    return {.force_network = options_.network,
            .deadline_s = 60,
            .join_s = 30,
            .first_host = options_.first_host,
            .start_worker = [this](HostId host) { return start(host); },
            .kill_worker = [this](HostId host) { return kill(host); }};
  }

  absl::Status start(HostId host) {
    auto member = std::make_unique<Member>();
    Member* one = member.get();
    take(host);
    one->transport = std::make_unique<transport::LoopbackTransport>(
        options_.loopback != nullptr ? *options_.loopback : loopback_,
        [one](std::string_view request) { return one->worker->places().answer(request); });
    one->worker = std::make_unique<worker::Worker>(
        worker::Worker::Options{.host = host,
                                .segments = {.capacity = int64_t{1} << 30},
                                .backend = options_.backend ? options_.backend() : nullptr,
                                .transport = one->transport.get()});
    rpc::WorkerOptions options{.token = kToken};
    options.host = static_cast<int32_t>(host.value);
    options.log = [](const std::string&) {};
    options.introduce = [one](proto::Hello& hello) {
      rpc::fill_hello(hello, one->transport->address(), one->dead);
      one->worker->introduce(hello);
    };
    SCALAI_ASSIGN_OR_RETURN(one->end, network_.connect(std::move(options)));
    one->thread = std::thread([this, one, host] {
      (void)one->end->run(
          [&](const rpc::Command& command) { return handle(*one, static_cast<int32_t>(host.value), command); });
    });
    const std::lock_guard lock(mutex_);
    members_[host.value] = std::move(member);
    return absl::OkStatus();
  }

  void begin() {
    if (options_.dead_at_start >= 0) (void)kill(HostId(options_.dead_at_start));
  }

  absl::Status kill(HostId host) {
    const std::unique_ptr<Member> member = take(host);
    die(*member, static_cast<int32_t>(host.value));
    return absl::OkStatus();
  }

 private:
  struct Member {
    std::unique_ptr<transport::LoopbackTransport> transport;
    std::unique_ptr<worker::Worker> worker;
    std::unique_ptr<rpc::WorkerEnd> end;
    std::atomic<bool> dead = false;
    std::thread thread;
    ~Member() {
      if (end != nullptr) end->stop("the test is over");
      if (thread.joinable()) thread.join();
      transport->close();
    }
  };

  // Null: none was started.
  std::unique_ptr<Member> take(HostId host) {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(host.value);
    if (found == members_.end()) return nullptr;
    std::unique_ptr<Member> member = std::move(found->second);
    members_.erase(found);
    return member;
  }

  // On the worker's thread.
  rpc::Reply handle(Member& member, int32_t host, const rpc::Command& command) {
    const int nth = [&] {
      const std::lock_guard lock(mutex_);
      return ++seen_[{host, command.what}];
    }();
    const auto dies = [&](bool after) -> const Death* {
      for (const Death& death : options_.deaths) {
        if (death.host == host && death.what == command.what && death.nth == nth && death.after == after) return &death;
      }
      return nullptr;
    };
    if (const Death* death = dies(false)) {
      ++deaths_;
      if (death->victim < 0) {
        die(member, host);
        return {};
      }
      {
        const std::lock_guard lock(mutex_);
        die(*members_.at(death->victim), death->victim, death->late);
      }
      if (!death->late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    rpc::Reply reply;
    if (command.what == "written" && busy_-- > 0) {
      reply.body = options_.busy_reply;
      return reply;
    }
    if (!options_.swallow || !options_.swallow(host, command.what)) reply = member.worker->handle(command);
    if (options_.spoil) options_.spoil(host, command.what, nth, reply.body);
    if (dies(true) != nullptr) {
      ++deaths_;
      die(member, host);
    }
    return reply;
  }
  void die(Member& member, int32_t host, bool late = false) {
    member.dead = true;
    loopback_.kill(member.transport->address());
    if (late) {
      later_ = std::async(std::launch::async, [this, host] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        controller_->cut(host, "killed by the test");
      });
    } else {
      controller_->cut(host, "killed by the test");
    }
  }

  const Options options_;
  std::atomic<int> busy_;
  rpc::FakeNetwork network_;
  transport::LoopbackNetwork loopback_;
  std::unique_ptr<rpc::ControllerEnd> controller_;
  std::atomic<int> deaths_ = 0;
  std::mutex mutex_;  // guards seen_, members_
  std::map<std::pair<int32_t, std::string>, int> seen_;
  int64_t epoch_ = 1;
  std::map<int64_t, std::unique_ptr<Member>> members_;
  std::future<void> later_;
};

// A folder for a run.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-runtime-XXXXXX").string();
    SCALAI_CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Ran {
  absl::StatusOr<control::RunReport> report = absl::UnknownError("did not run");
  int64_t bytes_verified = 0;
  int deaths = 0;
};

// A whole run. The scenario outlives the report.
inline Ran execute(const scenario::Scenario& scenario, const std::string& strategy, const std::string& folder,
                   Fleet::Options fleet_options = {}, ExecOptions options = {}) {
  fleet_options.hosts = static_cast<int32_t>(scenario.cluster.hosts.size());
  Fleet fleet(std::move(fleet_options));
  WorkerPool pool(scenario.cluster, fleet.controller(), fleet.pool_options());
  const absl::Status started = pool.start();
  fleet.begin();
  Ran ran;
  if (!started.ok()) {
    ran.report = started;
    return ran;
  }
  control::Recorder recorder;
  options.folder = folder;
  const scenario::Strategy how = scenario::find_strategy(strategy, scenario.costs).value();
  options.stores = how.costs.stores;
  ExecRuntime runtime(scenario, fleet.controller(), pool, recorder, std::move(options));
  ran.report = control::run(scenario, how, runtime, {.check_plans = true, .reads_samples = true});
  if (ran.report.ok()) {
    ran.report->runtime = "exec";
    ran.report->recorder = std::move(recorder);
  }
  ran.bytes_verified = runtime.bytes_verified();
  ran.deaths = fleet.deaths();
  return ran;
}

inline std::vector<std::string> digests(const control::RunReport& report) {
  std::vector<std::string> list;
  for (const plan::Plan& plan : report.plans) list.push_back(plan.digest());
  return list;
}

// When each event was, and of what kind: what two runs of one scenario have in common.
inline std::vector<std::pair<double, size_t>> event_times(const control::RunReport& report) {
  std::vector<std::pair<double, size_t>> list;
  for (const control::Event& event : report.events) list.emplace_back(event.at_s, event.body.index());
  return list;
}

// The written report leads the control loop to the same plans.
inline void expect_replayable(const control::RunReport& report, const std::string& folder) {
  const absl::Status written = report::write_report(report, {}, folder);
  ASSERT_TRUE(written.ok()) << written;
  ASSERT_TRUE(write_file(folder + "/tiny.json", control::testing::kTinyModel).ok());
  const auto plans = control::replay(folder);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->size(), report.plans.size());
  for (const control::ReplayedPlan& plan : *plans) EXPECT_EQ(plan.recorded, plan.replayed) << plan.number;
}

}  // namespace scalai::executor::controller::testing
