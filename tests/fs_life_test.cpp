// How mounts of `scalai fs` begin and end: by command, by signal, by kill -9 at any moment, and when they cannot begin.

#include <gmock/gmock.h>

#include <cstdlib>
#include <random>

#include "tests/fs_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

// Kills for one test; SCALAI_FS_KILLS=100 for a thorough run.
int kills() {
  const char* const chosen = std::getenv("SCALAI_FS_KILLS");
  return chosen != nullptr ? std::max(1, std::atoi(chosen)) : 5;
}

class FsLifeTest : public FsEndToEnd {
 protected:
  std::string checkpoint() const { return "--checkpoint=" + path("hf"); }
};

TEST_F(FsLifeTest, EndsBySignalsAndSaysWhatItDid) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t server = start("m", checkpoint());
    ASSERT_GT(server, 0);
    ASSERT_TRUE(wait_for_mount("m")) << log_of("m");
    EXPECT_EQ(read_all(path("m/views/hf/model.safetensors")).size(), fs::file_size(path("hf/model.safetensors")));
    EXPECT_EQ(end(server, signal), 0);
    EXPECT_FALSE(is_mounted("m"));
    EXPECT_THAT(log_of("m"), HasSubstr("1 files opened"));
  }
}

TEST_F(FsLifeTest, TellsStatisticsOnASignal) {
  const pid_t server = start("m", checkpoint());
  ASSERT_TRUE(wait_for_mount("m")) << log_of("m");
  for (int i = 0; i < 2; ++i) {
    const size_t before = log_of("m").size();
    ::kill(server, SIGUSR1);
    for (int wait = 0; wait < 400 && log_of("m").size() == before; ++wait) ::usleep(5000);
    EXPECT_THAT(log_of("m").substr(before), HasSubstr("0 errors"));
  }
  EXPECT_EQ(unmount("m").code, 0);
  EXPECT_EQ(end(server, 0), 0) << "it ends by itself";
}

TEST_F(FsLifeTest, EndsUnderOpenFiles) {
  const pid_t server = start("m", checkpoint());
  ASSERT_TRUE(wait_for_mount("m")) << log_of("m");
  OpenedFile file(path("m/views/hf/model.safetensors"));
  ASSERT_EQ(file.read(0, 10).size(), 10u);
  const Outcome busy = unmount("m");
  EXPECT_EQ(busy.code, 5);
  EXPECT_THAT(busy.err, HasSubstr("--force"));
  EXPECT_TRUE(is_mounted("m"));
  EXPECT_EQ(end(server, SIGTERM), 0);
  EXPECT_FALSE(is_mounted("m"));
  EXPECT_EQ(file.read(100'000, 10), "");
}

TEST_F(FsLifeTest, ForcedUnmountEndsTheServer) {
  const pid_t server = start("m", checkpoint());
  ASSERT_TRUE(wait_for_mount("m")) << log_of("m");
  OpenedFile file(path("m/views/hf/model.safetensors"));
  EXPECT_EQ(unmount("m", "--force").code, 0);
  EXPECT_FALSE(is_mounted("m"));
  EXPECT_EQ(end(server, 0), 0);
}

// Wherever it is killed, with readers on it or while it mounts, what is left can be unmounted and mounted over.
TEST_F(FsLifeTest, KilledServersLeaveNothingThatLasts) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string whole = read_all(path("hf/model.safetensors"));
  for (int i = 0; i < kills(); ++i) {
    const pid_t server = start("m", checkpoint());
    ASSERT_GT(server, 0);
    std::atomic<bool> done = false;
    std::thread reader([&] {
      while (!done) {
        const std::string text = OpenedFile(path("m/views/hf/model.safetensors")).read(0, whole.size());
        ASSERT_TRUE(text.empty() || text == whole) << "wrong bytes";
      }
    });
    ::usleep(random() % 60'000);
    EXPECT_EQ(end(server, SIGKILL), 128 + SIGKILL);
    done = true;
    reader.join();
    if (i % 2 == 0 && is_mounted("m")) {
      EXPECT_EQ(unmount("m").code, 0);
      EXPECT_FALSE(is_mounted("m"));
    }
    const Outcome next = mount("m", checkpoint());  // also over the dead one
    ASSERT_EQ(next.code, 0) << next.err;
    EXPECT_EQ(read_all(path("m/views/hf/model.safetensors")), whole);
    EXPECT_EQ(unmount("m").code, 0);
    ASSERT_FALSE(is_mounted("m"));
  }
}

// A signal at any moment of the start leaves no mount: either it was never there, or it was unmounted.
TEST_F(FsLifeTest, TerminatedServersLeaveNoMount) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < kills(); ++i) {
    const pid_t server = start("m", checkpoint());
    ASSERT_GT(server, 0);
    ::usleep(random() % 40'000);
    const int code = end(server, SIGTERM);
    EXPECT_TRUE(code == 0 || code == 128 + SIGTERM) << code;
    ASSERT_FALSE(is_mounted("m"));
  }
}

TEST_F(FsLifeTest, BackgroundFailuresAreReported) {
  const Outcome bad = mount("m", "--checkpoint=" + path("nothing"));
  EXPECT_EQ(bad.code, 4);
  EXPECT_THAT(bad.err, HasSubstr("nothing"));
  ASSERT_EQ(mount("m", checkpoint()).code, 0);
  const Outcome twice = mount("m", checkpoint());
  EXPECT_EQ(twice.code, 3);
  EXPECT_THAT(twice.err, HasSubstr("is mounted by scalai fs already"));
}

TEST_F(FsLifeTest, AllThatIsWrongIsSaidAtOnce) {
  const Outcome bad = scalai(fmt::format("fs mount {} --dataset={} --step=3 --model=llama3-8b --threads=1000",
                                         path("nowhere"), path("no.index")));
  EXPECT_EQ(bad.code, 2);
  for (const char* what : {"nowhere", "no.index", "--step", "--model", "--threads=1000", "--global-batch"})
    EXPECT_THAT(bad.err, HasSubstr(what));
  const Outcome full = scalai(fmt::format("fs mount {} --checkpoint={}", path("hf"), path("hf")));
  EXPECT_EQ(full.code, 3);
  EXPECT_THAT(full.err, HasSubstr("is not empty"));
  EXPECT_EQ(scalai("fs mount " + path("hf")).code, 2);
  fs::create_directory(path("m"));
  const Outcome silent = scalai(fmt::format("fs mount {} {} --daemonize", path("m"), checkpoint()));
  EXPECT_EQ(silent.code, 2) << "nobody would see the messages";
  EXPECT_THAT(silent.err, HasSubstr("--log"));
  EXPECT_FALSE(is_mounted("m"));
  EXPECT_EQ(unmount("hf").code, 4);
}

TEST_F(FsLifeTest, WithoutTheDeviceItSaysSo) {
  fs::create_directory(path("m"));
  const Outcome hidden = shell("unshare -m sh -c 'mount -t tmpfs none /dev && mkfifo /dev/null'");
  if (hidden.code != 0) GTEST_SKIP() << "unshare: " << hidden.err;
  const Outcome none = shell(fmt::format("unshare -m sh -c 'mount -t tmpfs none /dev && {}/scalai-fs mount {} {}'",
                                         kPrograms.string(), path("m"), checkpoint()));
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("/dev/fuse: No such file or directory; load the kernel module"));
}

TEST_F(FsLifeTest, OnlyTheMountingUserMayAsk) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to be somebody else";
  ASSERT_EQ(mount("m", checkpoint() + " --allow-other").code, 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const std::string nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  if (shell(nobody + "true").code != 0) GTEST_SKIP() << "no setpriv";
  EXPECT_EQ(shell(fmt::format("{} cat {} >/dev/null", nobody, path("m/views/hf/config.json"))).code, 0);
  const Outcome asked = shell(fmt::format("{} {}/scalai-fs status {}", nobody, kPrograms.string(), path("m")));
  EXPECT_EQ(asked.code, 4);
  EXPECT_THAT(asked.err, HasSubstr("only the user of the mount may ask"));
  EXPECT_EQ(unmount("m").code, 0);
  ASSERT_EQ(mount("m", checkpoint()).code, 0);
  EXPECT_NE(shell(fmt::format("{} ls {}", nobody, path("m"))).code, 0) << "without --allow-other nobody else reads";
}

}  // namespace
}  // namespace scalai::testing
