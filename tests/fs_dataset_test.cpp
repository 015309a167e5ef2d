// `scalai fs` with datasets: what ranks read, and how dataset/current follows the job.

#include <gmock/gmock.h>

#include "tests/fs_end_to_end.h"

namespace scalai::testing {
namespace fs_dataset_test {

using ::testing::HasSubstr;

constexpr int64_t kRecords = 3000;

class FsDatasetTest : public FsEndToEnd {
 protected:
  void SetUp() override {
    FsEndToEnd::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(make_dataset("pile", kRecords));
  }
  std::string options() const { return fmt::format("--dataset={} --global-batch=60 --no-shuffle", path("pile.index")); }
};

TEST_F(FsDatasetTest, RanksReadTheirShare) {
  ASSERT_EQ(mount("m", options()).code, 0);
  EXPECT_EQ(shell("ls " + path("m/dataset")).out, "");
  EXPECT_EQ(shell("ls " + path("m/dataset/dp4/step-10")).out, "rank_00\nrank_01\nrank_02\nrank_03\n");
  const std::string text = read_all(path("m/dataset/dp4/step-10/rank_02/shard_00000.bin"));
  ASSERT_EQ(text.size(), static_cast<size_t>((kRecords - 600) / 4 * 8));
  EXPECT_EQ(text.substr(0, 8), "00000630");
  EXPECT_EQ(text.substr(15 * 8, 8), "00000690");
  EXPECT_EQ(shell("ls " + path("m/dataset")).out, "dp4\n");
}

TEST_F(FsDatasetTest, AStateIsGoneOnWith) {
  const Outcome shown =
      scalai(fmt::format("data show {} --dp=1 --global-batch=60 --step=10 --no-shuffle", path("pile.index")));
  const size_t begin = shown.out.find("state {");
  ASSERT_NE(begin, std::string::npos) << shown.out;
  std::string state = shown.out.substr(begin + 6, shown.out.find('\n', begin) - begin - 6);
  const size_t batch = state.find("\"global_batch\":60");
  ASSERT_NE(batch, std::string::npos) << state;
  write_all(folder_ / "state.json", state.replace(batch, 17, "\"global_batch\":24"));
  const std::string options = fmt::format("--dataset={} --state={}", path("pile.index"), path("state.json"));
  EXPECT_EQ(mount("m", options + " --global-batch=60").code, 2);
  ASSERT_EQ(mount("m", options + " --dp=2").code, 0);
  EXPECT_EQ(fs::read_symlink(path("m/dataset/current")).string(), "dp2/step-10");
  EXPECT_EQ(read_all(path("m/dataset/current/rank_00/shard_00000.bin")).substr(0, 8), "00000600");
  EXPECT_EQ(read_all(path("m/dataset/dp2/step-11/rank_00/shard_00000.bin")).substr(0, 8), "00000624");
}

TEST_F(FsDatasetTest, CurrentFollowsRepartition) {
  ASSERT_EQ(mount("m", options() + " --dp=4").code, 0);
  EXPECT_EQ(fs::read_symlink(path("m/dataset/current")).string(), "dp4/step-0");
  OpenedFile old(path("m/dataset/current/rank_01/shard_00000.bin"));
  ASSERT_TRUE(old.ok());
  const std::string before = old.read(0, 160);
  EXPECT_EQ(before.substr(0, 8), "00000015");
  const Outcome switched = scalai(fmt::format("fs repartition {} --dp=6 --step=20", path("m")));
  EXPECT_EQ(switched.code, 0) << switched.err;
  EXPECT_EQ(switched.out, "dataset/current -> dp6/step-20\n");
  EXPECT_EQ(fs::read_symlink(path("m/dataset/current")).string(), "dp6/step-20");
  EXPECT_EQ(read_all(path("m/dataset/current/rank_01/shard_00000.bin")).substr(0, 8), "00001210");
  EXPECT_EQ(old.read(0, 160), before) << "what is open keeps its view";
  EXPECT_EQ(old.read(160, 8), "00000080");
}

TEST_F(FsDatasetTest, RepartitionRefusesWhatCannotBe) {
  ASSERT_EQ(mount("m", options() + " --dp=4 --step=3").code, 0);
  EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp=0 --step=20", path("m"))).code, 3);
  EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp=4", path("m"))).code, 2);
  EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp=4 --step=-1", path("m"))).code, 2);
  EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp=4 --step=1", path("hf"))).code, 4);
  EXPECT_EQ(fs::read_symlink(path("m/dataset/current")).string(), "dp4/step-3");
  ASSERT_EQ(mount("n", "--checkpoint=" + path("hf")).code, 0);
  const Outcome none = scalai(fmt::format("fs repartition {} --dp=4 --step=1", path("n")));
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("no dataset is mounted there"));
}

// Readers that follow the link while it is switched see the old partition or the new one.
TEST_F(FsDatasetTest, SwitchingIsAtomic) {
  ASSERT_EQ(mount("m", options() + " --dp=4").code, 0);
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const std::string first = OpenedFile(path("m/dataset/current/rank_01/shard_00000.bin")).read(0, 8);
        ASSERT_TRUE(first == "00000015" || first == "00000010") << first;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp={} --step=0", path("m"), i % 2 == 0 ? 6 : 4)).code, 0);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(FsDatasetTest, SeveralDatasetsFollowOneJob) {
  ASSERT_TRUE(make_dataset("books", 600));
  ASSERT_EQ(mount("m", fmt::format("--dataset={},{} --global-batch=60 --no-shuffle --dp=2 --checkpoint={}",
                                   path("pile.index"), path("books.index"), path("hf")))
                .code,
            0);
  EXPECT_EQ(shell("ls " + path("m")).out, "dataset\nviews\n");
  EXPECT_EQ(shell("ls " + path("m/dataset")).out, "books\npile\n");
  EXPECT_EQ(scalai(fmt::format("fs repartition {} --dp=3 --step=4", path("m"))).code, 0);
  EXPECT_EQ(read_all(path("m/dataset/pile/current/rank_02/shard_00000.bin")).substr(0, 8), "00000280");
  EXPECT_EQ(read_all(path("m/dataset/books/current/rank_02/shard_00000.bin")).substr(0, 8), "00000280");
}

TEST_F(FsDatasetTest, ACutDataFileIsAnErrorThatNamesTheSample) {
  ASSERT_EQ(mount("m", options() + " --dp=1").code, 0);
  OpenedFile file(path("m/dataset/current/rank_00/shard_00000.bin"));
  ASSERT_EQ(file.read(0, 8), "00000000");
  fs::resize_file(path("pile.bin"), 8000);
  EXPECT_EQ(file.read(16'000, 8), "");
  EXPECT_EQ(file.error(), EIO);
  EXPECT_THAT(log_of("m"), HasSubstr("pile.bin"));
  EXPECT_THAT(log_of("m"), HasSubstr("document"));
}

// An index of somebody else must not show what only its reader may read.
TEST_F(FsDatasetTest, DataOutsideOfTheFolderNeedsConsent) {
  fs::create_directory(path("shared"));
  ASSERT_EQ(scalai(fmt::format("data index --kind=fixed --record-bytes=8 {} --out={}", path("pile.bin"),
                               path("shared/i.index")))
                .code,
            0);
  const std::string options = fmt::format("--dataset={} --global-batch=60", path("shared/i.index"));
  const Outcome refused = mount("m", options);
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("names data outside of its folder: " + path("pile.bin")));
  EXPECT_THAT(refused.err, HasSubstr("--allow-outside"));
  EXPECT_FALSE(is_mounted("m"));
  EXPECT_EQ(mount("m", options + " --allow-outside").code, 0);
}

// Megatron's files, by readers that know nothing of ours, over changes of dp in the middle of a pass.
TEST_F(FsDatasetTest, OtherReadersFindTheOrderOfThePass) {
  const std::string tools = std::string(SCALAI_SOURCE_DIR) + "/tests/data";
  ASSERT_EQ(
      shell(fmt::format("python3 -B {}/make_dataset.py megatron --out={} --documents=500", tools, path("text"))).code,
      0);
  ASSERT_EQ(scalai(fmt::format("data index --kind=megatron {0}-0.bin --out={0}.index", path("text"))).code, 0);
  ASSERT_EQ(mount("m", fmt::format("--dataset={} --global-batch=30 --no-shuffle", path("text.index"))).code, 0);
  std::string order;
  for (int i = 0; i < 500; ++i) order += (i == 0 ? "" : ",") + std::to_string(i);
  std::string segments;
  int64_t consumed = 0, step = 0;
  for (const auto& [dp, steps] : std::vector<std::pair<int, int>>{{4, 5}, {6, 4}, {1, 8}}) {
    segments += fmt::format(R"({}{{"folder": "{}", "dp": {}, "batch": 30, "consumed": {}, "steps": {}}})",
                            segments.empty() ? "" : ",", path(fmt::format("m/dataset/dp{}/step-{}", dp, step)), dp,
                            consumed, steps);
    consumed += 30 * steps;
    step += steps;
  }
  write_all(path("plan.json"), fmt::format(R"({{"kind": "megatron", "sources": ["{}"], "sequence": 0, "record_bytes": 0,
 "shard_samples": 8192, "order": [{}], "drop_last": false, "segments": [{}]}})",
                                           path("text-0.bin"), order, segments));
  const Outcome read = shell(fmt::format("python3 -B {}/check_views.py {}", tools, path("plan.json")));
  EXPECT_EQ(read.code, 0) << read.out << read.err;
}

}  // namespace fs_dataset_test
}  // namespace scalai::testing
