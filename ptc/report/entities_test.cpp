#include "ptc/report/entities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::report {
namespace entities_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

policy::Placement on(int gpus) { return {.type = policy::GpuType(0), .hosts = {{HostId(0), gpus}}}; }

// Two jobs of a (one finished after 3,600 s, one not at all), one of b.
struct Example {
  Example() {
    for (const char* entity : {"b", "a", "a"}) {
      policy::Job job;
      job.name = std::to_string(workload.jobs.size());
      job.entity = entity;
      job.submit_s = 100;
      workload.jobs.push_back(job);
      outcome.jobs.push_back({.job = policy::JobId(std::ssize(outcome.jobs))});
    }
    outcome.end_s = 7200;
    policy::JobRecord& done = outcome.jobs[1];
    done.end = policy::JobEnd::kFinished;
    done.first_start_s = 400;
    done.finish_s = 3700;
    done.isolated_s = 1800;
    done.preemptions = 2;
    done.attained_gpu_s = 2 * 3600;
    outcome.jobs[2].attained_gpu_s = 4 * 7200;
  }
  // a has 6 GPUs for an hour, then 4 for another; b shares the GPUs of one of them.
  void play(Entities& entities) const {
    entities.placed(0, policy::JobId(1), on(2), policy::JobId());
    entities.placed(0, policy::JobId(2), on(4), policy::JobId());
    entities.placed(0, policy::JobId(0), on(4), policy::JobId(2));
    entities.placed(3600, policy::JobId(1), {}, policy::JobId());
  }
  policy::Workload workload;
  policy::Outcome outcome;
};

TEST(Entities, RowsByHand) {
  const Example example;
  Entities entities(example.workload, {{"b", 2}, {"a", 3}}, {0, 1, 1});
  example.play(entities);
  const auto rows = entities.rows(example.outcome);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].entity, "b");
  EXPECT_EQ(rows[0].gpu_h, 0);
  EXPECT_EQ(rows[1].jobs, 2);
  EXPECT_EQ(rows[1].finished, 1);
  EXPECT_EQ(rows[1].unfinished, 1);
  EXPECT_EQ(rows[1].avg_jct_s, 3600);
  EXPECT_EQ(rows[1].avg_queueing_s, 300);
  EXPECT_EQ(rows[1].avg_ftf, 2);
  EXPECT_EQ(rows[1].gpu_h, 6 + 4);
  EXPECT_EQ(rows[1].borrowed_gpu_h, 3 + 1) << "beyond three GPUs";
  EXPECT_EQ(entities_csv(rows),
            "entity,quota_gpus,jobs,finished,refused,unfinished,avg_jct_s,p99_jct_s,avg_queueing_s,avg_ftf,preemptions,"
            "gpu_h,borrowed_gpu_h\nb,2,1,0,0,1,,,,,0,0,0\na,3,2,1,0,1,3600,3600,300,2,2,10,4\n");
  EXPECT_THAT(entities_table(rows), HasSubstr("borrowed GPU-h"));
}

TEST(Entities, WithoutQuotasTheyAreThoseOfTheJobs) {
  Example example;
  Entities entities(example.workload, {}, {});
  example.play(entities);
  example.outcome.window = policy::Window{.from_job = 0, .to_job = 2};
  const auto rows = entities.rows(example.outcome);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].entity, "a");
  EXPECT_EQ(rows[0].quota_gpus, std::nullopt);
  EXPECT_EQ(rows[0].jobs, 1) << "the other one is not in the window";
  EXPECT_EQ(rows[0].gpu_h, 10);
  EXPECT_EQ(rows[0].borrowed_gpu_h, 0);
  for (policy::Job& job : example.workload.jobs) job.entity.clear();
  EXPECT_THAT(Entities(example.workload, {}, {}).rows(example.outcome), IsEmpty());
}

}  // namespace entities_test
}  // namespace scalai::report
