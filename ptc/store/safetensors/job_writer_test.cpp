#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/small_disk.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WriterTest : public FolderTest {
 protected:
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // All parts but those of the ranks in `without`.
  std::vector<std::string> parts_of(const Writer& writer, const std::vector<int>& without = {}) {
    std::vector<std::string> parts;
    for (int rank = 0; rank < collection_.ranks(); ++rank) {
      if (std::count(without.begin(), without.end(), rank) != 0) continue;
      absl::StatusOr<std::string> part = writer.write_rank(LogicalRank(rank), provider_of(collection_, keep_));
      EXPECT_TRUE(part.ok()) << part.status();
      parts.push_back(part.value_or(""));
    }
    return parts;
  }
  Writer begin(const std::string& name, const Stamp& stamp) const {
    absl::StatusOr<Writer> writer = Writer::begin(path(name), collection_, stamp);
    SCALAI_CHECK(writer.ok(), message_of(writer.status()));
    return *std::move(writer);
  }

  collection::Collection collection_ = sample_collection();
  std::vector<std::byte> keep_;
};

TEST_F(WriterTest, WritesAFileForEachFirstHolder) {
  ASSERT_TRUE(write_checkpoint(path("c"), collection_, {"job", 12}).ok());
  EXPECT_THAT(entries(), ElementsAre("c"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("c"))) names.push_back(entry.path().filename());
  // Ranks are tp, then dp, then pp: 2 and 3 hold replicas of 0 and 1, and 4 to 7 have what is pinned to the second
  // stage.
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(
                         "rank_000.safetensors", "rank_001.safetensors", "rank_004.safetensors", "rank_005.safetensors",
                         "rank_006.safetensors", "rank_007.safetensors", "collection.textproto", "manifest.json"));
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("c/rank_000.safetensors"));
  ASSERT_TRUE(file.ok());
  std::vector<std::string> keys;
  for (const StoredTensor& stored : file->header().tensors) keys.push_back(stored.name);
  EXPECT_THAT(keys, ElementsAre("step", "columns", "w", "tied", "few", "flat#0#0"));
  EXPECT_EQ(file->header().metadata.at("box:w"), "[0:4, 0:6]");
  EXPECT_EQ(file->header().metadata.at("scalai.job"), "job");
  EXPECT_EQ(file->header().metadata.at("scalai.step"), "12");
  // A flat shard is several boxes.
  const absl::StatusOr<SafetensorsFile> flat = SafetensorsFile::open(path("c/rank_004.safetensors"));
  ASSERT_TRUE(flat.ok());
  EXPECT_GT(flat->header().tensors.size(), 1u);
  EXPECT_EQ(flat->header().tensors.front().name, "flat#0");
  EXPECT_EQ(flat->header().metadata.count("box:flat#1"), 1u);
}

TEST_F(WriterTest, KnowsWhatEachRankWrites) {
  const Writer writer = begin("c", {"job", 12});
  EXPECT_TRUE(writer.has_file(LogicalRank(0)));
  EXPECT_FALSE(writer.has_file(LogicalRank(2)));
  EXPECT_EQ(writer.state_bytes(LogicalRank(2)), 0);
  int64_t bytes = 0;
  for (int rank = 0; rank < collection_.ranks(); ++rank) bytes += writer.state_bytes(LogicalRank(rank));
  int64_t expected = 0;
  for (const collection::LogicalTensor& tensor : collection_.tensors) expected += tensor.bytes();
  EXPECT_EQ(bytes, expected);
}

TEST_F(WriterTest, SeveralProcessesWriteOneCheckpoint) {
  Writer writer = begin("c", {"job", 12});
  std::vector<std::string> parts;
  for (int rank = 0; rank < collection_.ranks(); ++rank) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const absl::StatusOr<Writer> joined = Writer::join(writer.temporary() + "/", collection_, {"job", 12});
      if (!joined.ok()) ::_exit(1);
      const absl::StatusOr<std::string> part = joined->write_rank(LogicalRank(rank), provider_of(collection_, keep_));
      if (!part.ok()) ::_exit(2);
      ::_exit(::write(ends[1], part->data(), part->size()) == static_cast<ssize_t>(part->size()) ? 0 : 3);
    }
    ::close(ends[1]);
    std::string part;
    char chunk[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], chunk, sizeof chunk)) > 0;) part.append(chunk, static_cast<size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    parts.insert(parts.begin(), part);  // in any order
  }
  EXPECT_FALSE(std::filesystem::exists(path("c")));
  ASSERT_TRUE(writer.finish(parts).ok());
  const absl::StatusOr<Reader> reader = Reader::open(path("c"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->verify().ok());
}

TEST_F(WriterTest, ThreadsMayShareAWriter) {
  Writer writer = begin("c", {"job", 12});
  std::vector<std::string> parts(static_cast<size_t>(collection_.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < collection_.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::byte> keep;
      absl::StatusOr<std::string> part = writer.write_rank(LogicalRank(rank), provider_of(collection_, keep));
      if (part.ok()) parts[static_cast<size_t>(rank)] = *std::move(part);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer.finish(parts).ok());
  EXPECT_TRUE(Reader::open(path("c"))->verify().ok());
}

TEST_F(WriterTest, JoinsOnlyItsOwn) {
  const Writer writer = begin("c", {"job", 12});
  collection::Collection other = collection_;
  other.epoch = 6;
  EXPECT_THAT(message_of(Writer::join(writer.temporary(), other, {"job", 12}).status()),
              HasSubstr("is of another collection"));
  EXPECT_EQ(Writer::join(path("nothing"), collection_, {"job", 12}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(WriterTest, AnUnfinishedCheckpointLeavesNothing) {
  {
    const Writer writer = begin("c", {"job", 12});
    parts_of(writer);
    EXPECT_THAT(entries(), ElementsAre(HasSubstr("c.partial.")));
  }
  EXPECT_TRUE(entries().empty());
}

TEST_F(WriterTest, FinishesOnlyAWholeCheckpoint) {
  const auto finish = [&](const std::vector<int>& without,
                          const std::function<void(Writer&, std::vector<std::string>&)>& change) {
    Writer writer = begin("c", {"job", 12});
    std::vector<std::string> parts = parts_of(writer, without);
    change(writer, parts);
    const absl::Status status = writer.finish(parts);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(path("c")));
    return message_of(status);
  };
  const auto as_is = [](Writer&, std::vector<std::string>&) {};
  EXPECT_EQ(finish({4}, as_is), path("c") + ": the part of rank 4 is missing");
  EXPECT_EQ(finish({}, [](Writer&, auto& parts) { parts.push_back(parts[0]); }),
            path("c") + ": a part of rank 0 too many");
  EXPECT_EQ(finish({}, [](Writer&, auto& parts) { parts[0] = "x"; }), path("c") + ": a part is not readable");
  EXPECT_THAT(finish({0},
                     [&](Writer& writer, auto& parts) {
                       const auto other = Writer::join(writer.temporary(), collection_, {"job", 11});
                       parts.push_back(*other->write_rank(LogicalRank(0), provider_of(collection_, keep_)));
                     }),
              HasSubstr("the part of rank 0 is of job \"job\", step 11"));
  EXPECT_THAT(
      finish({}, [](Writer& writer, auto&) { std::filesystem::remove(writer.temporary() + "/rank_001.safetensors"); }),
      HasSubstr("/rank_001.safetensors: not there with its"));
  EXPECT_TRUE(entries().empty());
}

TEST_F(WriterTest, AProvidersErrorIsTheRanksError) {
  const Writer writer = begin("c", {"job", 12});
  int calls = 0;
  const auto part = writer.write_rank(
      LogicalRank(0), [&](TensorId id, const tensor::Box& box) -> absl::StatusOr<std::span<const std::byte>> {
        if (++calls == 3) return absl::UnavailableError("the device is gone");
        return provider_of(collection_, keep_)(id, box);
      });
  EXPECT_EQ(message_of(part.status()), "the device is gone");
  EXPECT_FALSE(std::filesystem::exists(writer.temporary() + "/rank_000.safetensors"));
}

TEST_F(WriterTest, ReplacesAnOldCheckpointAtOneStroke) {
  ASSERT_TRUE(write_checkpoint(path("c"), collection_, {"old", 11}).ok());
  const absl::StatusOr<Reader> old = Reader::open(path("c"));
  ASSERT_TRUE(old.ok());
  ASSERT_TRUE(write_checkpoint(path("c"), collection_, {"new", 12}).ok());
  EXPECT_THAT(entries(), ElementsAre("c"));
  EXPECT_EQ(Reader::open(path("c"))->stamp(), (Stamp{"new", 12}));
  EXPECT_TRUE(old->verify().ok());  // its files are still open
  ASSERT_TRUE(write_file(path("f"), "x").ok());
  EXPECT_THAT(message_of(write_checkpoint(path("f"), collection_, {"new", 12})), HasSubstr("cannot rename"));
  EXPECT_THAT(entries(), ElementsAre("c", "f"));
}

TEST_F(WriterTest, RefusesWhatCannotBeStored) {
  EXPECT_EQ(Writer::begin(path("c"), collection_, {"job", -1}).status().code(), absl::StatusCode::kInvalidArgument);
  collection::Collection twice = collection_;
  twice.tensors.push_back(twice.tensors[0]);
  EXPECT_THAT(message_of(Writer::begin(path("c"), twice, {"job", 1}).status()),
              HasSubstr("a collection that cannot be stored"));
  EXPECT_TRUE(entries().empty());
}

// 24 KB of state on a disk with room for two checkpoints, but not three.
TEST_F(WriterTest, AFullDiskLeavesTheOldCheckpoint) {
  const SmallDisk result = on_small_disk(96 << 10, [&](const std::string& disk) {
    collection::Collection big = sample_collection();
    big.tensors[0].shape = tensor::Shape({24 << 10, 1});
    big.tensors[0].dtype = tensor::DType::kU8;
    int written = 0;
    absl::Status status;
    for (; written < 10 && status.ok(); ++written)
      status = write_checkpoint(step_folder(disk, written), big, {"job", written});
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_GT(written, 1);
    const std::optional<FoundCheckpoint> found = latest(disk);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, written - 2);
    EXPECT_TRUE(Reader::open(found->path)->verify().ok());
    for (const auto& entry : std::filesystem::directory_iterator(disk)) {
      EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
    }
  });
  if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount a small tmpfs here";
  EXPECT_EQ(result, SmallDisk::kPassed);
}

// Wherever the disk fills up, the error is the same and nothing stays.
TEST_F(WriterTest, AFullDiskAtAnyPointLeavesNothing) {
  for (int kilobytes = 4; kilobytes <= 44; kilobytes += 4) {
    SCOPED_TRACE(fmt::format("{} KiB", kilobytes));
    const SmallDisk result = on_small_disk(kilobytes << 10, [&](const std::string& disk) {
      const absl::Status status = write_checkpoint(disk + "/c", collection_, {"job", 12});
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
        EXPECT_TRUE(std::filesystem::is_empty(disk));
      } else {
        EXPECT_TRUE(Reader::open(disk + "/c")->verify().ok());
      }
      const bool fits = kilobytes > 4 && (kilobytes == 44 || status.ok());
      EXPECT_EQ(status.ok(), fits) << status;
    });
    if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount a small tmpfs here";
    EXPECT_EQ(result, SmallDisk::kPassed);
  }
}

TEST_F(WriterTest, SmallFilesGoAlongAndAreVerified) {
  {
    Writer writer = begin("c", {"job", 12});
    ASSERT_TRUE(writer.add_file("model.textproto", "family: \"gpt\"").ok());
    for (const char* name :
         {"model.textproto", "manifest.json", "collection.textproto", "rank_000.safetensors", "../x", ""}) {
      EXPECT_TRUE(absl::IsInvalidArgument(writer.add_file(name, "x"))) << name;
    }
    ASSERT_TRUE(writer.finish(parts_of(writer)).ok());
  }
  const absl::StatusOr<Reader> reader = Reader::open(path("c"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->verify().ok());
  damage(path("c/model.textproto"), 3);
  EXPECT_THAT(message_of(reader->verify()), HasSubstr("model.textproto: the bytes do not have the checksum"));
}

}  // namespace
}  // namespace scalai::store
