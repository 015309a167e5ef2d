#include "executor/worker/sample_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "executor/worker/testing/support.h"
#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/index.h"

namespace scalai::executor::worker {
namespace {

using ::testing::HasSubstr;

datasets::State dataset(int64_t samples, int64_t batch, bool drop_last = false) {
  return {.samples = samples, .seed = 11, .drop_last = drop_last, .global_batch = batch};
}

std::unique_ptr<const SampleReading> open(const datasets::State& state) {
  auto opened = SampleReading::open(datasets::state_text(state), "");
  SCALAI_CHECK(opened.ok(), message_of(opened.status()));
  return *std::move(opened);
}

// All ranks in one step after the other, as a list would be handed out.
std::vector<datasets::SampleAccount> handed_out(const datasets::State& state, int64_t from, int64_t until, int dp) {
  const datasets::Order order(state.samples, state.shuffle, state.seed);
  std::vector<datasets::SampleAccount> accounts(static_cast<size_t>(dp));
  int64_t pass = 0, position = 0;
  for (int64_t step = 0; step < until; ++step) {
    const int64_t size = std::min(state.global_batch, state.samples - position);
    for (int64_t i = 0, rank = 0, given = 0; i < size; ++i) {
      if (step >= from) accounts[static_cast<size_t>(rank)].add(pass, position + i, order.at(pass, position + i));
      const int64_t share = size / dp + (rank < size % dp ? 1 : 0);
      if (++given == share) ++rank, given = 0;
    }
    position += size;
    const int64_t left = state.samples - position;
    if (state.drop_last ? left < state.global_batch : left == 0) ++pass, position = 0;
  }
  return accounts;
}

std::vector<int> all_of(int dp) {
  std::vector<int> ranks;
  for (int rank = 0; rank < dp; ++rank) ranks.push_back(rank);
  return ranks;
}

TEST(SampleReading, EachRankReadsItsShare) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t samples = random.between(1, 100), batch = random.between(1, 20);
    const datasets::State state = dataset(samples, batch, samples >= batch && random.below(2) == 1);
    const int64_t from = random.between(0, 20), until = from + random.between(0, 30);
    const int dp = static_cast<int>(random.between(1, 7));
    const auto reading = open(state);
    const auto accounts = reading->read(from, until, dp, all_of(dp), static_cast<int>(random.between(1, 4)));
    ASSERT_TRUE(accounts.ok()) << accounts.status();
    const std::vector<datasets::SampleAccount> expected = handed_out(state, from, until, dp);
    for (size_t rank = 0; rank < expected.size(); ++rank) {
      EXPECT_EQ((*accounts)[rank].read, expected[rank]) << rank;
      EXPECT_EQ((*accounts)[rank].bytes, 0);
    }
  }
}

TEST(SampleReading, OnlyTheRanksThatAreAskedForInTheirOrder) {
  const datasets::State state = dataset(1000, 64);
  const auto accounts = open(state)->read(3, 40, 4, {2, 0}, 2);
  ASSERT_TRUE(accounts.ok()) << accounts.status();
  const std::vector<datasets::SampleAccount> expected = handed_out(state, 3, 40, 4);
  ASSERT_EQ(accounts->size(), 2u);
  EXPECT_EQ((*accounts)[0].read, expected[2]);
  EXPECT_EQ((*accounts)[1].read, expected[0]);
}

// More than threads take at a time.
TEST(SampleReading, ManySamplesInParts) {
  const datasets::State state = dataset(300'000, 4096);
  const auto accounts = open(state)->read(0, 100, 3, all_of(3), 4);
  ASSERT_TRUE(accounts.ok()) << accounts.status();
  const std::vector<datasets::SampleAccount> expected = handed_out(state, 0, 100, 3);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ((*accounts)[rank].read, expected[rank]);
}

TEST(SampleReading, WhatIsNotThereIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(SampleReading::open("no state", "").status()));
  const auto reading = open(dataset(10, 5));
  EXPECT_THAT(message_of(reading->read(-1, 2, 2, {0}, 1).status()), HasSubstr("no steps from -1 to 2"));
  EXPECT_THAT(message_of(reading->read(3, 2, 2, {0}, 1).status()), HasSubstr("no steps"));
  EXPECT_THAT(message_of(reading->read(0, int64_t{1} << 60, 2, {0}, 1).status()), HasSubstr("no steps"));
  EXPECT_THAT(message_of(reading->read(0, 2, 2, {0, 2}, 1).status()), HasSubstr("not all of these ranks are among 2"));
  EXPECT_THAT(message_of(reading->read(0, 2, 0, {0}, 1).status()), HasSubstr("not all"));
}

// ---- content --------------------------------------------------------------------------------------------------------

class WithContent : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-reading-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    records_ = folder_ + "/records";
    ASSERT_TRUE(write_file(records_, std::string(700, 'x')).ok());
    index_ = build("index", 7);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string build(const std::string& name, int64_t record_bytes) {
    const auto built = datasets::build_index({.format = datasets::Format::kFixed,
                                              .files = {records_},
                                              .out = folder_ + "/" + name,
                                              .record_bytes = record_bytes});
    SCALAI_CHECK(built.ok(), message_of(built.status()));
    return folder_ + "/" + name;
  }
  datasets::State state() const {
    datasets::State state = dataset(100, 8);
    state.index = datasets::Index::open(index_).value()->digest();
    return state;
  }
  std::string folder_, records_, index_;
};

TEST_F(WithContent, BytesAreRead) {
  const auto reading = SampleReading::open(datasets::state_text(state()), index_);
  ASSERT_TRUE(reading.ok()) << reading.status();
  const auto accounts = (*reading)->read(0, 14, 2, all_of(2), 2);  // a pass and a batch
  ASSERT_TRUE(accounts.ok()) << accounts.status();
  const std::vector<datasets::SampleAccount> expected = handed_out(state(), 0, 14, 2);
  EXPECT_EQ((*accounts)[0].read, expected[0]);
  EXPECT_EQ((*accounts)[0].bytes, 7 * expected[0].samples);
  EXPECT_EQ((*accounts)[0].bytes + (*accounts)[1].bytes, 7 * 108);
}

TEST_F(WithContent, AnotherIndexIsRefused) {
  const std::string other = build("other", 5);
  EXPECT_THAT(message_of(SampleReading::open(datasets::state_text(state()), other).status()),
              HasSubstr("another dataset than the job's, which has 100"));
  EXPECT_TRUE(absl::IsNotFound(SampleReading::open(datasets::state_text(state()), folder_ + "/none").status()));
}

TEST_F(WithContent, AChangedDataFileIsAnError) {
  const auto reading = SampleReading::open(datasets::state_text(state()), index_);
  ASSERT_TRUE(reading.ok()) << reading.status();
  ASSERT_TRUE(write_file(records_, std::string(699, 'x')).ok());
  const auto accounts = (*reading)->read(0, 14, 2, all_of(2), 2);
  EXPECT_TRUE(absl::IsInvalidArgument(accounts.status())) << accounts.status();
  EXPECT_THAT(message_of(accounts.status()), HasSubstr("records"));
}

// Until then not even the file has to be there.
TEST_F(WithContent, OpenedOnceAnAgainForAnother) {
  OpenSamples samples;
  const std::string text = datasets::state_text(state());
  ASSERT_TRUE(samples.of(text, index_).ok());
  std::filesystem::rename(index_, index_ + ".away");
  EXPECT_TRUE(samples.of(text, index_).ok());
  EXPECT_TRUE(absl::IsNotFound(samples.of(text, index_ + "2").status()));
  EXPECT_TRUE(absl::IsNotFound(samples.of(text, index_).status())) << "no longer open";
}

// ---- the worker's command -------------------------------------------------------------------------------------------

CommandBody read_body(const datasets::State& state, const std::string& index) {
  CommandBody body;
  CommandBody::Read& read = *body.mutable_read();
  read.set_job(kJob);
  read.set_dataset(datasets::state_text(state));
  read.set_index(index);
  read.set_from_step(5);
  read.set_until_step(20);
  read.set_dp(3);
  read.add_ranks(2);
  read.add_ranks(1);
  return body;
}

TEST_F(WithContent, AWorkerAnswersWithAccounts) {
  SmallCluster cluster({.twice = true});
  const ReplyBody reply = cluster.ask(1, read_body(state(), index_));
  const std::vector<datasets::SampleAccount> expected = handed_out(state(), 5, 20, 3);
  ASSERT_EQ(reply.accounts_size(), 2);
  EXPECT_EQ(reply.accounts(0).rank(), 2);
  EXPECT_EQ(reply.accounts(0).samples(), expected[2].samples);
  EXPECT_EQ(reply.accounts(0).sum_low(), expected[2].sum_low);
  EXPECT_EQ(reply.accounts(0).sum_high(), expected[2].sum_high);
  EXPECT_EQ(reply.accounts(0).bytes(), 7 * expected[2].samples);
  EXPECT_EQ(reply.accounts(1).rank(), 1);
  EXPECT_EQ(reply.accounts(1).sum_low(), expected[1].sum_low);
  // The same job with another dataset.
  const ReplyBody plain = cluster.ask(1, read_body(dataset(50, 6), ""));
  EXPECT_EQ(plain.accounts(0).sum_low(), handed_out(dataset(50, 6), 5, 20, 3)[2].sum_low);
  EXPECT_EQ(plain.accounts(0).bytes(), 0);
}

TEST_F(WithContent, AWorkerRefusesWhatIsNoDataset) {
  SmallCluster cluster;
  CommandBody body = read_body(state(), folder_ + "/none");
  EXPECT_TRUE(absl::IsNotFound(cluster.call(0, body).status()));
  body.mutable_read()->set_dataset("{}");
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status()));
}

}  // namespace
}  // namespace scalai::executor::worker
