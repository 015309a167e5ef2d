// A job's dataset through `scalai exec`: every sample exactly once in committed history, whatever happens to the job;
// and the checkpoints that such a run leaves and takes up.

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void append(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

class ExecDataset : public Exec {
 protected:
  nlohmann::json job(const std::string& report) const { return nlohmann::json::parse(summary(report)).at("jobs")[0]; }

  // dp 4 → 6 → 1 in batches of 50 and passes of 333; a loss with replicas, and one without.
  std::string scenario(const std::string& dataset) const {
    const std::string file = path("data.textproto");
    write_all(file, R"(schema_version: 1
name: "data"
cluster { name: "three" hosts { count: 3 gpus: 3 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 50 gpus: 4 steps: 40 checkpoint { every_steps: 6 }
       configs { layout: "dp4" step_time: "1s" } configs { layout: "dp6" step_time: "1s" }
       configs { layout: "dp1" step_time: "1s" } dataset { )" +
                        dataset + R"( } }
events { at_step { step: 4 } resize { gpus: 6 } }
events { at_step { step: 9 } fail { hosts: [0] } }
events { at_step { step: 15 } resize { gpus: 1 } }
events { at_step { step: 20 } repair { hosts: [0] } }
events { at_step { step: 22 } fail { hosts: [1, 2] } }
)");
    return file;
  }

  // Documents of 1 to 40 tokens, as Megatron lays them out.
  int64_t write_megatron(const std::string& name) const {
    std::string bin, lengths, pointers, documents;
    constexpr int kDocuments = 200;
    int64_t tokens = 0;
    for (int i = 0; i < kDocuments; ++i) {
      const int length = 1 + i * 7 % 40;
      append(lengths, static_cast<uint64_t>(length), 4);
      append(pointers, static_cast<uint64_t>(2 * tokens), 8);
      append(documents, static_cast<uint64_t>(i), 8);
      for (int token = 0; token < length; ++token) append(bin, static_cast<uint64_t>(tokens + token), 2);
      tokens += length;
    }
    append(documents, kDocuments, 8);
    std::string idx("MMIDIDX\0\0", 9);
    append(idx, 1, 8);
    append(idx, 8, 1);  // uint16
    append(idx, kDocuments, 8);
    append(idx, kDocuments + 1, 8);
    write_all(path(name + ".idx"), idx + lengths + pointers + documents);
    write_all(path(name + ".bin"), bin);
    return tokens;
  }
};

TEST_F(ExecDataset, ExactlyOnceThroughResizesAndFailures) {
  const Outcome run = exec(scenario("samples: 333 seed: 5"), "--scale-model=1/16");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json job = this->job("exec");
  const nlohmann::json& dataset = job.at("dataset");
  EXPECT_EQ(job.at("state"), "complete");
  EXPECT_EQ(job.at("samples"), 5 * 333 + 5 * 50);  // seven steps a pass
  EXPECT_EQ(dataset.at("exactly_once"), true);
  EXPECT_EQ(dataset.at("pass"), 5);
  EXPECT_EQ(dataset.at("consumed"), 250);
  EXPECT_EQ(dataset.at("steps_read_again"), 4);  // 18 to 21: the last checkpoint is of step 18
  EXPECT_EQ(dataset.at("steps_read_again"), job.at("lost_steps"));
  EXPECT_EQ(dataset.at("samples_read_again"), 3 * 50 + 33);
  EXPECT_EQ(dataset.at("samples_read"), 5 * 333 + 5 * 50 + 3 * 50 + 33);
  EXPECT_EQ(dataset.at("bytes_read"), 0);
  EXPECT_THAT(run.out, HasSubstr("4 steps (183 samples) read again after rollbacks; exactly once"));
  EXPECT_THAT(read_all(path("exec/events.csv")), HasSubstr(",samples_read,0,"));
  expect_replayable();

  const Outcome simulated =
      scalai(fmt::format("sim '{}' --scale-model=1/16 --out='{}'", path("data.textproto"), path("sim")));
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const nlohmann::json counted = this->job("sim").at("dataset");
  for (const char* key : {"samples", "pass", "consumed", "steps_read_again", "samples_read_again"})
    EXPECT_EQ(counted.at(key), dataset.at(key)) << key;
  EXPECT_TRUE(counted.at("samples_read").is_null());
  EXPECT_TRUE(counted.at("exactly_once").is_null());
  EXPECT_THAT(simulated.out, HasSubstr("nothing was read in this run"));
}

TEST_F(ExecDataset, TheScenarioOfTheCollection) {
  const Outcome run = exec(scenario_file("dataset-gpt2"), "--scale-model=1/32");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(job("exec").at("dataset").at("exactly_once"), true);
  EXPECT_EQ(job("exec").at("dataset").at("samples_read"), 20914 + 500);
}

TEST_F(ExecDataset, WindowsOfRealTokens) {
  const int64_t tokens = write_megatron("corpus");
  const Outcome indexed =
      scalai(fmt::format("data index --kind=megatron '{}' --out='{}'", path("corpus.bin"), path("corpus.index")));
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  const std::string file = scenario("index: \"corpus.index\" sequence: 16");
  const Outcome run = exec(file, "--scale-model=1/16");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json dataset = job("exec").at("dataset");
  EXPECT_EQ(dataset.at("samples"), (tokens - 1) / 16);
  EXPECT_EQ(dataset.at("exactly_once"), true);
  EXPECT_EQ(dataset.at("bytes_read"), 17 * 2 * dataset.at("samples_read").get<int64_t>());
  expect_replayable();  // without the index

  // Data that is not what was indexed any more stops the run; workers keep their state until it is mended.
  fs::remove_all(path("exec"));
  fs::rename(path("corpus.bin"), path("indexed.bin"));
  write_all(path("corpus.bin"), read_all(path("indexed.bin")) + "xx");
  const Outcome changed = exec(file, "--scale-model=1/16");
  EXPECT_EQ(changed.code, 3) << changed.err;
  EXPECT_THAT(changed.err, HasSubstr("corpus.bin"));
  EXPECT_THAT(changed.err, HasSubstr("scalai exec --resume=" + path("exec")));
  fs::rename(path("indexed.bin"), path("corpus.bin"));
  const Outcome mended = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(mended.code, 0) << mended.err;
  fs::remove(path("corpus.index"));
  fs::remove_all(path("exec"));
  const Outcome missing = exec(file, "--scale-model=1/16");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("data.textproto:"));
}

TEST_F(ExecDataset, AnotherControllerGoesOnReading) {
  const std::string file = path("live.textproto");
  write_megatron("corpus");
  ASSERT_EQ(
      scalai(fmt::format("data index --kind=megatron '{}' --out='{}'", path("corpus.bin"), path("corpus.index"))).code,
      0);
  write_all(file, read_all(replicated_scenario()));
  std::string text = read_all(file);
  text.replace(text.find("gpus: 4 checkpoint"), 7, "gpus: 4 dataset { index: \"corpus.index\" }");
  write_all(file, text);
  Outcome run;
  std::thread controller([&] { run = exec(file, "--scale-model=1/16 --time-scale=50ms"); });
  EXPECT_TRUE(eventually([&] { return fs::exists(path("exec/checkpoints/a/step_00000020")); }));
  const pid_t pid = this->controller();
  if (pid > 0) kill(pid, SIGKILL);
  controller.join();
  EXPECT_NE(run.code, 0);
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const nlohmann::json job = this->job("exec");
  EXPECT_EQ(job.at("dataset").at("exactly_once"), true);
  EXPECT_EQ(job.at("dataset").at("samples_read"),
            job.at("samples").get<int64_t>() + job.at("dataset").at("samples_read_again").get<int64_t>());
  EXPECT_GT(job.at("dataset").at("bytes_read"), 0);
  expect_replayable();
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

// What a run leaves describes itself, so it can be cut anew, and a run can begin with what comes of that.
TEST_F(ExecDataset, ACheckpointIsReshardedAndTakenUpAgain) {
  const Outcome run = exec(scenario("samples: 333"), "--scale-model=1/16");
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string checkpoint = path("exec/checkpoints/a/step_00000036");
  ASSERT_TRUE(fs::exists(checkpoint + "/model.textproto")) << run.err;
  fs::rename(checkpoint, path("saved"));
  for (const char* layout : {"tp2,pp1", "hf --drop=optimizer"}) {
    SCOPED_TRACE(layout);
    fs::remove_all(path("cut"));
    const Outcome cut = scalai(fmt::format("checkpoint reshard '{}' '{}' --to={}", path("saved"), path("cut"), layout));
    ASSERT_EQ(cut.code, 0) << cut.err;
    fs::remove_all(path("exec"));
    const Outcome again = exec(path("data.textproto"), fmt::format("--scale-model=1/16 --state='{}'", path("cut")));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.err, HasSubstr("tensors come from"));
    EXPECT_THAT(again.err, Not(HasSubstr("job a: 0 of")));
  }
}

}  // namespace
}  // namespace scalai::testing
