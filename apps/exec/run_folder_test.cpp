#include "apps/exec/run_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-folder-XXXXXX").string();
    SCALAI_CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~RunFolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ + "/" + name); }

  std::string path_;
  const std::string token_ = "0123456789abcdef0123456789abcdef";
};

TEST_F(RunFolderTest, ARunThatGoesOnOrWasCutOffIsNotWrittenOver) {
  const RunFolder folder(path_);
  ASSERT_TRUE(folder.check_free().ok());
  {
    const auto journal = folder.begin({.scenario_text = "x", .run_id = "r"}, {}, token_, "127.0.0.1:7");
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_THAT(message_of(folder.check_free()), HasSubstr("a run is going on in " + path_));
  }
  EXPECT_THAT(message_of(folder.check_free()), HasSubstr("was cut off: go on with it (scalai exec --resume=" + path_));
  folder.end();
  EXPECT_TRUE(folder.check_free().ok());
  EXPECT_TRUE(has("journal.db"));
  EXPECT_FALSE(has("token"));
}

TEST_F(RunFolderTest, HowItWasStartedReadsBack) {
  const HowRun how{.local_workers = false,
                   .state = {.transport = "nccl",
                             .backend = "cuda",
                             .devices_per_gpu = 8,
                             .nccl = "/lib/x.so",
                             .memory_cap = int64_t{5} << 33,
                             .host_overflow = 4097},
                   .verify = "sample",
                   .time_scale = 0.25,
                   .orphan_timeout_s = 7,
                   .certificate_file = "c.pem",
                   .key_file = "k.pem",
                   .states = {{"a", "/x"}},
                   .mounts = {{"a", "/m"}}};
  const RunFolder folder(path_);
  ASSERT_TRUE(folder.begin({}, how, token_, "127.0.0.1:7").ok());
  const auto read = folder.how();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->local_workers);
  EXPECT_EQ(words_of(read->state), words_of(how.state));
  EXPECT_EQ(read->verify, "sample");
  EXPECT_EQ(read->time_scale, 0.25);
  EXPECT_EQ(read->orphan_timeout_s, 7);
  EXPECT_EQ(read->certificate_file, "c.pem");
  EXPECT_EQ(read->key_file, "k.pem");
  EXPECT_EQ(read->states, how.states);
  EXPECT_EQ(read->mounts, how.mounts);
  EXPECT_EQ(folder.token().value(), token_);
  EXPECT_EQ(folder.address().value(), "127.0.0.1:7");
  ASSERT_TRUE(write_file(path_ + "/run.json", "{\"local_workers\": 3}").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(folder.how().status())) << folder.how().status();
}

TEST_F(RunFolderTest, ARunOfAnOlderVersionReadsBack) {
  for (const bool network : {false, true}) {
    const std::string json =
        std::string(R"({"local_workers": true, "verify": "full", "time_scale": 0, "certificate": "",
      "key": "", "orphan_timeout_s": 60, "states": {}, "network": )") +
        (network ? "true}" : "false}");
    ASSERT_TRUE(write_file(path_ + "/run.json", json).ok());
    const auto read = RunFolder(path_).how();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->state.transport, network ? "ucx" : "shared-memory");
    EXPECT_EQ(read->state.backend, "host");
    EXPECT_EQ(read->state.devices_per_gpu, 1);
  }
}

TEST_F(RunFolderTest, ANewRunRemovesWhatTheLastOneLeft) {
  const RunFolder folder(path_);
  ASSERT_TRUE(folder.begin({.run_id = "one"}, {}, token_, "a:1").ok());
  for (const char* name : {"/checkpoints/a", "/workers"}) ASSERT_TRUE(make_folders(path_ + name).ok());
  ASSERT_TRUE(write_file(path_ + "/summary.json", "{}").ok());
  ASSERT_TRUE(write_file(path_ + "/workers/worker-9.log", "old").ok());
  folder.end();
  const auto journal = folder.begin({.run_id = "two"}, {}, token_, "b:2");
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(journal->run().run_id, "two");
  EXPECT_FALSE(has("summary.json") || has("checkpoints") || has("workers/worker-9.log"));
  EXPECT_TRUE(has("workers"));
}

TEST_F(RunFolderTest, AFolderWithoutARunSaysSo) {
  EXPECT_THAT(message_of(RunFolder(path_).address().status()), HasSubstr("no run is going on"));
}

}  // namespace
}  // namespace scalai::apps
