#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::store {
namespace job_reader_test {

using ::testing::HasSubstr;

class ReaderTest : public FolderTest {
 protected:
  ReaderTest() { SCALAI_CHECK(write_checkpoint(path("c"), collection_, {"job", 12}).ok()); }

  Reader open() const {
    absl::StatusOr<Reader> reader = Reader::open(path("c"));
    SCALAI_CHECK(reader.ok(), message_of(reader.status()));
    return *std::move(reader);
  }
  std::string refusal() const {
    const absl::StatusOr<Reader> reader = Reader::open(path("c"));
    return reader.ok() ? "accepted" : message_of(reader.status());
  }
  absl::Status read(const Reader& reader, const std::string& name, const tensor::Box& box,
                    std::vector<std::byte>& bytes) const {
    const TensorId id = *reader.find(name);
    const collection::LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
    bytes.assign(static_cast<size_t>(box.volume() * tensor::size_of(tensor.dtype)), std::byte{0});
    return reader.read(id, box, bytes);
  }
  // What a read of a whole tensor says.
  std::string read_whole(const Reader& reader, const std::string& name) const {
    const TensorId id = *reader.find(name);
    const collection::LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
    std::vector<std::byte> bytes;
    const absl::Status status = read(reader, name, tensor::Box::whole(tensor.shape), bytes);
    if (!status.ok()) return message_of(status);
    return bytes == content_of(tensor, id, tensor::Box::whole(tensor.shape)) ? "right" : "wrong bytes";
  }
  // Puts one text in another's place in a file of the checkpoint.
  void edit(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = *read_file(path("c/" + name));
    const size_t at = text.find(from);
    SCALAI_CHECK(at != std::string::npos, from);
    ASSERT_TRUE(write_file(path("c/" + name), text.replace(at, from.size(), to)).ok());
  }
  int64_t offset_of(const std::string& file, const std::string& key) const {
    return SafetensorsFile::open(path("c/" + file))->find(key)->offset;
  }

  collection::Collection collection_ = sample_collection();
};

TEST_F(ReaderTest, GivesTheStateBack) {
  const Reader reader = open();
  EXPECT_EQ(reader.stamp(), (Stamp{"job", 12}));
  EXPECT_EQ(reader.collection(), collection_);
  EXPECT_EQ(reader.folder(), path("c"));
  EXPECT_EQ(reader.find("nothing"), std::nullopt);
  for (const collection::LogicalTensor& tensor : collection_.tensors) {
    EXPECT_EQ(read_whole(reader, tensor.name), "right") << tensor.name;
    EXPECT_EQ(read_whole(reader, tensor.name), "right") << tensor.name;  // checked before
  }
  EXPECT_TRUE(reader.verify().ok());
}

TEST_F(ReaderTest, GathersAnyBox) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Reader reader = open();  // nothing is checked yet
    for (int i = 0; i < 20; ++i) {
      const TensorId id(random.below(static_cast<int64_t>(collection_.tensors.size())));
      const collection::LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
      const tensor::Box box = random_box(random, tensor.shape);
      std::vector<std::byte> bytes;
      ASSERT_TRUE(read(reader, tensor.name, box, bytes).ok());
      EXPECT_TRUE(bytes == content_of(tensor, id, box)) << tensor.name << " " << box.str();
    }
  }
}

// Any layout's checkpoint gives any other layout its pieces.
TEST_F(ReaderTest, ServesOtherLayouts) {
  constexpr const char* kText = R"(
    schema_version: 1 name: "x" meshes {{ axes {{ name: "tp" size: {} }} axes {{ name: "dp" size: {} }} }}
    devices: "0-{}"
    tensors {{ name: "a" dtype: "BF16" shape: [24, 10] cuts {{ axis: "tp" dim: {} rule: BALANCED }} }}
    tensors {{ name: "b" dtype: "F32" shape: [7, 11] cuts {{ axis: "tp" dim: {} rule: CEIL }}
               cuts {{ axis: "dp" flat: true rule: CEIL }} }})";
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto layout = [&] {
      const int64_t tp = random.between(1, 4);
      const int64_t dp = random.between(1, 5);
      const std::string text = fmt::format(fmt::runtime(kText), tp, dp, tp * dp - 1, random.below(2), random.below(2));
      const auto file = collection::parse_collection(text, "x", collection::FileRole::kPlanned);
      SCALAI_CHECK(file.ok(), message_of(file.status()));
      return file->collection;
    };
    const collection::Collection from = layout();
    const collection::Collection to = layout();
    ASSERT_TRUE(write_checkpoint(path("x"), from, {"job", 1}).ok());
    const absl::StatusOr<Reader> reader = Reader::open(path("x"));
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (int rank = 0; rank < to.ranks(); ++rank) {
      for (int t = 0; t < 2; ++t) {
        const collection::LogicalTensor& tensor = to.tensors[static_cast<size_t>(t)];
        for (const tensor::Piece& piece : to.pieces(TensorId(t), LogicalRank(rank)).pieces) {
          std::vector<std::byte> bytes(static_cast<size_t>(piece.box.volume() * tensor::size_of(tensor.dtype)));
          ASSERT_TRUE(reader->read(TensorId(t), piece.box, bytes).ok());
          EXPECT_TRUE(bytes == content_of(tensor, TensorId(t), piece.box)) << tensor.name << piece.box.str();
        }
      }
    }
  }
}

TEST_F(ReaderTest, SeveralThreadsMayRead) {
  const Reader reader = open();
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&] {
      for (const collection::LogicalTensor& tensor : collection_.tensors) {
        result = read_whole(reader, tensor.name);
        if (result != "right") return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "right");
}

TEST_F(ReaderTest, DamageNamesFileAndTensorAndHarmsNothingElse) {
  damage(path("c/rank_000.safetensors"), offset_of("rank_000.safetensors", "w") + 5);
  const std::string where = path("c/rank_000.safetensors") + ": tensor \"w\" box [0:4, 0:6]: the bytes do not have";
  const Reader reader = open();
  EXPECT_THAT(read_whole(reader, "w"), HasSubstr(where));
  EXPECT_EQ(read_whole(reader, "tied"), "right");
  std::vector<std::byte> bytes;
  // The box's other bytes are not trusted either; another box of the tensor is.
  EXPECT_THAT(message_of(read(reader, "w", tensor::Box({3, 5}, {4, 6}), bytes)), HasSubstr(where));
  EXPECT_TRUE(read(reader, "w", tensor::Box({4, 0}, {8, 6}), bytes).ok());
  const absl::Status verified = reader.verify();
  EXPECT_EQ(verified.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(verified), HasSubstr(where));
}

TEST_F(ReaderTest, EveryDamagedByteIsFound) {
  const std::string file = path("c/rank_004.safetensors");
  const std::string original = *read_file(file);
  for (size_t at = 0; at < original.size(); at += 7) {
    SCOPED_TRACE(fmt::format("byte {}", at));
    damage(file, static_cast<int64_t>(at));
    const absl::StatusOr<Reader> reader = Reader::open(path("c"));
    const absl::Status status = reader.ok() ? reader->verify() : reader.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(message_of(status), HasSubstr("rank_004.safetensors"));
    ASSERT_TRUE(write_file(file, original).ok());
  }
  EXPECT_TRUE(open().verify().ok());
}

TEST_F(ReaderTest, VerifyTellsAllDamage) {
  damage(path("c/rank_000.safetensors"), offset_of("rank_000.safetensors", "w"));
  damage(path("c/rank_001.safetensors"), offset_of("rank_001.safetensors", "columns"));
  const std::string told = message_of(open().verify());
  EXPECT_THAT(told, HasSubstr("rank_000.safetensors: tensor \"w\""));
  EXPECT_THAT(told, HasSubstr("\n" + path("c/rank_001.safetensors") + ": tensor \"columns\""));
}

TEST_F(ReaderTest, CutAndChangedFilesAreErrors) {
  const std::string file = path("c/rank_000.safetensors");
  const Reader reader = open();
  EXPECT_EQ(read_whole(reader, "w"), "right");
  const timespec times[2] = {{0, UTIME_NOW}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  EXPECT_THAT(read_whole(reader, "w"),
              AllOf(HasSubstr(file + ": was changed while in use"), HasSubstr("tensor \"w\"")));
  ASSERT_EQ(::truncate(file.c_str(), offset_of("rank_000.safetensors", "w")), 0);
  EXPECT_THAT(read_whole(reader, "w"), AllOf(HasSubstr(file + ": was cut to"), HasSubstr("tensor \"w\"")));
  EXPECT_THAT(message_of(reader.verify()), HasSubstr(file));
  EXPECT_THAT(refusal(), HasSubstr(file));
}

TEST_F(ReaderTest, OpenRefusesWhatDoesNotFitTogether) {
  const auto expect = [&](const std::string& file, const std::string& from, const std::string& to,
                          const std::string& message) {
    const std::string original = *read_file(path("c/" + file));
    edit(file, from, to);
    EXPECT_THAT(refusal(), HasSubstr(message)) << file << ": " << from << " → " << to;
    ASSERT_TRUE(write_file(path("c/" + file), original).ok());
  };
  expect("manifest.json", "\"schema_version\": 1", "\"schema_version\": 9", "schema version 9; this program reads");
  expect("manifest.json", "\"step\": 12", "\"step\": 13", "\"scalai.step\" is not \"13\"");
  expect("manifest.json", "\"job\": \"job\"", "\"job\": \"bob\"", "\"scalai.job\" is not \"bob\"");
  expect("manifest.json", "\"epoch\": 5", "\"epoch\": 6", "are not those of the manifest");
  expect("manifest.json", "\"rank\": 0", "\"rank\": 1", "\"scalai.rank\" is not \"1\"");
  expect("manifest.json", "\"box\": \"[0:4, 0:6]\"", "\"box\": \"[0:4, 0:5]\"", "the collection has no such box");
  expect("manifest.json", "\"tensor\": \"w\"", "\"tensor\": \"v\"", "the collection has no such box");
  expect("manifest.json", "\"key\": \"w\"", "\"key\": \"v\"", "is not in the file as \"v\"");
  expect("manifest.json", "\"key\": \"w\"", "\"key\": \"tied\"", "tensor \"w\" box [0:4, 0:6]: dtype or shape");
  expect("collection.textproto", "epoch: 5", "epoch: 6", "are not those of the manifest");
  expect("collection.textproto", "\"few\"", "\"new\"", "are not those of the manifest");
  expect("rank_001.safetensors", "BF16", "BF15", "unknown dtype \"BF15\"");
  expect("rank_001.safetensors", "\"box:w\":\"[4:8, 0:6]\"", "\"box:w\":\"[4:8, 0:5]\"", "dtype or shape in the file");
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(ReaderTest, OpenRefusesMissingFiles) {
  EXPECT_EQ(Reader::open(path("nothing")).status().code(), absl::StatusCode::kNotFound);
  // Out of the manifest as well: then nothing else says that something is missing.
  absl::StatusOr<Manifest> manifest = parse_manifest(*read_file(path("c/manifest.json")));
  ASSERT_TRUE(manifest.ok());
  manifest->files.erase(manifest->files.begin());
  ASSERT_TRUE(write_file(path("c/manifest.json"), manifest_text(*manifest)).ok());
  EXPECT_THAT(refusal(), HasSubstr("tensor \"w\" box [0:4, 0:6]: is in no file"));
  std::filesystem::remove(path("c/rank_001.safetensors"));
  EXPECT_EQ(Reader::open(path("c")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(refusal(), HasSubstr("rank_001.safetensors: No such file"));
}

// Two tensors that are alike, so that one stored tensor fits both.
TEST_F(ReaderTest, RefusesAKeyThatIsThereTwice) {
  const auto alike = collection::parse_collection(
      R"(schema_version: 1 name: "x" meshes { name: "m" axes { name: "dp" size: 1 } } devices: "0"
         tensors { name: "a" dtype: "BF16" shape: [4] } tensors { name: "b" dtype: "BF16" shape: [4] })",
      "x", collection::FileRole::kPlanned);
  ASSERT_TRUE(alike.ok()) << alike.status();
  ASSERT_TRUE(write_checkpoint(path("c"), alike->collection, {"job", 1}).ok());
  EXPECT_EQ(refusal(), "accepted");
  edit("manifest.json", "\"key\": \"b\"", "\"key\": \"a\"");
  EXPECT_THAT(refusal(), HasSubstr("tensor \"b\" box [0:4]: the manifest has \"a\" twice"));
}

}  // namespace job_reader_test
}  // namespace scalai::store
