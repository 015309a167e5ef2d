#include "ptc/store/datasets/views/rank_view.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "ptc/store/datasets/views/internal/shard_image.h"
#include "ptc/store/datasets/views/testing/test_dataset.h"

namespace scalai::datasets {
namespace {

using internal::TestDataset;
using internal::TestSample;
using testing::HasSubstr;

struct Job {
  int64_t sequence = 0;
  int64_t global_batch = 1;
  bool shuffle = true;
  bool drop_last = false;
  int64_t step = 0;
};

class RankViewTest : public internal::FolderTest {
 protected:
  void open(TestDataset dataset, const Job& job) {
    dataset_ = std::move(dataset);
    job_ = job;
    samples_ = *Samples::make(dataset_.index, job.sequence);
    files_ = std::make_shared<DataFiles>(dataset_.index, internal::counting_opener(reads_));
    State first = {.index = dataset_.index->digest(),
                   .samples = samples_->count(),
                   .sequence = job.sequence,
                   .seed = 11,
                   .shuffle = job.shuffle,
                   .drop_last = job.drop_last,
                   .global_batch = job.global_batch};
    state_ = Steps(first).at(job.step);
  }
  std::shared_ptr<const RankView> view(DpRank who) const {
    const auto made =
        RankView::make({.samples = samples_, .files = files_, .state = state_, .who = who, .tables = tables_});
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    return *made;
  }

  // The rank's samples by walking through all batches.
  std::vector<TestSample> walk(DpRank who) const {
    const std::vector<TestSample> all = internal::samples_of(dataset_, job_.sequence);
    const Order order(state_.samples, state_.shuffle, state_.seed);
    std::vector<TestSample> mine;
    for (int64_t at = state_.consumed; at < state_.samples; at += state_.global_batch) {
      const int64_t size = std::min(state_.global_batch, state_.samples - at);
      if (job_.drop_last && size < state_.global_batch) break;
      int64_t begin = at;
      for (int rank = 0; rank < who.rank; ++rank) begin += size / who.dp + (rank < size % who.dp ? 1 : 0);
      const int64_t count = size / who.dp + (who.rank < size % who.dp ? 1 : 0);
      for (int64_t i = begin; i < begin + count; ++i) {
        mine.push_back(all[static_cast<size_t>(order.at(state_.pass, i))]);
      }
    }
    return mine;
  }

  // The files by concatenation.
  std::vector<std::pair<std::string, std::string>> expected(DpRank who) const {
    const std::vector<TestSample> mine = walk(who);
    std::vector<std::pair<std::string, std::string>> files;
    for (size_t at = 0; at < mine.size(); at += 8192) {
      const std::span<const TestSample> shard = std::span(mine).subspan(at, std::min<size_t>(8192, mine.size() - at));
      std::string data;
      for (const TestSample& sample : shard) data += sample.bytes;
      const std::string name = fmt::format("shard_{:05}", at / 8192);
      switch (dataset_.format) {
        case Format::kTar: files.push_back({name + ".tar", data + std::string(1024, '\0')}); break;
        case Format::kTfRecord: files.push_back({name + ".tfrecord", data}); break;
        default: files.push_back({name + ".bin", data});
      }
      if (dataset_.format == Format::kMegatron) files.push_back({name + ".idx", internal::idx_of(shard)});
    }
    return files;
  }

  void compare(DpRank who, Random& random) const {
    SCOPED_TRACE(fmt::format("rank {} of {}", who.rank, who.dp));
    const std::vector<std::pair<std::string, std::string>> wanted = expected(who);
    const std::shared_ptr<const RankView> shown = view(who);
    ASSERT_EQ(shown->files(), static_cast<int64_t>(wanted.size()));
    for (int64_t file = 0; file < shown->files(); ++file) {
      const auto& [name, bytes] = wanted[static_cast<size_t>(file)];
      SCOPED_TRACE(name);
      ASSERT_EQ(shown->file_name(file), name);
      EXPECT_EQ(shown->find(name), file);
      ASSERT_EQ(*shown->file_bytes(file), static_cast<int64_t>(bytes.size()));
      const absl::StatusOr<ByteSourcePtr> image = shown->open(file);
      ASSERT_TRUE(image.ok());
      ASSERT_EQ((*image)->size(), static_cast<int64_t>(bytes.size()));
      ASSERT_TRUE(*read_all(**image) == bytes);
      for (int i = 0; i < 40; ++i) {
        const int64_t at = random.between(0, (*image)->size());
        const int64_t count = std::min((*image)->size() - at, random.between(0, i % 2 == 0 ? 50 : 20000));
        ASSERT_TRUE(internal::read_text(**image, at, count) ==
                    bytes.substr(static_cast<size_t>(at), static_cast<size_t>(count)))
            << at << " " << count;
      }
    }
  }

  TestDataset dataset_;
  Job job_;
  std::shared_ptr<const Samples> samples_;
  std::shared_ptr<int64_t> reads_ = std::make_shared<int64_t>(0);
  std::shared_ptr<const DataFiles> files_;
  std::shared_ptr<ShardTables> tables_ = std::make_shared<ShardTables>();
  State state_;
};

constexpr Format kFormats[] = {Format::kMegatron, Format::kTfRecord, Format::kTar, Format::kFixed};

TEST_F(RankViewTest, SmallDatasetsOfEveryFormatEqualTheConcatenation) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Format format = kFormats[seed % 4];
    const internal::TestShape shape = {
        .format = format, .documents = random.between(3, 120), .files = static_cast<int>(random.between(1, 3))};
    Job job = {.global_batch = random.between(1, 40),
               .shuffle = random.below(3) > 0,
               .drop_last = random.below(2) == 0,
               .step = random.between(0, 12)};
    if (format == Format::kMegatron && random.below(2) == 0) job.sequence = random.between(1, 25);
    TestDataset dataset = internal::make_dataset(next_folder(), shape, random);
    if (job.drop_last) {
      const auto count = static_cast<int64_t>(internal::samples_of(dataset, job.sequence).size());
      job.global_batch = std::min(job.global_batch, count);
    }
    open(std::move(dataset), job);
    const int dp = static_cast<int>(random.between(1, 7));
    for (int rank = 0; rank < dp; ++rank) compare({rank, dp}, random);
  }
}

TEST_F(RankViewTest, SeveralShardsOfEveryFormatEqualTheConcatenation) {
  for (const Format format : kFormats) {
    SCOPED_TRACE(std::string(name_of(format)));
    Random random(17);
    const internal::TestShape shape = {.format = format, .documents = 20000, .files = 2, .most_bytes = 12};
    open(internal::make_dataset(next_folder(), shape, random), {.global_batch = 100, .step = 5});
    compare({0, 1}, random);  // 8,192 + 8,192 + 3,116
    compare({1, 2}, random);
  }
  Random random(18);
  const internal::TestShape tokens = {.format = Format::kMegatron, .documents = 6000, .files = 3, .most_bytes = 12};
  for (const bool shuffle : {true, false}) {
    open(internal::make_dataset(next_folder(), tokens, random),
         {.sequence = 3, .global_batch = 64, .shuffle = shuffle, .step = 3});
    compare({0, 1}, random);
  }
}

TEST_F(RankViewTest, EveryPartOfWindowsThatLieInSeveralFiles) {
  Random random(3);
  const internal::TestShape shape = {.format = Format::kMegatron, .documents = 9, .files = 5, .most_bytes = 4};
  for (const bool shuffle : {true, false}) {
    open(internal::make_dataset(next_folder(), shape, random), {.sequence = 7, .global_batch = 4, .shuffle = shuffle});
    const std::string wanted = expected({0, 1})[0].second;
    const ByteSourcePtr image = *view({0, 1})->open(0);
    ASSERT_EQ(image->size(), static_cast<int64_t>(wanted.size()));
    for (size_t at = 0; at < wanted.size(); ++at) {
      for (size_t count = 0; at + count <= wanted.size(); ++count) {
        ASSERT_EQ(internal::read_text(*image, static_cast<int64_t>(at), static_cast<int64_t>(count)),
                  wanted.substr(at, count));
      }
    }
  }
}

TEST_F(RankViewTest, NamesAreFoundOnlyAsTheyAreWritten) {
  Random random(1);
  open(
      internal::make_dataset(next_folder(), {.format = Format::kMegatron, .documents = 20000, .most_bytes = 1}, random),
      {.global_batch = 64});
  const std::shared_ptr<const RankView> shown = view({1, 2});
  EXPECT_EQ(shown->name(), "dp2/step-0/rank_01");
  EXPECT_EQ(RankView::folder_of(7), "rank_07");
  EXPECT_EQ(RankView::folder_of(123), "rank_123");
  EXPECT_EQ(shown->shards(), 2);
  EXPECT_EQ(shown->find("shard_00001.idx"), 3);
  for (const char* name : {"", "shard_", "shard_1.bin", "shard_000001.bin", "shard_00002.bin", "shard_00000",
                           "shard_00000.tar", "shard_-0001.bin", "shard_+0001.bin", "shard_00000.bin ",
                           "shard_00000.binx", "Shard_00000.bin", "shard_99999999999999999999.bin"}) {
    EXPECT_EQ(shown->find(name), std::nullopt) << name;
  }
}

TEST_F(RankViewTest, ARankWithoutSamplesHasNoFile) {
  Random random(1);
  open(internal::make_dataset(next_folder(), {.documents = 10}, random), {.global_batch = 3});
  EXPECT_EQ(view({2, 4})->files(), 1);
  EXPECT_EQ(view({3, 4})->files(), 0);  // batches of 3 and of 1
  EXPECT_EQ(view({3, 4})->find("shard_00000.bin"), std::nullopt);
}

TEST_F(RankViewTest, ManySamplesCostNothingUntilTheyAreRead) {
  const std::string path = next_folder() + "/sparse";
  std::ofstream(path).put('x');
  std::filesystem::resize_file(path, 100'000'000);
  const absl::StatusOr<BuildSummary> built =
      build_index({.format = Format::kFixed, .files = {path}, .out = path + ".index", .record_bytes = 1});
  ASSERT_TRUE(built.ok()) << message_of(built.status());
  open({.format = Format::kFixed, .index = *Index::open(path + ".index")}, {.global_batch = 512, .step = 7});
  const std::shared_ptr<const RankView> shown = view({2, 4});
  EXPECT_EQ(shown->shards(), 3052);
  EXPECT_EQ(*shown->file_bytes(3050), 8192);
  EXPECT_EQ(*shown->file_bytes(3051), 24'999'104 - 3051 * 8192);
  EXPECT_EQ(tables_->bytes(), 0);
  EXPECT_EQ(*reads_, 0);
}

TEST_F(RankViewTest, ReadsInOrderOfTheFilesAreMerged) {
  for (const Format format : kFormats) {
    Random random(2);
    open(internal::make_dataset(next_folder(), {.format = format, .documents = 1000, .files = 2}, random),
         {.sequence = format == Format::kMegatron ? 5 : 0, .global_batch = 10, .shuffle = false});
    const ByteSourcePtr image = *view({0, 1})->open(0);
    for (const int file : {0, 1}) ASSERT_TRUE(files_->source(file).ok());  // which reads their edges
    *reads_ = 0;
    ASSERT_TRUE(read_all(*image).ok());
    EXPECT_LE(*reads_, format == Format::kMegatron ? 3 : 2) << name_of(format);  // a window lies in both files
  }
}

TEST_F(RankViewTest, ACutDataFileIsAnErrorThatNamesSampleAndFile) {
  Random random(4);
  open(internal::make_dataset(next_folder(), {.documents = 50, .files = 2}, random), {.global_batch = 5});
  const ByteSourcePtr image = *view({0, 1})->open(0);
  ASSERT_TRUE(read_all(*image).ok());
  std::filesystem::resize_file(dataset_.files[1], 50);
  int64_t wrong = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t sample = view({0, 1})->sample_at(i);
    const std::string read = internal::read_text(*image, i * internal::kTestRecordBytes, internal::kTestRecordBytes);
    if (read == dataset_.documents[static_cast<size_t>(sample)].bytes) continue;
    ++wrong;
    EXPECT_THAT(read, HasSubstr(fmt::format("dp1/step-0/rank_00/shard_00000.bin: document {}: ", sample)));
    EXPECT_THAT(read, HasSubstr("1.bin: was cut to 50 of its 300 bytes"));
  }
  EXPECT_EQ(wrong, 25);
}

TEST_F(RankViewTest, ADataFileThatChangedBeforeItWasOpenedIsAnError) {
  Random random(4);
  open(internal::make_dataset(next_folder(), {.format = Format::kTfRecord, .documents = 50}, random),
       {.global_batch = 5});
  const ByteSourcePtr image = *view({0, 1})->open(0);
  std::ofstream(dataset_.files[0], std::ios::app) << "more";
  EXPECT_EQ(read_all(*image).status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(dataset_.files[0]);
  EXPECT_EQ(read_all(*image).status().code(), absl::StatusCode::kNotFound);
}

// Not how we replace one; a reader must not take other bytes for its own even then. What was checked and is in memory
// stays good, and what is opened afterwards is refused.
TEST_F(RankViewTest, AnIndexOverwrittenInPlaceGivesNoOtherBytes) {
  Random random(4);
  open(internal::make_dataset(next_folder(), {.format = Format::kMegatron, .documents = 50}, random),
       {.global_batch = 5});
  const ByteSourcePtr bin = *view({0, 1})->open(0), idx = *view({0, 1})->open(1);
  const auto bin_before = read_all(*bin), idx_before = read_all(*idx);
  ASSERT_TRUE(bin_before.ok() && idx_before.ok());
  const std::string zeros(static_cast<size_t>(dataset_.index->sequences() + 1) * 8, '\0');  // sequences without tokens
  std::fstream index(dataset_.index->path(), std::ios::in | std::ios::out | std::ios::binary);
  index.seekp(-static_cast<int64_t>(zeros.size()) - 2 * 16, std::ios::end);  // a checksum a column behind them
  index << zeros << std::flush;
  EXPECT_EQ(read_all(*bin).value(), *bin_before);
  EXPECT_EQ(read_all(*idx).value(), *idx_before);
  dataset_.index = Index::open(dataset_.index->path()).value();
  open(dataset_, job_);
  const auto opened = view({0, 1})->open(0);
  EXPECT_THAT(message_of(opened.status()), HasSubstr("the checksum of block 0 of column 1 does not fit"));
}

TEST_F(RankViewTest, StatesOfOtherDatasetsAreRefused) {
  Random random(4);
  open(internal::make_dataset(next_folder(), {.format = Format::kMegatron, .documents = 50}, random),
       {.sequence = 4, .global_batch = 5});
  const auto problem = [&](const State& state, DpRank who) {
    return message_of(RankView::make({.samples = samples_, .files = files_, .state = state, .who = who}).status());
  };
  State state = state_;
  EXPECT_EQ(problem(state, {0, 1}), "");
  EXPECT_THAT(problem(state, {2, 2}), HasSubstr("there is no rank 2 with dp 2"));
  EXPECT_THAT(problem(state, {-1, 2}), HasSubstr("there is no rank -1"));
  EXPECT_THAT(problem(state, {0, 0}), HasSubstr("dp 0"));
  state.index = std::string(32, 'a');
  EXPECT_THAT(problem(state, {0, 1}), HasSubstr("the state is of index aaaaaaaa"));
  state.index = "";
  EXPECT_THAT(problem(state, {0, 1}), HasSubstr("the state is of no index"));
  state = state_;
  state.sequence = 8;
  EXPECT_THAT(problem(state, {0, 1}), HasSubstr("(sequence 8), the dataset has"));
  state = state_;
  state.samples += 1;
  EXPECT_THAT(problem(state, {0, 1}), HasSubstr("samples (sequence 4), the dataset has"));
  state = state_;
  state.global_batch = 0;
  EXPECT_THAT(problem(state, {0, 1}), HasSubstr("/global_batch"));
}

TEST_F(RankViewTest, SeveralReadersAtOnce) {
  Random random(9);
  open(internal::make_dataset(next_folder(), {.format = Format::kMegatron, .documents = 9000, .files = 2}, random),
       {.global_batch = 8});
  tables_ = std::make_shared<ShardTables>(1);  // nothing is remembered
  const std::shared_ptr<const RankView> shown = view({0, 1});
  const std::vector<std::pair<std::string, std::string>> wanted = expected({0, 1});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  files_ = std::make_shared<DataFiles>(dataset_.index, open_file_source);
  const std::shared_ptr<const RankView> plain = view({0, 1});
  for (uint64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      Random mine(seed);
      for (int i = 0; i < 50; ++i) {
        const int64_t file = mine.below(plain->files());
        const ByteSourcePtr image = *plain->open(file);
        const int64_t at = mine.below(image->size());
        const int64_t count = std::min(image->size() - at, mine.between(1, 5000));
        const std::string& bytes = wanted[static_cast<size_t>(file)].second;
        const auto part = bytes.substr(static_cast<size_t>(at), static_cast<size_t>(count));
        if (internal::read_text(*image, at, count) != part) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace scalai::datasets
