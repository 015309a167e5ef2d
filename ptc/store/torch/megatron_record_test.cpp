#include "ptc/store/torch/megatron_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/byte_source.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/torch/pickle.h"
#include "ptc/store/torch/testing/torch_writer.h"
#include "ptc/store/torch/zip.h"

namespace scalai::store {
namespace megatron_record_test {

using ::testing::HasSubstr;
using Kind = PickleValue::Kind;

std::string file_of(const std::string& pickle, const std::string& storage = "") {
  ZipWriter zip;
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/version", "3\n");
  if (!storage.empty()) zip.add("archive/data/0", storage);
  return zip.finish();
}

// The dict of a record, and the storage beside it.
struct Unpacked {
  Pickle pickle;
  std::string storage;
  // What Python's dict would have: the last one of a key.
  static const PickleValue* last(const PickleValue& dict, std::string_view key) {
    const PickleValue* found = nullptr;
    for (const auto& [name, value] : dict.pairs) found = name->text == key ? value : found;
    return found;
  }
};
Unpacked unpacked(const std::string& file) {
  const ByteSourcePtr source = text_source("record", file);
  Unpacked result;
  const absl::StatusOr<std::vector<ZipEntry>> entries = zip_entries(*source);
  SCALAI_CHECK(entries.ok(), message_of(entries.status()));
  for (const ZipEntry& entry : *entries) {
    const std::string content = file.substr(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes));
    if (entry.name.ends_with("data.pkl")) {
      auto read = Pickle::read(content);
      SCALAI_CHECK(read.ok(), message_of(read.status()));
      result.pickle = *std::move(read);
    }
    if (entry.name.ends_with("data/0")) result.storage = content;
  }
  return result;
}

// {"iteration": 7, "args": an object, "content_metadata": {…}, "optimizer": {…}}, in a list or not.
std::string record(bool listed, bool metadata = true) {
  PickleWriter to;
  if (listed) to.op("]");
  to.op("}(").text("iteration").number(7);
  to.text("args").name("argparse", "Namespace").op(")R}").text("lr").real(0.25).op("sb");
  if (metadata) {
    to.text("content_metadata").op("}(").text("distrib_optim_sharding_type").text("dp_reshardable");
    to.text("singleton_local_shards").op("\x89u");
  }
  to.text("optimizer").op("}").text("param_state_sharding_type").text("dp_reshardable").op("s");
  to.op(listed ? "ua." : "u.");
  return file_of(to.bytes(), "bytes of a tensor");
}

// [{"param_groups": [{"lr": rate, "betas": (0.9, 0.999), "fused": None, "capturable": False, "step": -3}]}]
std::string optimizer(double rate) {
  PickleWriter to;
  to.op("]}").text("param_groups").op("]}(").text("lr").real(rate).text("betas").op("(").real(0.9).real(0.999).op("t");
  to.text("fused").op("N").text("capturable").op("\x89").text("dtype").name("torch", "float32").text("step").number(-3);
  return file_of(to.op("uasa.").bytes());
}

const PickleValue& groups_of(const PickleValue& optimizer) {
  EXPECT_EQ(optimizer.find("param_state_sharding_type")->text, "fully_reshardable");
  return *optimizer.find("optimizer")->find("param_groups")->items.at(0);
}

TEST(MegatronRecord, TakesTheOptimizersGroups) {
  for (const bool listed : {false, true}) {
    SCOPED_TRACE(listed ? "listed" : "a dict");
    const std::vector<std::string> one = {optimizer(0.5)};
    const auto changed = with_optimizers(record(listed), one);
    ASSERT_TRUE(changed.ok()) << message_of(changed.status());
    const Unpacked result = unpacked(*changed);
    EXPECT_EQ(result.storage, "bytes of a tensor");
    const PickleValue& root = result.pickle.root();
    EXPECT_EQ(root.kind, listed ? Kind::kList : Kind::kDict);
    const PickleValue& dict = listed ? *root.items.at(0) : root;
    EXPECT_EQ(dict.find("iteration")->number, 7);
    EXPECT_EQ(dict.find("args")->attribute("lr")->real, 0.25) << "unread, and as it was";
    const PickleValue& group = groups_of(*Unpacked::last(dict, "optimizer"));
    EXPECT_EQ(group.find("lr")->real, 0.5);
    EXPECT_EQ(group.find("betas")->kind, Kind::kTuple);
    EXPECT_EQ(group.find("betas")->items.at(1)->real, 0.999);
    EXPECT_EQ(group.find("fused")->kind, Kind::kNone);
    EXPECT_EQ(group.find("capturable")->kind, Kind::kBool);
    EXPECT_EQ(group.find("dtype")->text, "torch.float32");
    EXPECT_EQ(group.find("step")->number, -3);
    const PickleValue& metadata = *Unpacked::last(dict, "content_metadata");
    EXPECT_EQ(metadata.find("distrib_optim_sharding_type")->text, "fully_reshardable");
    EXPECT_EQ(metadata.find("chained_optim_avoid_prefix")->number, 1);
    EXPECT_EQ(metadata.find("singleton_local_shards")->number, 0);
  }
}

TEST(MegatronRecord, SeveralOptimizersAreNumbered) {
  const std::vector<std::string> two = {optimizer(0.5), optimizer(0.125)};
  const auto changed = with_optimizers(record(true, false), two);
  ASSERT_TRUE(changed.ok()) << message_of(changed.status());
  const Unpacked result = unpacked(*changed);
  const PickleValue& dict = *result.pickle.root().items.at(0);
  EXPECT_EQ(dict.find("content_metadata"), nullptr);
  const PickleValue& all = *Unpacked::last(dict, "optimizer");
  ASSERT_EQ(all.pairs.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all.pairs[i].first->number, static_cast<int64_t>(i));
    EXPECT_EQ(groups_of(*all.pairs[i].second).find("lr")->real, i == 0 ? 0.5 : 0.125);
  }
}

// {"iteration": 7, "args": an object, "optimizer": … or a list of two, "opt_param_scheduler": {"max_lr": 0.25}}
TEST(MegatronRecord, IsMadeOfARanksFile) {
  for (const bool several : {false, true}) {
    SCOPED_TRACE(several ? "several" : "one");
    PickleWriter to;
    to.op("}(").text("iteration").number(7).text("args").name("argparse", "Namespace").op(")R");
    to.text("optimizer").op(several ? "](" : "");
    for (int i = 0; i < (several ? 2 : 1); ++i) {
      to.op("}").text("optimizer").op("}").text("param_groups").op("]}(").text("lr").real(0.5 + i).op("uass");
    }
    to.op(several ? "e" : "").text("opt_param_scheduler").op("}").text("max_lr").real(0.25).op("su.");
    const auto made = record_of_rank(*text_source("rank", file_of(to.bytes(), "bytes of a tensor")));
    ASSERT_TRUE(made.ok()) << message_of(made.status());
    const Unpacked result = unpacked(*made);
    const PickleValue& dict = result.pickle.root();
    EXPECT_EQ(dict.find("iteration")->number, 7);
    EXPECT_EQ(dict.find("args"), nullptr);
    EXPECT_EQ(dict.find("opt_param_scheduler")->find("max_lr")->real, 0.25);
    EXPECT_EQ(dict.find("content_metadata")->find("distrib_optim_sharding_type")->text, "fully_reshardable");
    const PickleValue& optimizer = *dict.find("optimizer");
    if (several) {
      ASSERT_EQ(optimizer.pairs.size(), 2U);
      EXPECT_EQ(groups_of(*optimizer.pairs[1].second).find("lr")->real, 1.5);
    } else {
      EXPECT_EQ(groups_of(optimizer).find("lr")->real, 0.5);
    }
  }
  const std::string without = file_of(PickleWriter().op("}").text("iteration").number(7).op("s.").bytes());
  EXPECT_THAT(message_of(record_of_rank(*text_source("rank", without)).status()),
              HasSubstr("rank: no dict with an optimizer"));
}

TEST(MegatronRecord, WhatIsNoSuchFileIsRefused) {
  const std::vector<std::string> one = {optimizer(0.5)};
  const auto problem = [&](const std::string& of, const std::vector<std::string>& optimizers) {
    return message_of(with_optimizers(of, optimizers).status());
  };
  EXPECT_THAT(problem("no archive", one), HasSubstr("Megatron's record"));
  EXPECT_THAT(problem(file_of(PickleWriter().number(3).op(".").bytes()), one), HasSubstr("no dict"));
  EXPECT_THAT(problem(record(true), {record(true)}), HasSubstr("not plain"))
      << "an object among the optimizer's values";
  EXPECT_THAT(problem(record(true), {"no archive"}), HasSubstr("Megatron's record"));
}

TEST(MegatronRecord, ListsThatShareListsEnd) {
  PickleWriter to;
  to.op("]}").text("param_groups").op("]");
  constexpr int kLists = 30;
  for (int i = 0; i < kLists; ++i) {
    // A list of the one before, twice: put it into the memo, take it twice.
    to.op("q").op(std::string(1, static_cast<char>(200 + i))).op("0](");
    for (int twice = 0; twice < 2; ++twice) to.op("h").op(std::string(1, static_cast<char>(200 + i)));
    to.op("e");
  }
  const std::vector<std::string> one = {file_of(to.op("sa.").bytes())};
  EXPECT_THAT(message_of(with_optimizers(record(true), one).status()), HasSubstr("too many values"));
}

TEST(MegatronRecord, ManyEditsAreToldOrHarmless) {
  constexpr uint64_t kSeed = 20261127;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::vector<std::string> inputs = {record(true), optimizer(0.5)};
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> edited = inputs;
    std::string& bytes = edited[static_cast<size_t>(random.below(2))];
    for (int64_t edits = random.between(1, 4); edits > 0; --edits)
      bytes[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] =
          static_cast<char>(random.below(256));
    (void)with_optimizers(edited[0], std::span(&edited[1], 1));
  }
}

}  // namespace megatron_record_test
}  // namespace scalai::store
