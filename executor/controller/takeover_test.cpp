#include <gmock/gmock.h>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/testing/test_fleet.h"
#include "executor/journal/journal.h"
#include "ptc/base/testing/share.h"
#include "ptc/run/control/event_text.h"

namespace scalai::executor::controller {
namespace takeover_test {

using control::testing::job_text;
using control::testing::kSmallCluster;
using testing::digests;
using testing::Fleet;
using testing::Folder;

// A resize, a failure in mid-reconfiguration, a repair before another failure is known; checkpoints all along.
std::string eventful() {
  return std::string(kSmallCluster) +
         "until: \"90s\"\ncosts { restart: \"2s\" communicator: \"1s\" detect: \"3s\" }\n" +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,pp2,dp2\" "
                  "step_time: \"600ms\" } configs { layout: \"tp2\" step_time: \"2s\" } "
                  "checkpoint { every_steps: 20 host_memory_copy: true } dataset { samples: 37 }") +
         "events { at: \"10s\" resize { gpus: 8 } }\n"
         "events { at: \"30s\" redeploy { devices: [4, 5, 6, 7] } }\n"
         "events { during { reconfiguration: 2 after_round: 0 } fail { hosts: [2] } }\n"
         "events { at: \"50s\" repair { hosts: [2] } }\n"
         "events { at: \"60s\" fail { hosts: [3] } }\n"
         "events { at: \"61s\" repair { hosts: [3] } }\n"
         "events { at: \"75s\" resize { gpus: 8 } }\n";
}

// The controller dies around its n-th record: before it is written, or right after.
class MortalLog : public RunLog {
 public:
  MortalLog(journal::Journal& journal, int nth, bool after) : log_(log_to(journal)), left_(nth), after_(after) {}
  absl::Status event(const control::Event& event) override {
    return mortal([&] { return log_->event(event); });
  }
  absl::Status execute(const control::Execute& execute) override {
    return mortal([&] { return log_->execute(execute); });
  }
  absl::Status round(int job, int round) override {
    return mortal([&] { return log_->round(job, round); });
  }
  absl::StatusOr<int> last_round(int job) const override { return log_->last_round(job); }
  absl::Status abort(int job) override {
    return mortal([&] { return log_->abort(job); });
  }
  absl::Status commit(const control::Commit& commit) override {
    return mortal([&] { return log_->commit(commit); });
  }
  absl::Status freed(int job) override {
    return mortal([&] { return log_->freed(job); });
  }
  bool died() const { return died_; }

 private:
  template <class Write>
  absl::Status mortal(Write write) {
    const bool dies = --left_ == 0;
    died_ = died_ || dies;
    if (dies && !after_) return absl::AbortedError("died");
    SCALAI_RETURN_IF_ERROR(write());
    return dies ? absl::AbortedError("died") : absl::OkStatus();
  }

  const std::unique_ptr<RunLog> log_;
  int left_;
  const bool after_;
  bool died_ = false;
};

struct Lives {
  absl::StatusOr<control::RunReport> report = absl::UnknownError("did not run");
  bool died = false;
  std::string take_ups;  // the trainers' table
};

class Resume : public ::testing::Test {
 protected:
  explicit Resume(const std::string& text = eventful()) : scenario_(control::testing::scenario_of(text).value()) {}

  virtual std::map<int, trainers::TrainerProgram> programs(const Folder&) const { return {}; }

  absl::StatusOr<control::RunReport> run(Fleet& fleet, WorkerPool& pool, ExecOptions options) {
    control::Recorder recorder;
    ExecRuntime runtime(scenario_, fleet.controller(), pool, recorder, std::move(options));
    return control::run(scenario_, scenario::find_strategy("reshard", scenario_.costs).value(), runtime,
                        {.reads_samples = true});
  }

  // Dies around the n-th record, and goes on.
  Lives run_twice(int nth, bool after, int dead_host = -1) {
    const Folder folder;
    journal::Journal journal = journal::Journal::create(folder.path() + "/journal.db", {.run_id = "test"}).value();
    Fleet fleet({.hosts = static_cast<int32_t>(scenario_.cluster.hosts.size())});
    MortalLog mortal(journal, nth, after);
    Lives result;
    {
      WorkerPool pool(scenario_.cluster, fleet.controller(), fleet.pool_options());
      EXPECT_TRUE(pool.start().ok());
      result.report = run(fleet, pool, {.folder = folder.path(), .log = &mortal, .programs = programs(folder)});
    }
    result.died = mortal.died();
    if (!result.died) return result;
    EXPECT_FALSE(result.report.ok());
    fleet.replace_controller();
    if (dead_host >= 0) {
      EXPECT_TRUE(fleet.kill(HostId(dead_host)).ok());
    }
    WorkerPool pool(scenario_.cluster, fleet.controller(), fleet.pool_options());
    const std::unique_ptr<RunLog> log = log_to(journal);
    result.report = run(fleet, pool,
                        {.folder = folder.path(),
                         .log = log.get(),
                         .programs = programs(folder),
                         .resume = true,
                         .past = control::parse_event_lines(journal.events().value()).value(),
                         .rejoin_s = dead_host >= 0 ? 0.2 : 10.0});
    result.take_ups = read_file(folder.path() + "/logs/take_ups.csv").value_or("");
    const std::vector<journal::Transaction> transactions = journal.transactions().value();
    const bool under_way = result.report.ok() && result.report->jobs[0].state == "reconfiguring";
    for (const journal::Transaction& one : transactions) {
      EXPECT_TRUE(one.state == journal::TransactionState::kFreed || one.state == journal::TransactionState::kAborted ||
                  (under_way && one.id == transactions.back().id))
          << one.id;
    }
    return result;
  }

  // A dataset, if there is one, has been read exactly once, by both controllers together.
  static void expect_the_same_reading(const control::RunReport& resumed, const control::RunReport& whole) {
    const std::optional<control::DatasetRecord>& one = resumed.jobs[0].dataset;
    ASSERT_EQ(one.has_value(), whole.jobs[0].dataset.has_value());
    if (!one.has_value()) return;
    EXPECT_EQ(one->exactly_once, true);
    EXPECT_EQ(one->samples_read, whole.jobs[0].dataset->samples_read);
    EXPECT_EQ(one->samples_again, whole.jobs[0].dataset->samples_again);
  }

  // Every `stride`-th record, before and after it in turn.
  void expect_the_same_plans_wherever_it_dies(int stride, size_t plans) {
    const Lives whole = run_twice(0, false);
    ASSERT_TRUE(whole.report.ok()) << whole.report.status();
    const std::vector<std::string> expected = digests(*whole.report);
    ASSERT_GE(expected.size(), plans);
    int deaths = 0;
    for (int nth = 1;; nth += stride) {
      SCOPED_TRACE(::testing::Message() << "died around record " << nth);
      const Lives resumed = run_twice(nth, nth % 2 == 0);
      if (!resumed.died) break;
      ++deaths;
      ASSERT_TRUE(resumed.report.ok()) << resumed.report.status();
      EXPECT_EQ(digests(*resumed.report), expected);
      EXPECT_EQ(resumed.report->jobs[0].state, "running") << resumed.report->jobs[0].failure;
      EXPECT_EQ(resumed.report->jobs[0].steps, whole.report->jobs[0].steps);
      expect_the_same_reading(*resumed.report, *whole.report);
    }
    EXPECT_GE(deaths, soaking() ? 8 : 4);
  }

  const scenario::Scenario scenario_;
};

TEST_F(Resume, MakesTheSamePlansWhereverTheControllerDies) {
  expect_the_same_plans_wherever_it_dies(soaking() ? 1 : 9, 5);
}

// A worker dies with the controller. Workers may be ahead of the last step that was written down.
class WithAWorkerResume : public Resume {
 protected:
  WithAWorkerResume()
      : Resume(std::string(kSmallCluster) + "until: \"90s\"\ncosts { restart: \"2s\" }\n" +
               job_text("a",
                        "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" "
                        "step_time: \"2s\" } checkpoint { every_steps: 12 host_memory_copy: true }") +
               "events { at: \"20s\" resize { gpus: 2 } }\n"
               "events { at: \"50s\" resize { gpus: 4 } }\n") {}
};

TEST_F(WithAWorkerResume, WhatWorkersHoldIsBroughtToOneStep) {
  int deaths = 0;
  for (int nth = 1;; nth += soaking() ? 1 : 4) {
    SCOPED_TRACE(::testing::Message() << "died before record " << nth);
    const Lives resumed = run_twice(nth, false, 1);
    if (!resumed.died) break;
    ++deaths;
    EXPECT_TRUE(resumed.report.ok()) << resumed.report.status();
  }
  EXPECT_GT(deaths, soaking() ? 10 : 3);
}

// Rounds that have given up old state are gone on with.
class CappedResume : public Resume {
 protected:
  CappedResume()
      : Resume(std::string(kSmallCluster) +
               "until: \"30s\"\ncosts { restart: \"2s\" }\nplanner { memory_cap: \"60kB\" }\n" +
               job_text("a",
                        "gpus: 4 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
                        "\"1s\" } checkpoint { every_steps: 20 }") +
               "events { at: \"10s\" resize { gpus: 2 } }\n") {}
};

// Real training goes on without its controller, to where that one had sent it.
class TrainedResume : public Resume {
 protected:
  TrainedResume()
      : TrainedResume("gpus: 2 checkpoint { every_steps: 10 }",
                      "events { at: \"12s\" resize { gpus: 4 } }\n"
                      "events { at: \"25s\" resize { gpus: 2 } }\n") {}
  TrainedResume(const std::string& job, const std::string& events)
      : Resume(std::string(kSmallCluster) + "until: \"41s\"\ncosts { restart: \"1s\" }\n" +
               job_text("a",
                        "configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp2,dp2\" step_time: "
                        "\"1s\" } " +
                            job) +
               events) {}
  std::map<int, trainers::TrainerProgram> programs(const Folder& folder) const override {
    return {{0, {.command = TRAINER_PROGRAM, .folder = folder.path(), .logs = folder.path() + "/logs"}}};
  }
};

TEST_F(TrainedResume, GoesOnWhereTheTrainersStand) { expect_the_same_plans_wherever_it_dies(soaking() ? 1 : 2, 2); }

// Nothing is written down before the resize, and the trainers stand at it.
class UnwrittenResume : public TrainedResume {
 protected:
  UnwrittenResume() : TrainedResume("gpus: 2", "events { at: \"12s\" resize { gpus: 4 } }\n") {}
};

TEST_F(UnwrittenResume, NoStepIsTrainedTwice) {
  const Lives resumed = run_twice(1, false);
  ASSERT_TRUE(resumed.died);
  ASSERT_TRUE(resumed.report.ok()) << resumed.report.status();
  EXPECT_EQ(resumed.report->jobs[0].steps, run_twice(0, false).report->jobs[0].steps);
  EXPECT_THAT(resumed.take_ups, ::testing::ContainsRegex("^[^\n]*\n0,\"tp2\"[^\n]*\n12,\"tp2,dp2\"[^\n]*\n$"));
}

// What is left of a lost host's job, of which no checkpoint was made, is the state that the others hold.
class BereftResume : public TrainedResume {
 protected:
  BereftResume() : TrainedResume("gpus: 4", "events { at: \"15s\" fail { hosts: [1] } }\n") {}
};

TEST_F(BereftResume, GoesOnWithTheReplicas) { expect_the_same_plans_wherever_it_dies(1, 1); }

TEST_F(CappedResume, GoesOnWithTheRoundThatHadBegun) { expect_the_same_plans_wherever_it_dies(soaking() ? 1 : 3, 1); }

}  // namespace takeover_test
}  // namespace scalai::executor::controller
