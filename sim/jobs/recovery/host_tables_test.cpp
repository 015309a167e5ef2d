#include "sim/jobs/recovery/host_tables.h"

#include <unistd.h>

#include "gtest/gtest.h"
#include "ptc/base/file.h"

namespace scalai::jobs {
namespace {

class HostTables : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/host_tables_" + std::to_string(::getpid()) + ".csv";
    EXPECT_TRUE(write_file(path, text).ok());
    return path;
  }
};

TEST_F(HostTables, ThroughputBetweenAndBeyondRows) {
  const auto table = read_host_throughput(file("hosts,samples_per_s\n4,8\n2,5\n"), {}, HostsBeyond::kNearest);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ((*table)(1), 5);
  EXPECT_EQ((*table)(3), 5);
  EXPECT_EQ((*table)(4), 8);
  EXPECT_EQ((*table)(9), 8);
  const HostThroughput stops(table->rows(), HostsBeyond::kStop);
  EXPECT_EQ(stops(1), 0);
  EXPECT_EQ(stops(9), 8);
}

TEST_F(HostTables, RowsOfASystemAndModel) {
  const std::string path = file(
      "system,model,active_nodes,samples_per_s,idle_gpus\nvaruna,GPT-3-2.7b,2,7,\nvaruna,GPT-2,2,9,\n"
      "oobleck,GPT-3-2.7b,2,8,1\n");
  const auto table = read_host_throughput(path, {"oobleck", "GPT-3-2_7b"}, HostsBeyond::kNearest);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ((*table)(2), 8);
  EXPECT_TRUE(read_host_throughput(path, {"varuna", "GPT-2-ours"}, HostsBeyond::kNearest).ok());
  const auto none = read_host_throughput(path, {"bamboo", "GPT-2"}, HostsBeyond::kNearest);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().ToString().find("model GPT-2 of bamboo"), std::string::npos) << none.status().ToString();
  EXPECT_NE(none.status().ToString().find("varuna/GPT-2"), std::string::npos) << none.status().ToString();
}

TEST_F(HostTables, NamesWhatIsWrong) {
  const auto twice = read_host_throughput(file("hosts,samples_per_s\n2,1\n2,3\n4,x\n"), {}, HostsBeyond::kNearest);
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.status().ToString().find(":3: hosts: 2 hosts were there before"), std::string::npos)
      << twice.status().ToString();
  EXPECT_NE(twice.status().ToString().find(":4: samples_per_s"), std::string::npos) << twice.status().ToString();
  EXPECT_FALSE(read_host_throughput(file("a,b\n1,2\n"), {}, HostsBeyond::kNearest).ok());
  EXPECT_FALSE(read_host_throughput(file("hosts,samples_per_s\n"), {}, HostsBeyond::kNearest).ok());
  EXPECT_EQ(read_host_throughput("/no/such/file", {}, HostsBeyond::kNearest).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(HostTables, Costs) {
  const auto ours = read_host_costs(file("cost,seconds\nchange,20\ncheckpoint,1.5\n"), {});
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ(ours->change_s, 20);
  EXPECT_EQ(ours->checkpoint_s, 1.5);
  EXPECT_LT(ours->ready_s, 0);
  EXPECT_FALSE(read_host_costs(file("cost,seconds\nchanges,20\n"), {}).ok());
  const auto artifact = read_host_costs(
      file("system,model,samples_per_step,local_reconfig_s,checkpoint_s,checkpoint_every_iters,global_rendezvous_s\n"
           "varuna,BERT-large,8192,76,15.8,10,10\n"),
      {"varuna", "bert_large"});
  ASSERT_TRUE(artifact.ok()) << artifact.status().ToString();
  EXPECT_EQ(artifact->samples_per_step, 8192);
  EXPECT_EQ(artifact->change_s, 76);
  EXPECT_EQ(artifact->checkpoint_every_steps, 10);
}

TEST_F(HostTables, Layouts) {
  const std::string path = file("model,global_batch,dp,pp,samples_per_s\nbert,8,2,3,5.5\nvgg19,8,1,1,2\n");
  const auto layouts = read_layouts(path, "bert");
  ASSERT_TRUE(layouts.ok());
  EXPECT_EQ(*layouts, (std::map<PipelineLayout, double>{{{2, 3}, 5.5}}));
  EXPECT_FALSE(read_layouts(path, "gpt").ok());
  EXPECT_FALSE(read_layouts(file("model,dp,pp,samples_per_s\nbert,0,1,5\n"), "bert").ok());
}

TEST(ModelNames, AreMatchedLoosely) {
  EXPECT_EQ(plain_model_name("GPT-3-2_7b"), plain_model_name("gpt-3-2.7b"));
  EXPECT_EQ(plain_model_name("GPT-2-ours"), plain_model_name("GPT-2"));
  EXPECT_NE(plain_model_name("GPT-2"), plain_model_name("GPT-3"));
}

}  // namespace
}  // namespace scalai::jobs
