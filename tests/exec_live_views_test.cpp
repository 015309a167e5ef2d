// `scalai fs mount --run`: the state of a running job in any layout, step by step, against what it saves.

#include <gmock/gmock.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/live_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ExecLiveViews : public LiveEndToEnd {};

// Over two changes of layout, at steps without a checkpoint: it would be of the epoch before.
TEST_F(ExecLiveViews, AreByteForByteWhatTheJobSaves) {
  start_run(R"(events { at_step { job: "a" step: 17 } resize { job: "a" gpus: 2 } }
events { at_step { job: "a" step: 32 } resize { job: "a" gpus: 4 } }
)",
            "", "0.7s");
  const Outcome mounted = mount("m", "--run=" + path("out") + " --optimizer --keep=2s");
  ASSERT_EQ(mounted.code, 0) << mounted.err;
  const std::vector<std::string> views = {"hf", "tp4", "logical-pp2-dp2-zero1"};
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>> seen;  // by step, view, file
  std::set<std::string> kept;
  ASSERT_TRUE(eventually([&] {
    const std::string step = current();
    if (!fs::exists(job() + "/" + step) || seen.contains(step)) return false;
    const bool saved = keep_saved(step);
    if (saved) kept.insert(step);
    const std::string folder = job() + "/" + step + "/views/";
    for (const std::string& view : views) {
      if (saved || view == "hf") seen[step][view] = bytes_of(folder + view);
    }
    return kept.size() >= 6 && step > "step-00000036";
  })) << seen.size();
  EXPECT_EQ(unmount("m").code, 0);
  scalai(fmt::format("exec ctl drain --run='{}'", path("out")));
  run_.join();
  EXPECT_EQ(outcome_.code, 0) << outcome_.err;
  EXPECT_THAT(outcome_.err, ::testing::Not(HasSubstr("error")));
  std::set<std::string> contents;
  for (const auto& [step, live] : seen) contents.insert(live.at("hf").at("model.safetensors"));
  EXPECT_EQ(contents.size(), seen.size()) << "every step has other bytes";
  EXPECT_GT(kept.size(), 2U);
  for (const std::string& step : kept) expect_saved(step, seen.at(step));
}

TEST_F(ExecLiveViews, AnOpenStepStaysAndAForgottenOneIsStale) {
  start_run();
  ASSERT_EQ(mount("m", "--run=" + path("out") + " --keep=300ms").code, 0);
  const std::string step = current();
  const std::string name = job() + "/" + step + "/views/hf/model.safetensors";
  const int open = ::open(name.c_str(), O_RDONLY);
  ASSERT_GE(open, 0);
  const std::string whole = read_all(name);
  ASSERT_TRUE(eventually([&] { return current() != step && current() != "step-unavailable"; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::string again(whole.size(), '?');
  size_t got = 0;
  for (ssize_t part = 1; got < again.size() && part > 0; got += static_cast<size_t>(std::max<ssize_t>(part, 0)))
    part = ::pread(open, again.data() + got, again.size() - got, static_cast<off_t>(got));
  EXPECT_EQ(got, whole.size());
  EXPECT_TRUE(again == whole) << "training went on";
  ::close(open);
  ASSERT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::seconds(2));  // longer than --keep
    return error_of(name) == ESTALE;
  }));
  EXPECT_EQ(unmount("m").code, 0);
}

// Nothing is copied: what was read in time is right, and what was not is an error.
TEST_F(ExecLiveViews, WithoutCopiesAStepIsRightOrStale) {
  start_run();
  ASSERT_EQ(mount("m", "--run=" + path("out") + " --consistency=fail --keep=60s").code, 0);
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>> seen;
  std::set<std::string> kept, late;
  size_t stale = 0;
  ASSERT_TRUE(eventually([&] {
    const std::string step = current(), folder = job() + "/" + step + "/views/hf";
    const std::string name = folder + "/model.safetensors";
    if (!fs::exists(name) || seen.contains(step) || late.contains(step)) return false;
    if (seen.size() > late.size()) {
      late.insert(step);
      if (!eventually([&] { return current() != step; })) return true;
      stale += error_of(name) == ESTALE ? 1 : 0;
    } else if (const auto files = bytes_of(folder); files.at("model.safetensors").size() == fs::file_size(name)) {
      seen[step]["hf"] = files;
      if (keep_saved(step)) kept.insert(step);
    }
    return !kept.empty() && stale >= 2;
  })) << seen.size()
      << " " << kept.size() << " " << stale;
  EXPECT_EQ(stale, late.size());
  EXPECT_EQ(unmount("m").code, 0);
  for (const std::string& step : kept) expect_saved(step, seen.at(step));
}

// Workers' copies go with their readers, also with those that are killed, and a run without readers has none.
TEST_F(ExecLiveViews, AReaderThatIsKilledHarmsNobody) {
  start_run();
  const pid_t server = start("m", "--run=" + path("out"));
  ASSERT_GT(server, 0);
  ASSERT_TRUE(eventually([&] { return fs::exists(job() + "/" + current()); }));
  ASSERT_FALSE(bytes_of(job() + "/" + current() + "/views/hf").empty());
  end(server, SIGKILL);
  ASSERT_EQ(scalai("fs unmount --force " + path("m")).code, 0);
  ASSERT_EQ(mount("m", "--run=" + path("out")).code, 0);
  ASSERT_TRUE(eventually([&] { return fs::exists(job() + "/" + current()); }));
  EXPECT_FALSE(bytes_of(job() + "/" + current() + "/views/hf").empty());
  EXPECT_EQ(unmount("m").code, 0);
}

TEST_F(ExecLiveViews, AWrongQuestionIsRefusedBeforeAnybodyIsAsked) {
  const Outcome brief = mount("m", "--run=/nowhere --keep=1ms");
  EXPECT_EQ(brief.code, 2);
  EXPECT_THAT(brief.err, HasSubstr("--keep=1ms: at least 100ms"));
  const Outcome alone = mount("m", fmt::format("--checkpoint={} --optimizer", path("hf")));
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--optimizer is for --run, which is missing"));
  const Outcome weak = mount("m", fmt::format("--checkpoint={} --consistency=fail", path("hf")));
  EXPECT_EQ(weak.code, 2);
  EXPECT_THAT(weak.err, HasSubstr("--consistency is for --run, which is missing"));
  const Outcome nowhere = mount("m", "--run=/nowhere");
  EXPECT_EQ(nowhere.code, 4);
  EXPECT_THAT(nowhere.err, HasSubstr("no run is going on in /nowhere"));
}

// It knows no readers: their copies go, and they get new ones.
TEST_F(ExecLiveViews, ANewControllerServesTheSameMount) {
  start_run();
  ASSERT_EQ(mount("m", "--run=" + path("out") + " --keep=60s --refresh=0s").code, 0);
  const std::string step = current();
  ASSERT_FALSE(bytes_of(job() + "/" + step + "/views/hf").empty());
  EXPECT_EQ(shell(fmt::format("pkill -KILL -f 'scalai-exe[c] {}'", path("live.textproto"))).code, 0);
  run_.join();
  run_ = std::thread([this] { outcome_ = scalai(fmt::format("exec --resume='{}'", path("out"))); });
  std::string later;
  ASSERT_TRUE(eventually([&] {
    later = current();
    return later != step && fs::exists(job() + "/" + later);
  }));
  EXPECT_FALSE(bytes_of(job() + "/" + later + "/views/hf").empty());
  ASSERT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return error_of(job() + "/" + step + "/views/tp2/rank_000.safetensors") == ESTALE;
  }));
  EXPECT_EQ(unmount("m").code, 0);
  scalai(fmt::format("exec ctl drain --run='{}'", path("out")));
  run_.join();
  EXPECT_EQ(outcome_.code, 0) << outcome_.err;
}

TEST_F(ExecLiveViews, ARunThatIsOverIsAnErrorAndNothingElse) {
  start_run();
  ASSERT_EQ(mount("m", "--run=" + path("out")).code, 0);
  const std::string step = current();
  ASSERT_FALSE(bytes_of(job() + "/" + step + "/views/hf").empty());
  scalai(fmt::format("exec ctl drain --run='{}'", path("out")));
  run_.join();
  EXPECT_EQ(outcome_.code, 0) << outcome_.err;
  EXPECT_EQ(error_of(job() + "/" + step + "/views/tp2/rank_000.safetensors"), ESTALE);
  EXPECT_THAT(current(), AnyOf(step, "step-unavailable"));
  EXPECT_EQ(unmount("m").code, 0);
  const Outcome late = mount("late", "--run=" + path("out"));
  EXPECT_EQ(late.code, 4) << late.err;
  EXPECT_THAT(late.err, HasSubstr("no run is going on"));
}

// `scalai near` of the run's folder, against the checkpoint that the job wrote at the same step.
TEST_F(ExecLiveViews, ARunIsASourceOfPipelines) {
  if (!fs::exists(kPrograms / "scalai-near")) GTEST_SKIP() << "scalai-near is not built (SCALAI_LABS=OFF)";
  start_run("", "", "0.7s");
  fs::create_directory(path("tmp"));
  const std::string near =
      fmt::format("TMPDIR='{}' '{}/scalai' near '{}' ", path("tmp"), kPrograms.string(), path("out"));
  std::string step, digests;
  ASSERT_TRUE(eventually([&] {
    const Outcome outcome = shell(near + "--view=hf --verbose -- 'sha256sum *'");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const size_t at = outcome.err.find("reads step-");
    if (at == std::string::npos) return true;
    step = outcome.err.substr(at + 6, outcome.err.find(' ', at + 6) - at - 6);
    digests = outcome.out;
    return keep_saved(step);
  }));
  ASSERT_EQ(mount("saved", "--checkpoint=" + path("kept-" + step)).code, 0);
  EXPECT_EQ(digests, shell("cd '" + path("saved/views/hf") + "' && LC_ALL=C && sha256sum *").out);
  EXPECT_EQ(unmount("saved").code, 0);
  EXPECT_EQ(shell(near + "-- 'wc -c *'").code, 0) << "logical, of any model";
  const Outcome unknown = shell(near + "--job=nosuch -- 'wc -c *'");
  EXPECT_EQ(unknown.code, 4);
  EXPECT_THAT(unknown.err, HasSubstr("no job \"nosuch\"; --job names one of a"));
  EXPECT_EQ(shell(near + "--view=tp7 -- 'wc -c *'").code, 4);
  EXPECT_EQ(scalai("near '" + path("hf") + "' --view=hf -- 'wc -c *'").code, 2);
  EXPECT_TRUE(fs::is_empty(path("tmp"))) << "a mount was left";
  const Outcome ended =
      shell(near + "-- sh -c 'touch \"$0\"; exec tail -f *' '" + path("begun") + "' & near=$!; while ! test -e '" +
            path("begun") + "' && kill -0 $near; do sleep 0.05; done; kill $near; wait $near");
  EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.err;
  EXPECT_TRUE(fs::is_empty(path("tmp"))) << "a mount was left by a signal";
}

// Hosts with machines' names of their own, so that what one has the other one gets over UCX: each is asked for the
// files of which it holds most, and all for the same step.
TEST_F(ExecLiveViews, ARunIsReadOnItsWorkersHosts) {
  if (!fs::exists(kPrograms / "scalai-near")) GTEST_SKIP() << "scalai-near is not built (SCALAI_LABS=OFF)";
  if (shell("unshare --uts true").code != 0) GTEST_SKIP() << "no machines' names of their own here";
  const std::string on = path("on");
  write_all(on, "#!/bin/sh\nhost=${1#*@}\nshift\necho $$ >>" + path("pids") +
                    "\nexec unshare --uts sh -c 'hostname \"$0\" && exec \"$@\"' ${host%%.*} \"$@\"\n");
  write_all(path("both"), "#!/bin/sh\nfor i in 0 1; do " + on + " w$i \"$@\" --host=$i & done\nwait\n");
  for (const char* script : {"on", "both"}) fs::permissions(path(script), fs::perms::owner_all);
  layout_ = "tp2,pp2";
  start_run("", "--transport=ucx --listen=127.0.0.1:0 --launcher=" + path("both"), "0.7s");
  // It keeps no step for long, so that there is room for other readers.
  const Outcome mounted = mount("m", "--run=" + path("out") + " --refresh=0s --keep=1s");
  if (mounted.err.find("UCX") != std::string::npos) GTEST_SKIP() << mounted.err;
  fs::create_directory(path("tmp"));
  const std::string near = fmt::format("TMPDIR='{}' '{}/scalai' near '{}' --view=tp2-pp2 --launcher='{} {{}}' ",
                                       path("tmp"), kPrograms.string(), path("out"), on);
  std::map<std::string, std::string> files;
  std::string read;
  ASSERT_TRUE(eventually([&] {
    const std::string step = current();
    files = bytes_of(job() + "/" + step + "/views/tp2-pp2");
    const Outcome outcome = shell(near + "--host=w0 --host=w1 --verbose -- 'cat rank*'");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("note")));
    read = outcome.out;
    return outcome.code != 0 || outcome.err.find("reads " + step + " of the run") != std::string::npos;
  }));
  std::string all;
  std::vector<size_t> bytes;
  for (const auto& [name, content] : files) {
    if (!name.starts_with("rank")) continue;
    all += content;
    bytes.push_back(content.size());
  }
  ASSERT_EQ(bytes.size(), 4U);
  EXPECT_TRUE(read == all);
  const Outcome explained = shell(near + "--host=w0 --host=u@w1.cluster --explain --format=json -- 'cat rank*'");
  ASSERT_EQ(explained.code, 0) << explained.err;
  const nlohmann::json hosts = nlohmann::json::parse(explained.out).at("hosts");
  // It explains a later step, whose number may have a digit more: headers are padded to multiples of 8 bytes.
  EXPECT_NEAR(hosts.at(0).at("bytes").get<double>(), bytes[0] + bytes[1], 2 * 16) << explained.out;
  EXPECT_NEAR(hosts.at(1).at("bytes").get<double>(), bytes[2] + bytes[3], 2 * 16);
  // Mounts go with the workers that made them, also with those that are killed; what they had is read here.
  fs::remove(path("pids"));
  const Outcome killed = shell(
      near + "--host=w0 --host=w1 -- 'cat rank*' & near=$!; while kill -0 $near && ! pgrep -f 'scalai-f[s] mount " +
      path("tmp") + ".*run-0'; do sleep 0.01; done; xargs kill -KILL <" + path("pids") + "; wait $near");
  EXPECT_THAT(killed.code, AnyOf(0, 5)) << killed.err;  // 5: it did not answer at the beginning
  EXPECT_TRUE(eventually([&] { return shell("grep -c " + path("tmp") + " /proc/mounts").code == 1; }));
  fs::remove_all(path("tmp"));
  fs::create_directory(path("tmp"));
  // Hosts that hold nothing may be asked, too.
  // A step that is forgotten amid the reading, on a busy machine, is an error (ESTALE).
  EXPECT_TRUE(eventually([&] { return shell(near + "--host=elsewhere --host=here -- 'wc -c *'").code == 0; }));
  EXPECT_EQ(unmount("m").code, 0);
  EXPECT_TRUE(fs::is_empty(path("tmp"))) << "a mount was left";
}

// By its workers, and with --since read here, against what the job wrote at that step.
TEST_F(ExecLiveViews, StatsOfARunAreThoseOfWhatItSaves) {
  start_run("", "", "0.7s");
  const std::string stats = "checkpoint stats --format=json ", run = path("out");
  ASSERT_TRUE(eventually([&] { return scalai(stats + run).code == 0; }));
  nlohmann::json told, read;
  std::string step;
  const auto asked = [&](const std::string& words, nlohmann::json& answer) {
    const Outcome outcome = scalai(stats + run + " --optimizer " + words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.code == 0) answer = nlohmann::json::parse(outcome.out);
    return outcome.code == 0;
  };
  ASSERT_TRUE(eventually([&] {
    if (!asked("", told)) return true;
    step = fmt::format("step-{:08}", told.at("step").get<int64_t>());
    return keep_saved(step);
  }));
  const Outcome outcome = scalai(stats + path("kept-" + step));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json saved = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(told.at("tensors").size(), saved.at("tensors").size());
  EXPECT_GT(told.at("kinds").size(), 2U) << "with the optimizer";
  const auto expect_same = [](const nlohmann::json& a, const nlohmann::json& b) {
    for (const char* key :
         {"name", "dtype", "shape", "kind", "elements", "nan", "inf", "zeros", "min", "max", "magnitudes"})
      EXPECT_EQ(a.at(key), b.at(key)) << a.at("name") << " " << key;
    EXPECT_NEAR(a.at("norm").get<double>(), b.at("norm").get<double>(), 1e-9 * b.at("norm").get<double>());
  };
  std::map<std::string, nlohmann::json> by_name;
  for (const nlohmann::json& one : saved.at("tensors")) by_name[one.at("name")] = one;
  for (const nlohmann::json& one : told.at("tensors")) expect_same(one, by_name.at(one.at("name")));
  ASSERT_TRUE(asked("--since='" + path("kept-" + step) + "' --tensors='*mlp*'", read));
  ASSERT_GT(read.at("tensors").size(), 0U);
  const bool later = read.at("step") > told.at("step");
  for (const nlohmann::json& one : read.at("tensors"))
    EXPECT_EQ(one.at("change").at("changed").get<int64_t>() > 0, later) << one.at("name");
}

TEST_F(ExecLiveViews, StatsOfARunThatCannotBe) {
  start_run();
  const std::string run = "checkpoint stats " + path("out");
  const Outcome files = scalai(run + " --from=tp2");
  EXPECT_EQ(files.code, 2);
  EXPECT_THAT(files.err, HasSubstr("--from is for files"));
  const Outcome hosts = scalai(run + " --host=n1");
  EXPECT_EQ(hosts.code, 2);
  EXPECT_THAT(hosts.err, HasSubstr("--host is for files"));
  const Outcome no_run = scalai("checkpoint stats " + path("hf") + " --optimizer");
  EXPECT_EQ(no_run.code, 2);
  EXPECT_THAT(no_run.err, HasSubstr("--optimizer is for the folder of a run that goes on"));
  const Outcome unknown = scalai(run + " --job=nosuch");
  EXPECT_EQ(unknown.code, 3) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("there is no job \"nosuch\""));
  const Outcome pattern = scalai(run + " --tensors=nosuch");
  EXPECT_EQ(pattern.code, 3) << pattern.err;
  const Outcome explained = scalai(run + " --explain");
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("its workers look at what they hold"));
}

// A mount is a folder as any other.
TEST_F(ExecLiveViews, AMountIsASourceOfPipelines) {
  if (!fs::exists(kPrograms / "scalai-near")) GTEST_SKIP() << "scalai-near is not built (SCALAI_LABS=OFF)";
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  const std::string pipeline = "'sha256sum *.safetensors config.json | sort'";
  const Outcome there = shell("cd '" + path("m/views/tp4-pp2") + "' && LC_ALL=C sh -c " + pipeline);
  const Outcome near = scalai("near '" + path("m/views/tp4-pp2") + "' --part-size=1kB -- " + pipeline);
  EXPECT_EQ(near.out, there.out) << near.err;
  EXPECT_GT(std::count(near.out.begin(), near.out.end(), '\n'), 8);
  EXPECT_EQ(unmount("m").code, 0);
}

// Bytes before these words in what `scalai fs status` says.
double bytes_before(const std::string& status, const std::string& words) {
  const size_t end = status.find(" " + words);
  if (end == std::string::npos) return -1;
  const size_t begin = status.find_last_of(", ", status.find_last_of(' ', end - 1) - 1) + 1;
  std::istringstream text(status.substr(begin, end - begin));
  double number = -1;
  std::string unit;
  text >> number >> unit;
  return number * (unit == "GB" ? 1e9 : unit == "MB" ? 1e6 : unit == "kB" ? 1e3 : 1);
}

// Four readers of one step, one after another; the first is killed when the second has read from it.
TEST_F(ExecLiveViews, ReadersOverUcxReadFromEachOther) {
  start_run("", "--transport=ucx", "1s");
  const std::vector<std::string> names = {"m0", "m1", "m2", "m3"};
  for (const std::string& name : names) {
    const std::string room = name == "m3" ? " --keep-size=2MiB" : "";
    const Outcome mounted = mount(name, "--run=" + path("out") + " --keep=100s --refresh=0s" + room);
    if (mounted.code == 4) GTEST_SKIP() << mounted.err;
    ASSERT_EQ(mounted.code, 0) << mounted.err;
  }
  const auto folder = [&](size_t i) { return path(names[i]) + "/jobs/a/"; };
  std::string step;
  const auto show_one_step = [&] {  // who asks during one step is shown its end
    std::vector<std::string> shown(names.size());
    std::vector<std::thread> asking;
    for (size_t i = 0; i < names.size(); ++i) {
      asking.emplace_back([&, i] {
        std::error_code error;
        shown[i] = fs::read_symlink(folder(i) + "step-current", error).string();
      });
    }
    for (std::thread& one : asking) one.join();
    step = shown[0];
    return fs::exists(folder(0) + step) && std::count(shown.begin(), shown.end(), step) == 4;
  };
  ASSERT_TRUE(eventually(show_one_step));
  const auto status = [&](size_t i) { return scalai("fs status " + path(names[i])).out; };
  const auto read = [&](size_t i) { return bytes_of(folder(i) + step + "/views/hf").at("model.safetensors"); };
  const std::string first = read(0);
  const double state = bytes_before(status(0), "of workers elsewhere");
  EXPECT_GT(state, 1e6) << status(0);
  EXPECT_TRUE(read(1) == first);
  EXPECT_GT(bytes_before(status(1), "of other readers"), 0.8 * state) << status(1);
  EXPECT_GT(bytes_before(status(0), "for other readers"), 0.8 * state) << status(0);
  int server = 0;
  ASSERT_EQ(std::sscanf(status(0).c_str(), "pid %d", &server), 1) << status(0);
  ASSERT_EQ(::kill(server, SIGKILL), 0);
  for (const size_t i : {2, 3}) {
    EXPECT_TRUE(read(i) == first) << i;
    EXPECT_LT(bytes_before(status(i), "of workers elsewhere"), 0.2 * state) << status(i);
  }
  for (size_t i = 1; i < names.size(); ++i) EXPECT_EQ(unmount(names[i]).code, 0);
  EXPECT_TRUE(eventually([&] { return log_of("m3").find("of other readers") != std::string::npos; }))  // its last words
      << log_of("m3");
  EXPECT_EQ(log_of("m3").find("error:"), std::string::npos) << log_of("m3");
}

TEST_F(ExecLiveViews, OverUcxAsInSharedMemory) {
  start_run("", "--transport=ucx");
  const Outcome mounted = mount("m", "--run=" + path("out"));
  if (mounted.code == 4) GTEST_SKIP() << mounted.err;
  ASSERT_EQ(mounted.code, 0) << mounted.err;
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>> seen;
  std::set<std::string> kept;
  ASSERT_TRUE(eventually([&] {
    const std::string step = current();
    if (!fs::exists(job() + "/" + step) || seen.contains(step)) return false;
    seen[step]["hf"] = bytes_of(job() + "/" + step + "/views/hf");
    if (keep_saved(step)) kept.insert(step);
    return kept.size() >= 2;
  }));
  EXPECT_EQ(unmount("m").code, 0);
  for (const std::string& step : kept) expect_saved(step, seen.at(step));
}

}  // namespace
}  // namespace scalai::testing
