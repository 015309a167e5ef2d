// `scalai checkpoint stats` as its users run it: the real program on tiny models.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/testing/test_job.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {
namespace stats_command_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class StatsCommand : public FolderTest {
 protected:
  // Words with {} for the folder of the test.
  Outcome stats(std::string words) const {
    for (size_t at = words.find("{}"); at != std::string::npos; at = words.find("{}")) words.replace(at, 2, folder_);
    const int status = std::system(
        fmt::format("{}/bin/scalai checkpoint {} > {}/stdout 2> {}/stderr", SCALAI_BINARY_DIR, words, folder_, folder_)
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path("stdout")), text_of(path("stderr"))};
  }
  static bool has_near() { return std::filesystem::exists(SCALAI_BINARY_DIR "/bin/scalai-near"); }
  // A file with one tensor "w" of these numbers.
  void write_one(const std::string& name, const std::vector<float>& numbers) const {
    std::vector<std::byte> bytes(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    const std::vector<TensorSpec> specs = {{"w", tensor::DType::kF32, {std::ssize(numbers)}}};
    ASSERT_TRUE(write_safetensors(path(name), specs, {}, [&](const StoredTensor&) {
                  return absl::StatusOr<std::span<const std::byte>>(bytes);
                }).ok());
  }
};

TEST_F(StatsCommand, SaysWhatIsInATensorAndWhatHasChanged) {
  write_one("a.safetensors", {3, -4, 0, std::nanf(""), std::numeric_limits<float>::infinity()});
  write_one("b.safetensors", {3, -1, 0, std::nanf(""), 7});
  const Outcome seen = stats("stats {}/a.safetensors --since={}/b.safetensors --format=json");
  ASSERT_EQ(seen.code, 0) << seen.err;
  const json all = json::parse(seen.out);
  const json one = all["tensors"][0];
  EXPECT_EQ(one["name"], "w");
  EXPECT_EQ(one["norm"], 5);
  EXPECT_EQ(one["min"], -4);
  EXPECT_EQ(one["max"], 3);
  EXPECT_EQ(one["zeros"], 1);
  EXPECT_EQ(one["nan"], 1);
  EXPECT_EQ(one["inf"], 1);
  EXPECT_EQ(one["magnitudes"], json::parse("[[1, 1], [2, 1]]"));  // 3 in [2, 4), 4 in [4, 8)
  EXPECT_EQ(
      one["change"],
      json::parse(R"({"elements": 5, "changed": 2, "no_number": 1, "norm": 3.0, "squares": 9.0, "largest": 3.0})"));
  EXPECT_EQ(all["kinds"][0]["elements"], 5);
}

TEST_F(StatsCommand, WithoutFiniteElementsThereIsNoMean) {
  write_one("a.safetensors", {std::nanf(""), std::numeric_limits<float>::infinity()});
  write_one("b.safetensors", {1, 2});
  write_one("c.safetensors", {1, 2, 3});
  const json one = json::parse(stats("stats {}/a.safetensors --format=json").out)["tensors"][0];
  for (const char* key : {"norm", "mean", "min", "max"}) EXPECT_TRUE(one[key].is_null()) << key;
  const Outcome changed = stats("stats {}/a.safetensors --since={}/b.safetensors");
  EXPECT_THAT(changed.out, HasSubstr("leave 2 elements out that became or were not finite"));
  const json apart = json::parse(stats("stats {}/b.safetensors --since={}/c.safetensors --format=json").out);
  EXPECT_FALSE(apart["kinds"][0].contains("change")) << "nothing was compared";
}

TEST_F(StatsCommand, FailsWhereNumbersHaveToBeFinite) {
  write_one("a.safetensors", {1, std::nanf("")});
  write_one("b.safetensors", {1, 2});
  const Outcome bad = stats("stats {}/a.safetensors --require-finite");
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("1 tensor has elements that are not finite: w"));
  EXPECT_THAT(bad.out, HasSubstr("w "));
  EXPECT_EQ(stats("stats {}/b.safetensors --require-finite").code, 0);
}

// Rank files against the model that they were cut from, in all formats.
TEST_F(StatsCommand, ComparesLayouts) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/ranks --to=tp4,pp2").code, 0);
  const Outcome same = stats("stats {}/ranks --since={}/hf --format=csv --tensors='*mlp*'");
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("layers.3.mlp.down.weight,BF16"));
  int lines = 0, unchanged = 0;
  for (size_t at = 0, end = 0; (end = same.out.find('\n', at)) != std::string::npos; at = end + 1, ++lines)
    unchanged += same.out.substr(at, end - at).ends_with(",0,0,0") ? 1 : 0;
  EXPECT_EQ(lines, 1 + 16) << same.out;  // a header; a norm and three matrices in each of four layers
  EXPECT_EQ(unchanged, 16) << same.out;
  EXPECT_EQ(same.out.find("embedding"), std::string::npos);
  const Outcome bars = stats("stats {}/ranks --histogram --wide");
  EXPECT_EQ(bars.code, 0) << bars.err;
  EXPECT_THAT(bars.out, HasSubstr("█"));
  write_hugging_face(path("other"), llama_config(8, 8), {}, 3, /*finite=*/true);
  const Outcome other = stats("stats {}/hf --since={}/other");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("note: 4 tensors of another shape: layers.0.attention.qkv.weight, "));
}

// Hosts are this machine behind a launcher that, as ssh does, gives its words to a shell. The same digits on any of
// them.
TEST_F(StatsCommand, HostsLookAtSharesOfTheTensors) {
  if (!has_near()) {
    const Outcome refused = stats("stats {}/none --host=n1");
    EXPECT_EQ(refused.code, 4);
    EXPECT_THAT(refused.err, HasSubstr("--host: scalai-near is neither in"));
    EXPECT_THAT(refused.err, HasSubstr("part of labs/near; a build with SCALAI_LABS=OFF leaves it out"));
    return;
  }
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  write_hugging_face(path("before"), llama_config(8, 4), {}, 4, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/there --to=tp4,pp2").code, 0);
  const auto launcher = [&](const std::string& script) {
    std::ofstream(path("ssh")) << "#!/bin/sh\n" << script << "\nshift; exec sh -c \"$*\"\n";
    std::filesystem::permissions(path("ssh"), std::filesystem::perms::owner_all);
  };
  launcher("echo $1 >> " + path("asked"));
  const std::string words = "stats {}/hf --since={}/before --format=json",
                    near = " --launcher={}/ssh --host=n1 --host=n2={}/there";
  const json alone = json::parse(stats(words).out);
  const Outcome both = stats(words + near);
  EXPECT_TRUE(json::parse(both.out) == alone) << both.err;
  EXPECT_EQ(both.err, "");
  EXPECT_THAT(text_of(path("asked")), AllOf(HasSubstr("n1"), HasSubstr("n2")));
  EXPECT_EQ(json::parse(stats(words + near + " --tensors='*mlp*'").out),
            json::parse(stats(words + " --tensors='*mlp*'").out));
  // A host that does not answer leaves its share to the others.
  launcher("[ $1 = n2 ] && { echo no route >&2; exit 255; }");
  const Outcome one = stats(words + near);
  EXPECT_TRUE(json::parse(one.out) == alone);
  EXPECT_THAT(one.err, HasSubstr("n2: the worker is gone: no route"));
  // Nobody helps.
  launcher("exit 255");
  const Outcome none = stats(words + near);
  EXPECT_TRUE(json::parse(none.out) == alone);
  EXPECT_THAT(none.err, HasSubstr("tensors were looked at here"));
  // Another checkpoint there is no source.
  write_hugging_face(path("other"), llama_config(8, 8), {}, 3, /*finite=*/true);
  launcher("");
  const Outcome other = stats(words + " --launcher={}/ssh --host=n1={}/other");
  EXPECT_TRUE(json::parse(other.out) == alone);
  EXPECT_THAT(other.err, HasSubstr("n1: has another checkpoint: layers.0.attention.qkv.weight differs"));
  EXPECT_EQ(stats("stats {}/hf --host=-x --launcher='a | b'").code, 2);
}

// Hosts are folders behind a launcher, as above; none has all files.
class SpreadStatsCommand : public StatsCommand {
 protected:
  void SetUp() override {
    StatsCommand::SetUp();
    if (!has_near()) GTEST_SKIP() << "scalai-near is not built (SCALAI_LABS=OFF)";
    for (const char* host : {"n1", "n2", "n3"}) std::filesystem::create_directories(path(host));
    launcher("");
  }
  void launcher(const std::string& script) const {
    std::ofstream(path("ssh")) << "#!/bin/sh\n" << script << "\nexport ON=$1; shift; exec sh -c \"$*\"\n";
    std::filesystem::permissions(path("ssh"), std::filesystem::perms::owner_all);
  }
  void put(const std::string& from, const std::string& file, const std::vector<std::string>& hosts) const {
    for (const std::string& host : hosts)
      std::filesystem::copy_file(path(from + "/" + file), path(host + "/" + file),
                                 std::filesystem::copy_options::overwrite_existing);
  }
  // Files one after the other on n1, n2 and n3; those in `doubled` on n1, too.
  void spread(const std::string& from, const std::set<std::string>& doubled = {}) const {
    size_t next = 0;
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path(from))) names.insert(entry.path().filename());
    for (const std::string& name : names) {
      put(from, name, {fmt::format("n{}", 1 + next++ % 3)});
      if (doubled.contains(name)) put(from, name, {"n1"});
    }
  }
  Outcome on_hosts(const std::string& more = "") const {
    return stats("stats {}/nowhere --launcher={}/ssh --host=n1={}/n1 --host=n2={}/n2 --host=n3={}/n3" + more);
  }
  // Counts and extremes are the same, sums but for their last digits.
  static void expect_alike(const json& got, const json& want) {
    ASSERT_EQ(got["tensors"].size(), want["tensors"].size());
    for (size_t i = 0; i < want["tensors"].size(); ++i) {
      const json &a = got["tensors"][i], &b = want["tensors"][i];
      for (const char* key : {"name", "dtype", "shape", "elements", "nan", "inf", "zeros", "min", "max", "magnitudes"})
        EXPECT_EQ(a[key], b[key]) << b["name"] << " " << key;
      EXPECT_NEAR(a["norm"].get<double>(), b["norm"].get<double>(), 1e-12 * b["norm"].get<double>()) << b["name"];
      EXPECT_NEAR(a["mean"].get<double>(), b["mean"].get<double>(), 1e-12 * b["norm"].get<double>()) << b["name"];
      ASSERT_EQ(a.contains("change"), b.contains("change"));
      if (!b.contains("change")) continue;
      for (const char* key : {"elements", "changed", "no_number", "largest"})
        EXPECT_EQ(a["change"][key], b["change"][key]) << b["name"] << " " << key;
      EXPECT_NEAR(a["change"]["norm"].get<double>(), b["change"]["norm"].get<double>(),
                  1e-12 * b["change"]["norm"].get<double>());
    }
  }
};

// Against a loop over the numbers of the whole checkpoint that the files were cut from.
TEST_F(SpreadStatsCommand, IsWhatALoopOverTheNumbersSays) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/ranks --to=tp2,pp2").code, 0);
  spread("ranks");
  const Outcome seen = on_hosts(" --format=json");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_EQ(seen.err, "");
  const json all = json::parse(seen.out);
  const auto whole = Checkpoint::open(path("ranks"));
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(all["tensors"].size(), (*whole)->tensors().size());
  for (const json& one : all["tensors"]) {
    const size_t tensor = (*whole)->find(one["name"].get<std::string>()).value();
    const LogicalState& state = (*whole)->tensors()[tensor];
    ASSERT_EQ(state.dtype, tensor::DType::kBF16);
    std::vector<uint16_t> words(static_cast<size_t>(state.shape.elements()));
    ASSERT_TRUE((*whole)->read(tensor, tensor::Box::whole(state.shape), std::as_writable_bytes(std::span(words))).ok());
    double squares = 0, least = 1e9, most = -1e9;
    int64_t zeros = 0;
    for (const uint16_t word : words) {
      const double number = std::bit_cast<float>(static_cast<uint32_t>(word) << 16);
      squares += number * number;
      zeros += number == 0 ? 1 : 0;
      least = std::min(least, number), most = std::max(most, number);
    }
    EXPECT_EQ(one["elements"], words.size());
    EXPECT_EQ(one["nan"], 0);
    EXPECT_EQ(one["zeros"], zeros);
    EXPECT_EQ(one["min"].get<double>(), least);
    EXPECT_EQ(one["max"].get<double>(), most);
    EXPECT_NEAR(one["norm"].get<double>(), std::sqrt(squares), 1e-12 * std::sqrt(squares)) << one["name"];
  }
}

// Tensors that are cut between hosts, of a layout whose files name each other; a file on two hosts is read once.
TEST_F(SpreadStatsCommand, PartsOfTensorsAreAddedUp) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/ranks --to=tp4,pp2").code, 0);
  spread("ranks", {"rank_003.safetensors", "rank_004.safetensors"});
  const json want = json::parse(stats("stats {}/ranks --format=json").out);
  const Outcome got = on_hosts(" --format=json");
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.err, "") << "nothing came here";
  expect_alike(json::parse(got.out), want);
  // The other one is a file on no host: its elements are compared here.
  write_hugging_face(path("other"), llama_config(8, 4), {}, 4, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/other {}/one --to=logical").code, 0);
  const std::string since = " --since={}/one/model.safetensors --since-names=logical --format=json";
  const Outcome compared = on_hosts(since);
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.err, HasSubstr("parts were looked at here"));
  expect_alike(json::parse(compared.out), json::parse(stats("stats {}/ranks" + since).out));
  const Outcome shares = on_hosts(" --explain");
  EXPECT_EQ(shares.code, 0) << shares.err;
  EXPECT_THAT(shares.out, AllOf(HasSubstr("n3"), HasSubstr("what is looked at here is fetched")));
}

// As workers leave it on their own disks: files of ranks, with masters and moments, and one manifest.
TEST_F(SpreadStatsCommand, AJobsCheckpointOnItsWorkersDisks) {
  const auto model = model_of_config(llama_config(8, 4), "tiny");
  ASSERT_TRUE(model.ok());
  const auto collection = collection::megatron_collection(*model, {}, {.tp = 2, .pp = 2},
                                                          {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)});
  ASSERT_TRUE(collection.ok());
  for (const auto& [name, step] : std::map<std::string, int64_t>{{"job", 7}, {"later", 8}})
    ASSERT_TRUE(write_checkpoint(path(name), *collection, {"job", step}).ok());
  spread("job");
  const Outcome got = on_hosts(" --format=json");
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.err, "");
  EXPECT_EQ(json::parse(got.out)["step"], 7);
  expect_alike(json::parse(got.out), json::parse(stats("stats {}/job --format=json").out));
  // The other one lies on the same hosts, under one path: nothing comes here.
  const Outcome since = stats(
      "stats {}/nowhere --since={}/later --launcher={}/ssh --host=n1={}/n1 --host=n2={}/n2 "
      "--host=n3={}/n3 --format=json");
  ASSERT_EQ(since.code, 0) << since.err;
  EXPECT_EQ(since.err, "");
  expect_alike(json::parse(since.out), json::parse(stats("stats {}/job --since={}/later --format=json").out));
}

TEST_F(SpreadStatsCommand, AFileThatNobodyHasIsNamed) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/ranks --to=tp4,pp2").code, 0);
  spread("ranks");
  for (const char* host : {"n1", "n2", "n3"})
    std::filesystem::remove(path(std::string(host) + "/rank_005.safetensors"));
  const Outcome lacks = on_hosts();
  EXPECT_NE(lacks.code, 0);
  EXPECT_EQ(lacks.out, "");
  EXPECT_THAT(lacks.err, AllOf(HasSubstr("/nowhere/rank_005.safetensors"), HasSubstr("on none of these hosts")));
  // Files of one name that are not the same.
  put("ranks", "rank_005.safetensors", {"n1"});
  std::ofstream(path("n2/rank_005.safetensors")) << "other";
  const Outcome differs = on_hosts();
  EXPECT_EQ(differs.code, 3) << differs.err;
  EXPECT_THAT(differs.err, HasSubstr("rank_005.safetensors: "));
  // A host that nobody reaches may have files that nobody else knows.
  launcher("[ $1 = n3 ] && { echo no route >&2; exit 255; }");
  const Outcome gone = on_hosts();
  EXPECT_EQ(gone.code, 5);
  EXPECT_THAT(gone.err, HasSubstr("n3: the worker is gone: no route"));
}

TEST_F(SpreadStatsCommand, WorkThatDoesNotFitItsFilesIsRefused) {
  write_one("a.safetensors", {1, 2, 3, 4});
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path("a.safetensors")));
  const auto work = [&](const std::string& block, int64_t size) {
    std::ofstream(path("work")) << fmt::format(
        R"({{"files": [["{}", {}]], "parts": [{{"dtype": "F32", "elements": 4, "blocks": [{}]}}]}})",
        path("a.safetensors"), size, block);
    return stats("stats-parts {}/work");
  };
  const Outcome good = work(fmt::format("[0, {}, 0, [16], [1], [1]]", bytes - 16), bytes);
  ASSERT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(json::parse(good.out)["parts"][0]["sum"], 10);
  for (const std::string& bad :
       {fmt::format("[0, {}, 0, [16], [1], [1]]", bytes - 15), std::string("[1, 0, 0, [16], [1], [1]]"),
        std::string("[0, 0, 0, [8], [1], [1]]"), std::string("[0, 0, 0, [4, 4], [4, 1], [9, 1]]"),
        std::string("[0, 0, 0, [16], [2], [1]]"), std::string("[0, 0, 0, [], [], []]"), std::string("7")})
    EXPECT_EQ(work(bad, bytes).code, 3) << bad;
  const Outcome changed = work("[0, 0, 0, [16], [1], [1]]", bytes + 1);
  EXPECT_EQ(changed.code, 3);
  EXPECT_THAT(changed.err, HasSubstr("bytes now, and had"));
}

// A host that is lost when it looks at its files: another one that has them does it; else they are fetched, or nothing
// is said.
TEST_F(SpreadStatsCommand, AHostThatIsLostIsStoodInFor) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  ASSERT_EQ(stats("reshard {}/hf {}/ranks --to=tp4").code, 0);
  const json want = json::parse(stats("stats {}/ranks --format=json").out);
  for (const auto& entry : std::filesystem::directory_iterator(path("ranks")))
    put("ranks", entry.path().filename(), {"n2", "n3"});
  // Its second worker is the one that looks; later ones are as those of a host that is down.
  const std::string second = "[ $1 = n2 ] && {{ echo x >> {0}/begun; [ $(wc -l < {0}/begun) -gt 1 ] && exit 255; }}; ";
  launcher(fmt::format(fmt::runtime(second), folder_));
  const Outcome other = on_hosts(" --format=json");
  ASSERT_EQ(other.code, 0) << other.err;
  expect_alike(json::parse(other.out), want);
  EXPECT_THAT(other.err, HasSubstr("note: n2: the worker is gone"));
  std::filesystem::remove(path("begun"));
  std::filesystem::remove(path("n3/rank_001.safetensors"));
  const Outcome nobody = on_hosts(" --format=json");
  EXPECT_EQ(nobody.code, 5) << nobody.out;
  EXPECT_EQ(nobody.out, "");
  EXPECT_THAT(nobody.err, AllOf(HasSubstr("rank_001.safetensors could not be fetched: n2: the worker is gone")));
}

TEST_F(StatsCommand, BadWordsAreRefusedAtOnce) {
  write_one("a.safetensors", {1, 2});
  const Outcome names = stats("stats {}/a.safetensors --tensors=v,w,x*");
  EXPECT_EQ(names.code, 3);
  EXPECT_THAT(names.err, HasSubstr("no tensor is named \"v\" or \"x*\""));
  const Outcome both = stats("stats {}/none --since={}/neither");
  EXPECT_EQ(both.code, 4);
  EXPECT_THAT(both.err, AllOf(HasSubstr("/none: "), HasSubstr("/neither: ")));
  EXPECT_EQ(stats("stats {}/a.safetensors --since-from=tp2").code, 2);
  EXPECT_EQ(stats("stats {}/a.safetensors --histogram --format=json").code, 2);
}

}  // namespace stats_command_test
}  // namespace scalai::store
