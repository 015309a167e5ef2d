// `scalai near` where hosts die, fail or say nothing, and where a signal ends it.

#include <unistd.h>

#include "tests/near_end_to_end.h"

namespace near_failures_test {

using namespace scalai::testing;
using ::testing::HasSubstr;

using NearFailures = NearEndToEnd;

// A worker that is killed amid its part: another host that has the file takes the part; the output is the same.
TEST_F(NearFailures, APartOfADeadHostIsRunElsewhere) {
  file("a.txt", "a\n", {0});
  file("b.txt", "b\n", {1, 2});
  fs::create_directory(folder_ / "notes");
  write_all(folder_ / "notes/n.textproto",
            "schema_version: 1 commands: \"frail\" by_file: CONCATENATE by_record: CONCATENATE share: 0.1");
  program("frail", "echo begun; if [ \"$NEAR_HOST\" = h1 ]; then kill -9 $PPID; sleep 1; fi; cat \"$@\"");
  const std::string words = fmt::format("--annotations={} -- 'frail a.txt b.txt'", path("notes"));
  const Outcome outcome = scalai(fmt::format("near {} {}", hosts(), words));
  EXPECT_EQ(outcome.out, "begun\na\nbegun\nb\n");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("h1: the worker is gone"));
  EXPECT_THAT(outcome.err, HasSubstr("part 2 of 2 is run again on h2"));
  // Nobody else has it: no output at all, though a part of it is there, and the status says it.
  const Outcome lost = scalai(fmt::format("near {} {}", hosts({0, 1}), words));
  EXPECT_EQ(lost.out, "begun\na\nbegun\nb\n") << "h1 answers again, so the file is fetched";
  program("ssh",
          "test -e " + quoted(path("down")) + " -a $1 = h1 && exit 255; export NEAR_HOST=$1; shift; exec sh -c \"$*\"");
  program("frail", "echo begun; if [ \"$NEAR_HOST\" = h1 ]; then touch " + quoted(path("down")) +
                       "; kill -9 $PPID; fi; cat \"$@\"");
  const Outcome gone = scalai(fmt::format("near {} {}", hosts({0, 1}), words));
  EXPECT_EQ(gone.out, "");
  EXPECT_EQ(gone.code, 5);
  EXPECT_THAT(gone.err, HasSubstr("part 2 of 2 could not be run"));
  EXPECT_THAT(gone.err, HasSubstr("nothing was put out"));
}

TEST_F(NearFailures, ACommandThatFailsOnAHostIsRunElsewhere) {
  file("a.txt", "b\na\n", {0});
  file("b.txt", "c\n", {1});
  fs::create_directory(folder_ / "notes");
  write_all(folder_ / "notes/n.textproto", "schema_version: 1 commands: \"picky\" by_file: CONCATENATE share: 0.1");
  program("picky", "[ \"$NEAR_HOST\" = h1 ] && { echo half; echo no room >&2; exit 2; }; cat \"$@\"");
  const Outcome outcome =
      scalai(fmt::format("near {} --annotations={} -- 'picky a.txt b.txt'", hosts({0, 1}), path("notes")));
  EXPECT_EQ(outcome.out, "b\na\nc\n");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("h1: picky ended with 2: no room; part 2 of 2 is run here"));
  // Where it fails here, too, that is the answer.
  program("picky", "cat \"$@\"; exit 3");
  const Outcome answer =
      scalai(fmt::format("near {} --annotations={} -- 'picky a.txt b.txt'", hosts({0, 1}), path("notes")));
  EXPECT_EQ(answer.out, "b\na\nc\n");
  EXPECT_EQ(answer.code, 3);
}

// sort on a host whose disk for temporary files is full.
TEST_F(NearFailures, AFullDiskNearCostsOnlyItsPart) {
  if (::geteuid() != 0 || shell("unshare -m mount -t tmpfs x /mnt").code != 0) GTEST_SKIP() << "no mounts here";
  std::string text;
  for (int i = 0; i < 40000; ++i) text += fmt::format("{} some text that fills a disk\n", (i * 7919) % 40000);
  file("a.txt", text, {0});
  file("b.txt", text + "more\n", {1});
  fs::create_directory(folder_ / "small");
  program("ssh",
          fmt::format("export NEAR_HOST=$1; shift; [ $NEAR_HOST = h0 ] && exec sh -c \"$*\"; exec unshare -m sh -c "
                      "\"mount -t tmpfs -o size=128k small {0} && TMPDIR={0} exec $*\"",
                      path("small")));
  const Outcome outcome = scalai(fmt::format("near {} -- 'sort -S 256k a.txt b.txt'", hosts({0, 1})));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, by_sh("sort a.txt b.txt").out);
  EXPECT_THAT(outcome.err, HasSubstr("h1: sort ended with 2: sort: write failed"));
  EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
}

TEST_F(NearFailures, AHostThatSaysNothingIsGivenUp) {
  file("a.txt", "a\n", {0, 1});
  program("ssh", "[ $1 = h1 ] && exec sleep 60; shift; exec sh -c \"$*\"");
  const Outcome silent = scalai(fmt::format("near {} --timeout=0.5s -- 'cat a.txt'", hosts({0, 1})));
  EXPECT_EQ(silent.code, 5);
  EXPECT_THAT(silent.err, HasSubstr("h1: the worker has said nothing for 0.5 s"));
  program("ssh", "echo 'ssh: connect to host: no route' >&2; exit 255");
  const Outcome away = scalai(fmt::format("near {} -- 'cat a.txt'", hosts({0, 1})));
  EXPECT_EQ(away.code, 5);
  EXPECT_THAT(away.err, HasSubstr("h0: the worker is gone: ssh: connect to host: no route"));
  EXPECT_THAT(away.err, HasSubstr("h1: the worker is gone"));
  program("ssh", "echo Welcome; shift; exec sh -c \"$*\"");
  EXPECT_THAT(scalai(fmt::format("near {} -- 'cat a.txt'", hosts({0, 1}))).err, HasSubstr("says \"Welcome"));
}

// Processes whose words have a text.
int processes_with(const std::string& text) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream words(entry.path() / "cmdline");
    const std::string all{std::istreambuf_iterator<char>(words), std::istreambuf_iterator<char>()};
    if (all.find(text) != std::string::npos) ++found;
  }
  return found;
}

// A signal ends commands on hosts and here, and nothing of them is left.
TEST_F(NearFailures, ASignalLeavesNothing) {
  file("a.txt", "a\n", {0});
  file("b.txt", "b\n", {1});
  fs::create_directory(folder_ / "notes");
  fs::create_directory(folder_ / "tmp");
  write_all(folder_ / "notes/n.textproto", "schema_version: 1 commands: \"slow\" by_file: CONCATENATE share: 0.1");
  // Each begins one of its own, which has the folder's name among its words.
  // Near, it leaves a temporary file; here it would be its own to remove.
  program("slow",
          fmt::format("[ \"$1\" = - ] || mktemp > /dev/null; sh -c 'sleep 1000; true' {} & touch {}/begun-$1; wait",
                      path("tmp"), path("notes")));
  for (const auto& [name, number] : std::vector<std::pair<std::string, int>>{{"TERM", 15}, {"HUP", 1}}) {
    for (const char* pipeline : {"slow a.txt b.txt", "slow - a.txt"}) {
      for (const char* begun : {"a.txt", "b.txt", "-"}) fs::remove(folder_ / "notes" / (std::string("begun-") + begun));
      const bool here = pipeline[5] == '-';
      const Outcome outcome = shell(fmt::format(
          "export TMPDIR={}; '{}/scalai' near {} --annotations={} -- {} & near=$!; while ! test -e {}/begun-{}; do "
          "sleep 0.05; done; ls $TMPDIR; kill -{} $near; wait $near",
          quoted(path("tmp")), kPrograms.string(), hosts({0, 1}), path("notes"), quoted(pipeline), path("notes"),
          here ? "-" : "b.txt", name));
      EXPECT_EQ(outcome.code, 128 + number) << outcome.err;
      EXPECT_THAT(outcome.out, HasSubstr("scalai-near-"));
      EXPECT_TRUE(fs::is_empty(folder_ / "tmp")) << pipeline << " SIG" << name;
      EXPECT_EQ(processes_with(path("tmp")), 0) << pipeline << " SIG" << name;
    }
  }
}

// A worker that is killed takes its commands along.
TEST_F(NearFailures, CommandsDieWithTheirWorker) {
  file("a.txt", "a\n", {0, 1});
  fs::create_directory(folder_ / "notes");
  write_all(folder_ / "notes/n.textproto", "schema_version: 1 commands: \"slow\" by_file: CONCATENATE share: 0.1");
  program("slow",
          fmt::format("[ $NEAR_HOST = h0 ] || exec cat $1; kill -9 $PPID; sh -c 'sleep 1000; true' {}", path("notes")));
  const Outcome outcome = scalai(fmt::format("near {} --annotations={} -- slow a.txt", hosts({0, 1}), path("notes")));
  EXPECT_EQ(outcome.out, "a\n") << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("h0: the worker is gone"));
  EXPECT_EQ(processes_with(path("notes")), 0);
}

}  // namespace near_failures_test
