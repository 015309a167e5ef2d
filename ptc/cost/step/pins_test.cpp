// Pins, and what a search refuses.

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;
using collection::ParallelConfig;

// --- pins ------------------------------------------------------------------------------------------------------------

TEST(Pins, AreWhatALayoutNames) {
  const Pins pins = parse_pins("tp8,cp1,zero0").value();
  EXPECT_EQ(pins.tp, 8);
  EXPECT_EQ(pins.cp, 1);
  EXPECT_EQ(pins.zero, 0);
  EXPECT_FALSE(pins.pp || pins.dp || pins.ep || pins.etp || pins.vpp);
  const Pins others = parse_pins("pp2-ep4-etp2-dp8-stages=3:5").value();
  EXPECT_EQ(others.pp, 2);
  EXPECT_EQ(others.ep, 4);
  EXPECT_EQ(others.etp, 2);
  EXPECT_EQ(others.dp, 8);
  EXPECT_EQ(others.vpp, 1);  // two stages are listed
  EXPECT_EQ(others.stages, std::vector<int>({3, 5}));
  EXPECT_FALSE(others.tp || others.cp);
  EXPECT_EQ(parse_pins("dp2,order=pp-tp-cp-dp")->order.front(), "pp");
  EXPECT_EQ(parse_pins("ep4")->ep, 4);  // what it divides is left open
  EXPECT_FALSE(parse_pins("tp8,tp4").ok());
  EXPECT_FALSE(parse_pins("stages=3:5").ok());
}

TEST(Pins, AreKept) {
  SearchSpace space = space_of(64, 256, 4096);
  space.host = host_of(8);
  space.pins = parse_pins("tp16,pp2,zero0").value();  // beyond a host: only where it is asked for
  space.pins.micro_batch = 1;
  space.pins.recompute = Recompute::kFull;
  ModelShape model = named("llama3-70b");
  model.kv_heads = 16;
  space.memory_bytes = 1000 * kGiB;
  const auto found = search(model, space);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(found->best.empty());
  for (const Candidate& c : found->best) {
    EXPECT_EQ(std::tie(c.config.tp, c.config.pp, c.config.zero), std::make_tuple(16, 2, 0));
    EXPECT_EQ(c.training.micro_batch, 1);
    EXPECT_EQ(c.training.recompute, Recompute::kFull);
  }
}

TEST(Pins, OfAConfigurationLeaveItAlone) {
  const ParallelConfig config = collection::parse_layout("tp4,pp4,dp2,cp2,vpp2,zero1,order=tp-dp-cp-pp").value();
  SearchSpace space = space_of(64, 256, 4096);
  space.pins = pins_of(config);
  const auto found = search(named("llama3-8b"), space);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const Candidate& c : found->best) EXPECT_EQ(c.config, config);
}

// --- what cannot be --------------------------------------------------------------------------------------------------

std::string refusal(const ModelShape& model, const SearchSpace& space) {
  const auto found = search(model, space);
  EXPECT_FALSE(found.ok());
  EXPECT_EQ(exit_code_of(found.status()), 3);
  return message_of(found.status());
}

TEST(Refusal, NamesEverySizeOfNothing) {
  SearchSpace space;
  space.micro_batches = {0};
  space.zero_stages = {4};
  space.host.gpus = 0;
  space.keep = 0;
  space.base.global_batch = 0;
  const std::string text = refusal(named("llama3-8b"), space);
  for (const char* part : {"0 GPUs", "a host has at least one GPU", "global batch", "micro-batch has at least", "not 4",
                           "at least one configuration"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Refusal, NamesEveryPinThatDoesNotDivide) {
  SearchSpace space = space_of(64, 100, 1000);
  space.pins = parse_pins("tp6,pp99,cp16,dp7,ep2,vpp2").value();
  const std::string text = refusal(named("llama3-8b"), space);
  for (const char* part : {"tp6 does not divide the 32 attention", "feed-forward", "198 pipeline stages",
                           "ep2 needs experts", "cp16", "no multiple of dp · micro-batch = 7", "GPUs, there are 64"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  space = space_of(64, 128, 1024);
  space.pins = parse_pins("ep3,etp5,dp24").value();
  space.pins.order = {"tp", "pp", "cp", "dp"};
  const std::string experts = refusal(named("mixtral-8x7b"), space);
  for (const char* part : {"ep3 does not divide the 8 experts", "etp5", "pp first or last", "does not divide 64"})
    EXPECT_NE(experts.find(part), std::string::npos) << part << "\n" << experts;
}

TEST(Refusal, OfTwoBWWithChunksAndOfPositionsThatAreNotThere) {
  SearchSpace space = space_of(8, 64, 1024);
  space.base.schedule = Schedule::kTwoBW;
  space.pins.vpp = 2;
  EXPECT_NE(refusal(named("llama3-8b"), space).find("vpp interleaves 1f1b, not 2bw"), std::string::npos);
  space = space_of(8, 64, 4096);
  EXPECT_NE(refusal(named("gpt3-xl"), space).find("longer than the 2048 positions"), std::string::npos);
}

TEST(Refusal, SaysWhatWouldDivide) {
  SearchSpace space = space_of(7, 8, 1024);
  space.pins.pp = 1;
  EXPECT_NE(refusal(named("llama3-8b"), space).find("fewer GPUs do"), std::string::npos);
  space = space_of(120, 1024, 8192);
  space.pins = parse_pins("tp8,pp1,cp1").value();
  EXPECT_NE(refusal(named("llama3-8b"), space).find("fewer GPUs do, and a batch of 1020 does (batch_tolerance 0.004)"),
            std::string::npos)
      << refusal(named("llama3-8b"), space);
  space = space_of(8, 6, 1024);
  space.micro_batches = {4};
  EXPECT_NE(refusal(named("llama3-8b"), space).find("smaller micro-batches than 4 do"), std::string::npos);
}

TEST(Search, ConvolutionsAreDataParallel) {
  SearchSpace space = space_of(8, 256, 1);
  const auto found = search(named("resnet-50"), space);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const Candidate& c : found->best) EXPECT_EQ(c.config.dp, 8);
  // Nothing is recomputed, so nothing is listed more than once for it.
  std::set<std::string> listed;
  for (const Candidate& c : found->best) {
    EXPECT_EQ(c.training.recompute, Recompute::kNone);
    EXPECT_TRUE(listed.insert(canonical(c.config) + " " + std::to_string(c.training.micro_batch)).second);
  }
  space.recomputes = {Recompute::kFull};
  EXPECT_NE(refusal(named("resnet-50"), space).find("recomputation is not modelled"), std::string::npos);
  space.pins.tp = 2;
  EXPECT_NE(refusal(named("resnet-50"), space).find("data parallelism alone"), std::string::npos);
}

TEST(Search, ZeroWithNobodyToShareWithIsListedOnce) {
  SearchSpace space = space_of(8, 64, 4096);
  space.zero_stages = {0, 1};
  space.pins = parse_pins("tp8,pp1").value();
  const auto found = search(named("llama3-8b"), space);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const Candidate& c : found->best) EXPECT_EQ(c.config.zero, 0);
  EXPECT_FALSE(found->best.empty());
}

TEST(Pins, OfChunksNeedAPipeline) {
  SearchSpace space = space_of(8, 64, 4096);
  space.pins = parse_pins("vpp2").value();
  const auto found = search(named("llama3-8b"), space);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const Candidate& c : found->best) EXPECT_GT(c.config.pp, 1) << canonical(c.config);
  EXPECT_FALSE(found->best.empty());
}

}  // namespace
}  // namespace scalai::step
