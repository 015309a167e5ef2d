#include "ptc/cost/step/internal/no_fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;

// --- nothing fits ----------------------------------------------------------------------------------------------------

// The remedy that begins so; "" = not offered.
std::string remedy(const SearchResult& found, const std::string& start) {
  for (const std::string& text : found.no_fit->remedies) {
    if (text.starts_with(start)) return text;
  }
  return "";
}

// Whether twice as many GPUs is what it takes, or four times.
class NoFitOn : public ::testing::TestWithParam<int> {};

TEST_P(NoFitOn, NamesTheTightestTermAndRemediesThatWork) {
  const ModelShape model = named("llama3-70b");
  SearchSpace space = space_of(GetParam(), 64, 8192);
  space.micro_batches = {4, 8};
  space.recomputes = {Recompute::kNone};
  const SearchResult found = search(model, space).value();
  ASSERT_TRUE(found.no_fit);
  EXPECT_TRUE(found.best.empty());
  const NoFit& no_fit = *found.no_fit;
  EXPECT_GT(no_fit.nearest.memory_bytes, 80.0 * kGiB);
  EXPECT_DOUBLE_EQ(no_fit.memory.bytes(), no_fit.nearest.memory_bytes);
  const StageMemory& worst = no_fit.memory.worst();
  for (const MemoryTerm& term : worst.terms) EXPECT_LE(term.bytes, worst.bytes(no_fit.tightest_term));

  // What is offered fits when it is searched.
  SearchSpace changed = space;
  changed.recomputes = {Recompute::kFull};
  EXPECT_EQ(remedy(found, "full recomputation:").empty(), search(model, changed)->best.empty());
  changed = space;
  changed.micro_batches = {1};
  EXPECT_EQ(remedy(found, "micro-batches of 1 sample:").empty(), search(model, changed)->best.empty());
  for (int gpus = 2 * GetParam(); gpus <= 1024; gpus *= 2) {
    changed = space;
    changed.gpus = gpus;
    const bool fits = !search(model, changed)->best.empty();
    EXPECT_EQ(remedy(found, fmt::format("{} GPUs", gpus)).empty(), !fits) << gpus;
    if (fits) break;
  }
  changed = space;
  changed.memory_bytes = static_cast<int64_t>(std::ceil(no_fit.nearest.memory_bytes));
  EXPECT_FALSE(search(model, changed)->best.empty());
  --changed.memory_bytes;
  EXPECT_TRUE(search(model, changed)->best.empty());
  EXPECT_NE(remedy(found, "GPUs of ").find("the smallest known is"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Gpus, NoFitOn, ::testing::Values(16, 32));

TEST(NoFit, OffersZeroOtherAxesAndAllTogether) {
  const ModelShape model = named("llama3-8b");
  SearchSpace space = space_of(8, 64, 8192);
  space.pins = parse_pins("tp1,pp1,cp1").value();
  space.zero_stages = {0};
  space.recomputes = {Recompute::kFull};
  space.micro_batches = {1};
  SearchResult found = search(model, space).value();
  ASSERT_TRUE(found.no_fit);
  EXPECT_NE(remedy(found, "ZeRO stage 1"), "");
  EXPECT_NE(remedy(found, "other sizes of the pinned axes"), "");
  EXPECT_EQ(remedy(found, "full recomputation:"), "");  // it is on already

  space = space_of(8, 64, 8192);
  space.pins = parse_pins("tp8,pp1,cp1").value();
  space.micro_batches = {16};
  space.recomputes = {Recompute::kNone};
  space.memory_bytes = 20 * kGiB;
  space.pins.zero = 1;
  found = search(model, space).value();
  ASSERT_TRUE(found.no_fit);
  EXPECT_EQ(found.no_fit->tightest_term, memory_term::kActivations);
}

TEST(NoFit, LeastMemoryIsThatOfThePointThatGoesFirst) {
  internal::LeastMemory least;
  least.consider({.tp = 2, .pp = 1}, 10);
  least.consider({.tp = 1, .pp = 2}, 10);
  least.consider({.tp = 1, .pp = 4}, 11);
  EXPECT_EQ(least.point->tp, 1);
  EXPECT_EQ(least.bytes, 10);
}

}  // namespace
}  // namespace scalai::step
