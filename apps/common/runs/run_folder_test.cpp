#include "apps/common/runs/run_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
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
  absl::StatusOr<executor::journal::Journal> begin(const RunFolder& folder, const executor::journal::RunFacts& facts,
                                                   const HowRun& how = {},
                                                   const std::string& address = "127.0.0.1:7") const {
    SCALAI_ASSIGN_OR_RETURN(executor::journal::JournalLock lock, folder.claim());
    return folder.begin(std::move(lock), facts, how, token_, address);
  }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ + "/" + name); }

  std::string path_;
  const std::string token_ = "0123456789abcdef0123456789abcdef";
};

TEST_F(RunFolderTest, ARunThatGoesOnOrWasCutOffIsNotWrittenOver) {
  const RunFolder folder(path_);
  {
    const auto journal = begin(folder, {.scenario_text = "x", .run_id = "r"});
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_THAT(message_of(folder.claim().status()), HasSubstr("a run is going on in " + path_));
  }
  EXPECT_THAT(message_of(folder.claim().status()),
              HasSubstr("was cut off: go on with it (scalai exec --resume=" + path_));
  folder.end();
  EXPECT_TRUE(folder.claim().ok());
  EXPECT_TRUE(has("journal.db"));
  EXPECT_FALSE(has("token"));
}

TEST_F(RunFolderTest, HowItWasStartedReadsBack) {
  const HowRun how{.local_workers = false,
                   .launcher = "srun -n 2",
                   .state = {.transport = "nccl",
                             .backend = "cuda",
                             .devices_per_gpu = 8,
                             .nccl = "/lib/x.so",
                             .memory_cap = int64_t{5} << 33,
                             .host_overflow = 4097,
                             .huge_pages = "off"},
                   .verify = "sample",
                   .time_scale = 0.25,
                   .orphan_timeout_s = 7,
                   .certificate_file = "c.pem",
                   .key_file = "k.pem",
                   .states = {{"a", "/x"}},
                   .launched = true,
                   .mounts = {{"a", "/m"}}};
  const RunFolder folder(path_);
  ASSERT_TRUE(begin(folder, {}, how).ok());
  const auto read = folder.how();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->local_workers);
  EXPECT_EQ(read->launcher, "srun -n 2");
  EXPECT_TRUE(read->launched);
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

// A resumed run opens these files and starts this program: no byte of them may change.
TEST_F(RunFolderTest, NamesOfAnyBytesReadBack) {
  const std::string latin = "/caf\xE9/\xFF";
  const HowRun how{.policy_folder = latin,
                   .launcher = "run " + latin,
                   .certificate_file = latin,
                   .key_file = latin,
                   .states = {{"a", latin}, {"b", "/caf\xC3\xA9"}},
                   .datasets = {{"a", latin}},
                   .trainers = {{"a", "python " + latin}},
                   .train_folder = latin,
                   .mounts = {{"a", latin}}};
  const RunFolder folder(path_ + latin);
  const auto journal = begin(folder, {}, how);
  ASSERT_TRUE(journal.ok()) << journal.status();
  const auto read = folder.how();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->policy_folder, latin);
  EXPECT_EQ(read->launcher, how.launcher);
  EXPECT_EQ(read->certificate_file, latin);
  EXPECT_EQ(read->key_file, latin);
  EXPECT_EQ(read->states, how.states);
  EXPECT_EQ(read->datasets, how.datasets);
  EXPECT_EQ(read->trainers, how.trainers);
  EXPECT_EQ(read->train_folder, latin);
  EXPECT_EQ(read->mounts, how.mounts);
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
  ASSERT_TRUE(begin(folder, {.run_id = "one"}).ok());
  for (const char* name : {"/checkpoints/a", "/workers"}) ASSERT_TRUE(make_folders(path_ + name).ok());
  ASSERT_TRUE(write_file(path_ + "/summary.json", "{}").ok());
  ASSERT_TRUE(write_file(path_ + "/workers/worker-9.log", "old").ok());
  folder.end();
  const auto journal = begin(folder, {.run_id = "two"});
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(journal->run().run_id, "two");
  EXPECT_FALSE(has("summary.json") || has("checkpoints") || has("workers/worker-9.log"));
  EXPECT_TRUE(has("workers"));
}

// From the claim on, before anything is removed or written.
TEST_F(RunFolderTest, OfTwoThatBeginAtOnceOneDoes) {
  const RunFolder folder(path_);
  absl::StatusOr<executor::journal::JournalLock> first = folder.claim();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsUnavailable(folder.claim().status())) << folder.claim().status();
  const auto journal = folder.begin(*std::move(first), {.run_id = "first"}, {}, token_, "a:1");
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_TRUE(absl::IsUnavailable(folder.claim().status())) << folder.claim().status();
  EXPECT_EQ(journal->run().run_id, "first");
}

TEST_F(RunFolderTest, FilesOfOthersAreNeitherRemovedNorMixedWithOurs) {
  for (const std::string name : {"checkpoints", "workers", "journal.db"}) {
    const std::string folder = path_ + "/of-" + name;
    ASSERT_TRUE(make_folders(folder + (name == "journal.db" ? "" : "/" + name)).ok());
    const std::string theirs = folder + "/" + name + (name == "journal.db" ? "" : "/theirs");
    ASSERT_TRUE(write_file(theirs, "x").ok());
    const absl::Status refused = RunFolder(folder).claim().status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(message_of(refused), HasSubstr("a run would remove " + name));
    EXPECT_TRUE(std::filesystem::exists(theirs));
    EXPECT_FALSE(std::filesystem::exists(folder + "/journal.db.lock"));
  }
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777u : 0;
}

TEST_F(RunFolderTest, IsItsUsersAloneWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const RunFolder folder(path_ + "/parent/run");
  const auto journal = begin(folder, {.run_id = "r"});
  ::umask(before);
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(mode_of(path_ + "/parent"), 0755u);
  EXPECT_EQ(mode_of(folder.path()), 0700u);
  for (const char* name : {"run.json", "journal.db", "journal.db-wal", "journal.db.lock", "token", "address"})
    EXPECT_EQ(mode_of(folder.path() + "/" + name), 0600u) << name;
}

TEST_F(RunFolderTest, NobodyActsOnWhatOthersCanWrite) {
  const RunFolder folder(path_);
  { ASSERT_TRUE(begin(folder, {.run_id = "r"}).ok()); }
  EXPECT_TRUE(folder.check_private().ok()) << folder.check_private();
  ASSERT_EQ(::chmod(path_.c_str(), 0777) + ::chmod((path_ + "/run.json").c_str(), 0660), 0);
  for (const absl::Status& refused : {folder.check_private(), folder.target().status(), folder.claim().status()}) {
    EXPECT_EQ(exit_code_of(refused), 4) << refused;
    EXPECT_THAT(message_of(refused), HasSubstr(path_ + ": other users can write it (mode 777)\n" + path_ +
                                               "/run.json: other users can write it (mode 660)\nhint: "));
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0700) + ::chmod((path_ + "/run.json").c_str(), 0600), 0);
  std::filesystem::rename(path_ + "/journal.db", path_ + "/kept");
  std::filesystem::create_symlink("kept", path_ + "/journal.db");
  EXPECT_THAT(message_of(folder.target().status()), HasSubstr("/journal.db: is a link"));
}

TEST_F(RunFolderTest, NobodyActsOnWhatBelongsToAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  const RunFolder folder(path_);
  { ASSERT_TRUE(begin(folder, {.run_id = "r"}).ok()); }
  ASSERT_EQ(::chown((path_ + "/journal.db").c_str(), 65534, 65534), 0);
  EXPECT_EQ(exit_code_of(folder.target().status()), 4);
  EXPECT_THAT(message_of(folder.check_private()), HasSubstr("/journal.db: belongs to user 65534, and this is user 0"));
  ASSERT_EQ(::chown((path_ + "/journal.db").c_str(), 0, 0) + ::chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(message_of(folder.claim().status()), HasSubstr(path_ + ": belongs to user 65534"));
}

// However it is named, and from wherever.
TEST_F(RunFolderTest, OneFolderHasOnePath) {
  EXPECT_EQ(RunFolder(path_ + "/").path(), path_);
  EXPECT_EQ(RunFolder(path_ + "/x/..").path(), path_);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(path_).parent_path());
  EXPECT_EQ(RunFolder(std::filesystem::path(path_).filename()).path(), path_);
  std::filesystem::current_path(before);
}

TEST_F(RunFolderTest, AFolderWithoutARunSaysSo) {
  EXPECT_THAT(message_of(RunFolder(path_).address().status()), HasSubstr("no run is going on"));
}

}  // namespace
}  // namespace scalai::apps
