#pragma once
// A small run for the tests of the report, written by hand: two hosts with two GPUs each; job "gpt" grows from two GPUs
// to four, then loses a host; job "bert" only waits. Every number is chosen, so that tests can name what they expect.

#include "ptc/plan/plan_draft.h"
#include "ptc/report/report.h"

namespace scalai::report::testing {

inline cluster::Cluster example_cluster() {
  cluster::Cluster cluster;
  for (int host = 0; host < 2; ++host) {
    cluster.hosts.push_back({.first_device = 2 * host, .gpus = 2, .gpu = {.name = "a100-40gb"}});
  }
  return cluster;
}

inline plan::Plan example_plan(const plan::ClassBytes& bytes) {
  plan::PlanDraft plan;
  plan.planner = "reshard";
  plan.rounds = 2;
  plan.bytes = bytes;
  plan.lower_bound = bytes;
  plan.lower_bound_any_placement_cross_host = bytes.cross_host / 2;
  plan.survives_host_losses = 1;
  return plan::seal(std::move(plan));
}

// Keep it alive as long as the report made from it.
inline scenario::Scenario example_scenario() {
  scenario::Scenario scenario;
  scenario.name = "grow-then-lose";
  scenario.seed = 18446744073709551615U;
  scenario.cluster = example_cluster();
  scenario.jobs.resize(2);
  scenario.jobs[0].name = "gpt";
  scenario.jobs[1].name = "bert, large";
  scenario.resolved_text = "name: \"grow-then-lose\"\n";
  scenario.digest = "0123456789abcdef0123456789abcdef";
  return scenario;
}

inline control::JobRecord example_job(const std::vector<plan::Plan>& plans) {
  control::JobRecord job{.name = "gpt",
                         .state = "running",
                         .steps = 100,
                         .samples = 3200,
                         .wall_s = 100,
                         .training_s = 83,
                         .downtime_s = 20,
                         .downtime = {.reconfigurations_s = 12,
                                      .waiting_s = 3,
                                      .waits = {{.reason = "no layout fits 1 GPUs", .seconds = 3}},
                                      .run_again_s = 3,
                                      .cut_off_s = 0.5,
                                      .snapshots_s = 1.5},
                         .lost_steps = 3,
                         .goodput_samples_per_s = 32,
                         .gpu_hours = 0.1};
  job.reconfigurations.push_back({.index = 1,
                                  .at_s = 10,
                                  .resumed_s = 15,
                                  .cause = "resize to 4",
                                  .from = "dp2",
                                  .to = "tp2,dp2",
                                  .from_gpus = 2,
                                  .to_gpus = 4,
                                  .step = 10,
                                  .completed = true,
                                  .plan = plans[0],
                                  .phases = {.stop = 1, .restart = 3, .transfer = 1}});
  job.reconfigurations.push_back({.index = 2,
                                  .at_s = 50,
                                  .resumed_s = -1,
                                  .cause = "lost g2, g3",
                                  .from = "tp2,dp2",
                                  .to = "dp2",
                                  .from_gpus = 4,
                                  .to_gpus = 2,
                                  .step = 40,
                                  .rolled_back_steps = 3,
                                  .aborted_attempts = 1,
                                  .plan = plans[1],
                                  .plan_index = 1,
                                  .phases = {.detect = 15, .aborted = 0.5}});
  return job;
}

inline control::Recorder example_recorder() {
  using plan::Location;
  using plan::TransferClass;
  const Location g0 = Location::device(DeviceId(0)), g1 = Location::device(DeviceId(1));
  const Location g2 = Location::device(DeviceId(2)), memory = Location::host_memory(HostId(1));
  control::Recorder recorder;
  recorder.links = {{"h0.nic0.up", 1e9}, {"h1.nic0.down", 1e9}};
  recorder.transfers = {{0, 1, "transfer", 1, g0, g1, TransferClass::kSameHost, 1000, 14, 14.5, "done"},
                        {0, 1, "transfer", 1, g0, g2, TransferClass::kCrossHost, 5000, 14, 14.75, "done"},
                        {0, 0, "redundancy", 0, g0, memory, TransferClass::kCrossHost, 700, 14.5, 15, "done"},
                        {0, 2, "transfer", 1, g0, g2, TransferClass::kCrossHost, 9000, 70, 71, "aborted"},
                        {0, 2, "load", 0, g1, g1, TransferClass::kSameDevice, 40, 71, 71, "done"},
                        {0, 2, "load", 0, Location::storage(), g1, TransferClass::kFromStorage, 60, 71, 72, "done"}};
  recorder.link_samples = {{14, 0, 1e9}, {14, 1, 5e8}, {15, 0, 0}, {15, 1, 0}};
  return recorder;
}

inline control::RunReport example_report(const scenario::Scenario& scenario) {
  const std::vector<DeviceId> two = {DeviceId(0), DeviceId(1)};
  const std::vector<DeviceId> four = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  control::RunReport report;
  report.scenario = &scenario;
  report.strategy = "reshard";
  report.runtime = "sim";
  report.end_s = 100;
  report.plans = {example_plan({.kept = 10, .same_device = 20, .same_host = 1000, .cross_host = 5000}),
                  example_plan({.kept = 11, .cross_host = 9000, .from_storage = 60})};
  report.jobs = {example_job(report.plans),
                 {.name = "bert, large",
                  .state = "waiting",
                  .failure = "",
                  .wall_s = 100,
                  .downtime_s = 100,
                  .downtime = {.waiting_s = 100, .waits = {{.reason = "queued", .seconds = 100, .until_end = true}}}}};
  report.losses = {{.at_s = 50,
                    .noticed_s = 65,
                    .devices = {DeviceId(2), DeviceId(3)},
                    .effects = {{.job = 0, .outcome = "reconfigures", .reconfiguration = 2}}}};
  report.events = {{0, control::Started{}},
                   {10, control::StepReached{0, 10}},
                   {15, control::ExecutionDone{0, {.stop = 1, .restart = 3, .transfer = 1}}},
                   {65, control::DevicesLost{{DeviceId(2), DeviceId(3)}, 50}}};
  report.spans = {{0, "train", 0, 10, two},      {0, "stop", 10, 11, two},   {0, "restart", 11, 14, four},
                  {0, "transfer", 14, 15, four}, {0, "train", 15, 50, four}, {0, "detect", 50, 65, two},
                  {1, "waiting", 0, 100, {}}};
  report.memory = {{0, DeviceId(0), 600}, {14, DeviceId(0), 900}, {15, DeviceId(0), 300}, {15, DeviceId(2), 300}};
  report.recorder = example_recorder();
  return report;
}

}  // namespace scalai::report::testing
