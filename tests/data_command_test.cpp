// `scalai data` as its users run it: indexes of all formats, and which rank reads what.

#include <map>
#include <set>

#include "nlohmann/json.hpp"
#include "ptc/data/testing/test_data.h"
#include "tests/end_to_end.h"

namespace {

using nlohmann::json;
using namespace scalai::testing;
namespace test = scalai::data::test;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class DataCommand : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    write("a.bin", test::tokens_bytes(0, 60));
    write("a.idx", test::idx_bytes(4, 4, std::vector<int32_t>(6, 10), {2, 1, 3}));
    write("b.bin", test::tokens_bytes(60, 43));
    write("b.idx", test::idx_bytes(4, 4, {43}, {1}));
    write("f", std::string(1000, 'x'));
    write("r", test::record_bytes("one") + test::record_bytes("three"));
    write("t", test::tar_member("k.x", "1") + test::tar_member("k.y", "2") + test::tar_member("README", "") +
                   test::tar_member("l.x", "3") + test::tar_end());
  }
  void write(const std::string& name, const std::string& bytes) const { write_all(folder_ / name, bytes); }
  Outcome data(const std::string& words) const {
    return shell(fmt::format("cd '{}' && '{}/scalai' data {}", folder_.string(), kPrograms.string(), words));
  }
  json shown(const std::string& words) const {
    const Outcome outcome = data("show --format=json " + words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
  void index(const std::string& words) const {
    const Outcome outcome = data("index " + words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "") << "no progress without a terminal";
  }
  void expect_refused(const std::string& words, int code, const std::string& part) const {
    const Outcome outcome = data(words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(has(outcome.err, part)) << words << "\n" << outcome.err;
  }
};

TEST_F(DataCommand, IndexesEveryKind) {
  const Outcome megatron = data("index --kind=megatron a b.bin --out=m.index");
  EXPECT_EQ(megatron.code, 0) << megatron.err;
  EXPECT_TRUE(megatron.out.starts_with("m.index: 4 documents in 2 megatron files, 412 B\ndigest ")) << megatron.out;
  EXPECT_TRUE(has(megatron.out, "103 tokens\n"));
  index("--kind=tfrecord r --out=r.index");
  index("--kind=fixed --record-bytes=10 f --out=f.index");
  const Outcome tar = data("index --kind=tar t --out=t.index --format=json");
  const json built = json::parse(tar.out);
  EXPECT_EQ(built["documents"], 2);
  EXPECT_EQ(built["members_left_out"], 1);
  EXPECT_EQ(shown("t.index")["digest"], built["digest"]);
  EXPECT_EQ(shown("f.index")["samples"], 100);
  EXPECT_EQ(shown("r.index")["files"][0]["location"], "r");
  EXPECT_EQ(shown("m.index --sequence=20")["samples"], 5);
  EXPECT_EQ(shown("m.index --sequence=20")["tokens_dropped"], 2);
  for (const char* name : {"m", "r", "f", "t"}) {
    const Outcome checked = data(fmt::format("show {}.index --verify", name));
    EXPECT_EQ(checked.code, 0) << checked.err;
    EXPECT_TRUE(has(checked.err, "checked: the index is whole")) << checked.err;
  }
}

// Whatever dp is, the ranks of a step read the same batch in the same order; all steps of a pass read each sample once.
TEST_F(DataCommand, ABatchDoesNotDependOnDp) {
  index("--kind=fixed --record-bytes=10 f --out=f.index");
  std::vector<json> batches;
  for (const int dp : {1, 3, 7, 12}) {
    const json all = shown(fmt::format("f.index --dp={} --global-batch=9 --steps=12 --seed=5", dp));
    EXPECT_EQ(all["reads"].size(), static_cast<size_t>(12 * dp));
    json ids = json::array();
    for (const json& read : all["reads"]) {
      for (const json& id : read["samples"]) ids.push_back({read["step"], id});
    }
    batches.push_back(ids);
    EXPECT_EQ(ids, batches.front()) << dp;
  }
  std::set<int> seen;
  for (const json& id : batches.front()) seen.insert(id[1].get<int>());
  EXPECT_EQ(batches.front().size(), 100u);
  EXPECT_EQ(seen.size(), 100u);
}

TEST_F(DataCommand, ARankSaysWhereItsSamplesLie) {
  index("--kind=megatron a b --out=m.index");
  const json all = shown("m.index --sequence=20 --no-shuffle --dp=2 --global-batch=5 --rank=1");
  const json expected = {{{{"bytes", 84}, {"file", 1}, {"offset", 0}}}, {{{"bytes", 84}, {"file", 1}, {"offset", 80}}}};
  ASSERT_EQ(all["reads"].size(), 1u);
  EXPECT_EQ(all["reads"][0]["samples"], json({3, 4}));
  EXPECT_EQ(all["reads"][0]["extents"], expected);
  EXPECT_EQ(all["state"]["consumed"], 0);
  const Outcome csv = data("show m.index --sequence=20 --no-shuffle --dp=2 --global-batch=5 --rank=0 --format=csv");
  EXPECT_EQ(csv.out,
            "step,pass,rank,position,sample,file,offset,bytes\n0,0,0,0,0,0,0,84\n0,0,0,1,1,0,80,84\n"
            "0,0,0,2,2,0,160,80\n0,0,0,2,2,1,0,4\n");
}

TEST_F(DataCommand, TheTableNamesTheSeedAndTheState) {
  index("--kind=fixed --record-bytes=10 f --out=f.index");
  const Outcome table = data("show f.index --dp=4 --global-batch=30 --step=3 --steps=2 --seed=7 --drop-last");
  EXPECT_TRUE(has(table.out, "100 samples a pass, global batch 30, drop last, shuffled with seed 7\n")) << table.out;
  EXPECT_TRUE(has(table.out, "\"step\":3,\"pass\":1,\"consumed\":0}\n")) << table.out;
  EXPECT_FALSE(has(table.out, "…")) << table.out;
  EXPECT_TRUE(has(data("show f.index --dp=3 --global-batch=30").out, "…")) << "ten ids do not fit";
  EXPECT_EQ(table.err, "");
  const Outcome csv =
      data("show f.index --dp=4 --global-batch=30 --step=3 --steps=2 --seed=7 --drop-last --format=csv");
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 9) << csv.out;
  EXPECT_FALSE(has(csv.out, "…"));
}

TEST_F(DataCommand, AStateIsGoneOnWith) {
  index("--kind=fixed --record-bytes=10 f --out=f.index");
  const json before = shown("f.index --dp=4 --global-batch=30 --step=2 --seed=7");
  // Another batch from step 2 on: it begins where step 1 has ended.
  json state = before["state"];
  state["global_batch"] = 8;
  write("state.json", state.dump());
  const json after = shown("f.index --dp=2 --state=state.json --steps=2");
  ASSERT_EQ(after["reads"].size(), 4u);
  EXPECT_EQ(after["reads"][0]["step"], 2);
  EXPECT_EQ(after["reads"][0]["begin"], 60);
  EXPECT_EQ(after["reads"][1]["end"], 68);
  EXPECT_EQ(after["reads"][2]["begin"], 68);
  EXPECT_EQ(after["reads"][0]["samples"][0], before["reads"][0]["samples"][0]) << "the order of the state's seed";
  expect_refused("show f.index --dp=2 --state=state.json --step=1", 3,
                 "step 1 is before the state, which begins with step 2");
  expect_refused("show f.index --dp=2 --state=state.json --global-batch=4", 2,
                 "--global-batch is what --state says already");
  expect_refused("show f.index --state=state.json", 2, "go together");
  write("state.json", R"({"schema_version":1})");
  expect_refused("show f.index --dp=2 --state=state.json", 3, "state.json: ");
  state["samples"] = 99;
  write("state.json", state.dump());
  expect_refused("show f.index --dp=2 --state=state.json", 3, "--state is of 99 samples");
  index("--kind=fixed --record-bytes=5 f --out=other.index");
  expect_refused("show other.index --dp=2 --state=state.json", 3, "--state is of the index with digest");
  expect_refused("show f.index --dp=2 --state=none.json", 4, "none.json");
}

TEST_F(DataCommand, WhatCannotBeIsRefused) {
  index("--kind=fixed --record-bytes=10 f --out=f.index");
  index("--kind=tfrecord r --out=r.index");
  expect_refused("", 2, "a command is missing");
  expect_refused("indx", 2, "did you mean index?");
  expect_refused("index f --out=x", 2, "--kind=megatron|tfrecord|tar|fixed is needed");
  expect_refused("index --kind=tar t", 2, "--out=INDEX is needed");
  expect_refused("index --kind=fixed f --out=x", 2, "needs --record-bytes");
  expect_refused("index --kind=tar t --record-bytes=5 --out=x", 2, "is for --kind=fixed");
  expect_refused("index --kind=zip t --out=x", 2, "zip");
  expect_refused("index --kind=fixed --record-bytes=0 f --out=x", 3, "1 or more");
  expect_refused("index --kind=fixed --record-bytes=7 f --out=x", 3,
                 "f: its 1000 bytes are 142 records of 7 bytes and 6 more");
  expect_refused("index --kind=tfrecord t --out=x", 3,
                 "t: record 0 at byte 0: the checksum of its length does not fit");
  expect_refused("index --kind=tfrecord none --out=x", 4, "none");
  expect_refused("show none", 4, "none");
  expect_refused("show f", 3, "f: is no index");
  expect_refused("show f.index --dp=4", 2, "go together");
  expect_refused("show f.index --rank=1", 2, "--rank needs --dp");
  expect_refused("show f.index --dp=0 --global-batch=4", 2, "--dp takes 1");
  expect_refused("show f.index --dp=4 --global-batch=0", 3, "/global_batch: must be from 1");
  expect_refused("show f.index --dp=4 --global-batch=200 --drop-last", 3, "has no batch of 200");
  expect_refused("show f.index --dp=4 --global-batch=4 --rank=4", 2, "--rank must be less");
  expect_refused("show f.index --dp=4 --global-batch=4 --steps=0", 2, "--steps takes 1");
  expect_refused("show f.index --dp=4 --global-batch=4 --steps=1099511627776", 3, "ask for fewer steps");
  expect_refused("show f.index --dp=16777216 --global-batch=4", 3, "ask for fewer steps or for one rank");
  expect_refused("show f.index --sequence=8", 3, "has no tokens");
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  write("r", test::record_bytes("One") + test::record_bytes("three"));
  expect_refused("show r.index --verify", 3, "was written since it was indexed");
}

TEST_F(DataCommand, HelpIsThere) {
  EXPECT_TRUE(has(scalai("--help").out, "data"));
  EXPECT_TRUE(has(scalai("help data").out, "which rank reads what"));
  EXPECT_TRUE(has(data("--help").out, "show"));
  EXPECT_TRUE(has(data("index --help").out, "--record-bytes=N"));
  EXPECT_TRUE(has(data("help show").out, "--global-batch=N"));
}

}  // namespace
