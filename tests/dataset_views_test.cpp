// Dataset views as other programs see them: files written from the views' images, read by Python readers of each format
// that know nothing of ours (tests/data). A job that changes dp twice within a pass must read exactly the pass's order.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/views/rank_view.h"

namespace scalai::datasets {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  Format format;
  std::string arguments;  // of make_dataset.py
  int64_t sequence = 0;
  int64_t global_batch = 1;
  bool shuffle = true;
  bool drop_last = false;
  int64_t first_pass = 0;
  std::vector<int64_t> steps;  // with dp 4, 6 and 1
};

constexpr int64_t kRecordBytes = 64;

class DatasetViews : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (run("exit()").code != 0) GTEST_SKIP() << python() << " does not run; SCALAI_PYTHON names another";
    std::string pattern = (fs::temp_directory_path() / "scalai-dataset-views-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  struct Outcome {
    int code = -1;
    std::string text;  // both streams
  };
  static std::string python() {
    const char* named = std::getenv("SCALAI_PYTHON");
    return named == nullptr ? "python3" : named;
  }
  static Outcome shell(const std::string& command) {
    Outcome outcome;
    FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    for (int byte; (byte = std::fgetc(pipe)) != EOF;) outcome.text += static_cast<char>(byte);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    return outcome;
  }
  static Outcome run(const std::string& program) { return shell(fmt::format("{} -c '{}'", python(), program)); }
  static Outcome script(const std::string& name, const std::string& arguments) {
    return shell(fmt::format("{} -B '{}/tests/data/{}' {}", python(), SCALAI_SOURCE_DIR, name, arguments));
  }

  void make_dataset(const Case& with) {
    const Outcome made =
        script("make_dataset.py", fmt::format("{} --out={}/data {}", name_of(with.format), folder_, with.arguments));
    ASSERT_EQ(made.code, 0) << made.text;
    std::istringstream lines(made.text);
    for (std::string line; std::getline(lines, line);) sources_.push_back(line);
    const absl::StatusOr<BuildSummary> built =
        build_index({.format = with.format,
                     .files = sources_,
                     .out = folder_ + "/index",
                     .record_bytes = with.format == Format::kFixed ? kRecordBytes : 0});
    ASSERT_TRUE(built.ok()) << message_of(built.status());
    const std::shared_ptr<const Index> index = *Index::open(folder_ + "/index");
    samples_ = *Samples::make(index, with.sequence);
    files_ = std::make_shared<DataFiles>(index, open_file_source);
  }

  // Copies an image as a reader does, in requests of an odd size.
  static void write_image(const ByteSource& image, const std::string& path) {
    std::ofstream out(path, std::ios::binary);
    std::vector<char> block(100'003);
    for (int64_t at = 0; at < image.size(); at += static_cast<int64_t>(block.size())) {
      const auto count = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(block.size()), image.size() - at));
      const absl::Status read = image.read(at, std::as_writable_bytes(std::span(block.data(), count)));
      ASSERT_TRUE(read.ok()) << message_of(read);
      out.write(block.data(), static_cast<std::streamsize>(count));
    }
  }
  // All ranks' files at a state; returns their folder.
  std::string write_views(const State& state, int dp) const {
    const std::string folder = fmt::format("{}/dp{}/step-{}", folder_, dp, state.step);
    for (int rank = 0; rank < dp; ++rank) {
      const std::string of_rank = folder + "/" + RankView::folder_of(rank);
      fs::create_directories(of_rank);
      const auto view =
          RankView::make({.samples = samples_, .files = files_, .state = state, .who = {rank, dp}, .tables = tables_});
      SCALAI_CHECK(view.ok(), message_of(view.status()));
      for (int64_t file = 0; file < (*view)->files(); ++file) {
        const absl::StatusOr<ByteSourcePtr> image = (*view)->open(file);
        SCALAI_CHECK(image.ok() && (*image)->size() == *(*view)->file_bytes(file));
        write_image(**image, of_rank + "/" + (*view)->file_name(file));
      }
    }
    return folder;
  }

  std::string plan_text(const Case& with, const State& first, const std::vector<std::string>& segments) const {
    const Order order(first.samples, first.shuffle, first.seed);
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < first.samples; ++i) numbers.push_back(order.at(first.pass, i));
    return fmt::format(
        R"({{"kind": "{}", "sources": ["{}"], "sequence": {}, "record_bytes": {}, "shard_samples": 8192, )"
        R"("order": [{}], "drop_last": {}, "segments": [{}]}})",
        name_of(with.format), fmt::join(sources_, R"(", ")"), with.sequence, kRecordBytes, fmt::join(numbers, ", "),
        with.drop_last, fmt::join(segments, ", "));
  }

  std::string folder_;
  std::vector<std::string> sources_;
  std::shared_ptr<const Samples> samples_;
  std::shared_ptr<const DataFiles> files_;
  std::shared_ptr<ShardTables> tables_ = std::make_shared<ShardTables>();
};

TEST_P(DatasetViews, AJobWhoseDpChangesReadsTheOrderExactly) {
  const Case& with = GetParam();
  make_dataset(with);
  if (HasFatalFailure()) return;
  const Steps steps(State{.index = samples_->index().digest(),
                          .samples = samples_->count(),
                          .sequence = with.sequence,
                          .seed = 2024,
                          .shuffle = with.shuffle,
                          .drop_last = with.drop_last,
                          .global_batch = with.global_batch});
  int64_t step = 0;
  for (int64_t pass = 0; pass < with.first_pass; ++pass) step = steps.pass_end(step);
  const State first = steps.at(step);
  std::vector<std::string> segments, folders;
  const std::vector<int> dps = {4, 6, 1};
  for (size_t i = 0; i < dps.size(); ++i) {
    const State state = steps.at(step);
    ASSERT_EQ(state.pass, with.first_pass) << "the change is to be in the middle of a pass";
    folders.push_back(write_views(state, dps[i]));
    segments.push_back(fmt::format(R"({{"folder": "{}", "dp": {}, "batch": {}, "consumed": {}, "steps": {}}})",
                                   folders.back(), dps[i], with.global_batch, state.consumed, with.steps[i]));
    step += with.steps[i];
  }
  std::ofstream(folder_ + "/plan.json") << plan_text(with, first, segments);
  const Outcome checked = script("check_views.py", folder_ + "/plan.json");
  EXPECT_EQ(checked.code, 0) << checked.text;

  // The checker itself can fail: two shards of different ranks are exchanged.
  const std::string suffix = fs::path(fs::directory_iterator(folders[0] + "/rank_00")->path()).extension();
  const std::string shard = "/shard_00000" + (suffix == ".idx" ? std::string(".bin") : suffix);
  fs::rename(folders[0] + "/rank_00" + shard, folder_ + "/kept");
  fs::rename(folders[0] + "/rank_01" + shard, folders[0] + "/rank_00" + shard);
  fs::rename(folder_ + "/kept", folders[0] + "/rank_01" + shard);
  EXPECT_NE(script("check_views.py", folder_ + "/plan.json").text.find("AssertionError"), std::string::npos);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {.name = "megatron_documents",
       .format = Format::kMegatron,
       .arguments = "--files=3 --documents=500 --seed=1",
       .global_batch = 26,
       .steps = {4, 5, 11}},
      {.name = "megatron_windows",
       .format = Format::kMegatron,
       .arguments = "--files=3 --documents=900 --seed=2 --dtype=int32",
       .sequence = 16,
       .global_batch = 64,
       .first_pass = 1,
       .steps = {7, 9, 20}},
      {.name = "megatron_windows_in_order",
       .format = Format::kMegatron,
       .arguments = "--files=2 --documents=15000 --seed=3 --max-tokens=12 --dtype=uint8",
       .sequence = 3,
       .global_batch = 250,
       .shuffle = false,
       .steps = {3, 20, 40}},
      {.name = "megatron_many_shards",
       .format = Format::kMegatron,
       .arguments = "--files=2 --documents=40000 --seed=4 --max-tokens=3 --dtype=int16",
       .global_batch = 31,
       .steps = {100, 50, 10}},
      {.name = "tfrecord",
       .format = Format::kTfRecord,
       .arguments = "--files=2 --documents=700 --seed=5",
       .global_batch = 30,
       .drop_last = true,
       .first_pass = 2,
       .steps = {2, 3, 18}},
      {.name = "tfrecord_many_shards",
       .format = Format::kTfRecord,
       .arguments = "--files=2 --documents=20000 --seed=6 --max-bytes=16",
       .global_batch = 128,
       .steps = {9, 30, 5}},
      {.name = "tar",
       .format = Format::kTar,
       .arguments = "--files=3 --documents=300 --seed=7",
       .global_batch = 17,
       .steps = {5, 6, 7}},
      {.name = "tar_gnu_long_names",
       .format = Format::kTar,
       .arguments = "--files=2 --documents=100 --seed=8 --tar-format=gnu --long-names",
       .global_batch = 5,
       .steps = {5, 6, 7}},
      {.name = "tar_pax_long_names",
       .format = Format::kTar,
       .arguments = "--files=2 --documents=100 --seed=9 --tar-format=pax --long-names",
       .global_batch = 11,
       .shuffle = false,
       .steps = {1, 2, 3}},
      {.name = "fixed",
       .format = Format::kFixed,
       .arguments = "--files=3 --documents=50000 --seed=10",
       .global_batch = 1000,
       .drop_last = true,
       .steps = {1, 2, 47}},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Formats, DatasetViews, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

}  // namespace
}  // namespace scalai::datasets
