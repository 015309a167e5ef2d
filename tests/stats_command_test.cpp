// `scalai checkpoint stats` as its users run it: the real program on tiny models.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ptc/checkpoint/views/testing/test_model.h"

namespace scalai::checkpoint {
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
  EXPECT_EQ(one["change"],
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

// Hosts are this machine behind a launcher that, as ssh does, gives its words to a shell. The same digits on any of them.
TEST_F(StatsCommand, HostsLookAtSharesOfTheTensors) {
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
}  // namespace scalai::checkpoint
