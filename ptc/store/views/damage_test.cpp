// Bytes that do not have their checksum: no reader gets them, and what is made of them all the same says so.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ptc/base/hash.h"
#include "ptc/store/torch/testing/torch_writer.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace damage_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class DamageTest : public CheckpointFolder {
 protected:
  DamageTest() {
    write_hugging_face(path("hf"), llama_config(8, 2));
    reshard_to("hf", "ranks", "tp2");
  }
  // Flips a bit in the middle of a stored tensor.
  void damage_tensor(const std::string& file, const std::string& key) const {
    const absl::StatusOr<SafetensorsFile> opened = SafetensorsFile::open(path(file));
    SCALAI_CHECK(opened.ok() && opened->find(key) != nullptr, file);
    damage(path(file), opened->find(key)->offset + opened->find(key)->bytes / 2);
  }
  absl::Status reshard_of(const std::string& from, const std::string& to, const std::string& layout,
                          bool accept = false) const {
    SCALAI_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path(from), {.accept_damage = accept}));
    SCALAI_ASSIGN_OR_RETURN(const auto view, View::make(checkpoint, layout));
    const ReshardOptions options{.target = path(to), .threads = 2, .progress = {}};
    SCALAI_ASSIGN_OR_RETURN(const ReshardPlan plan, plan_reshard(*view, options));
    return reshard(*view, plan, options).status();
  }
  static constexpr const char* kKey = "decoder.layers.1.mlp.linear_fc2.weight";
  static constexpr const char* kState = "layers.1.mlp.down.weight";
};

// A box that is not where the damage is, as a reader of ranges of a view asks for.
TEST_F(DamageTest, NoBoxOfADamagedTensorIsRead) {
  damage_tensor("ranks/rank_001.safetensors", kKey);
  const auto opened = open("ranks");
  const size_t tensor = *opened->find(kState);
  std::vector<std::byte> to(4);
  EXPECT_TRUE(opened->read(tensor, tensor::Box({0, 0}, {1, 2}), to).ok());  // is rank 0's
  EXPECT_FALSE(opened->has_damage());
  const absl::Status status = opened->read(tensor, tensor::Box({0, 46}, {1, 48}), to);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr("ranks/rank_001.safetensors: tensor \"decoder.layers.1.mlp.linear_fc2.weight\" "
                        "(\"layers.1.mlp.down.weight\" box ["));
  EXPECT_THAT(message_of(status), HasSubstr("do not have the checksum of the manifest"));
  EXPECT_TRUE(opened->has_damage());
  // The other files of a view are as they are.
  const auto view = View::make(opened, "tp2");
  ASSERT_TRUE(view.ok());
  for (const auto& [name, whole] :
       {std::pair("rank_000.safetensors", true), std::pair("rank_001.safetensors", false)}) {
    const auto file = (*view)->open(*(*view)->find(name));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(read_all(**file).ok(), whole) << name;
  }
}

TEST_F(DamageTest, ReshardPublishesNothingAndNamesAllDamage) {
  damage_tensor("ranks/rank_001.safetensors", kKey);
  damage_tensor("ranks/rank_000.safetensors", "embedding.word_embeddings.weight");
  const absl::Status status = reshard_of("ranks", "out", "hf");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("rank_001.safetensors: tensor \"decoder.layers.1.mlp.linear_fc2.weight\""));
  EXPECT_THAT(message_of(status), HasSubstr("rank_000.safetensors: tensor \"embedding.word_embeddings.weight\""));
  EXPECT_THAT(message_of(status), HasSubstr("--accept-damage"));
  for (const char* left : {"out", "out.partial", "out.partial.journal"}) EXPECT_FALSE(fs::exists(path(left))) << left;
}

TEST_F(DamageTest, AJobsCheckpointIsComparedToo) {
  ASSERT_TRUE(write_checkpoint(path("job"), sample_collection(), {"a", 3}).ok());
  damage_tensor("job/rank_000.safetensors", "w");
  EXPECT_THAT(message_of(reshard_of("job", "out", "logical")), HasSubstr("rank_000.safetensors: tensor \"w\""));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(DamageTest, SmallFilesAreComparedWhereTheyGoAlong) {
  write_text(path("ranks/config.json"), text_of(path("ranks/config.json")) + " ");
  EXPECT_THAT(message_of(reshard_of("ranks", "out", "hf")), HasSubstr("config.json: the bytes do not have"));
  EXPECT_TRUE(reshard_of("ranks", "out", "hf", /*accept=*/true).ok());
  EXPECT_THAT(message_of(open("out")->known_damage()), HasSubstr("config.json: the bytes do not have"));
}

TEST_F(DamageTest, WhatIsAcceptedIsInTheManifestAndStaysThere) {
  damage_tensor("ranks/rank_001.safetensors", kKey);
  ASSERT_TRUE(reshard_of("ranks", "out", "hf", /*accept=*/true).ok());
  const auto out = open("out");
  EXPECT_TRUE(out->verify({}).ok());  // the files are as they were written
  ASSERT_EQ(out->info().damage.size(), 1U);
  EXPECT_THAT(out->info().damage[0].states, ::testing::ElementsAre(kState));
  EXPECT_THAT(out->info().notes, ::testing::Contains(HasSubstr("was copied from a damaged file")));
  EXPECT_THAT(message_of(out->known_damage()), HasSubstr("rank_001.safetensors: tensor \"decoder.layers.1"));
  // All bytes are the source's.
  std::vector<std::byte> of_source(32 * 48 * 2), of_result(of_source.size());
  const tensor::Box whole({0, 0}, {32, 48});
  const auto source = open("ranks", {.accept_damage = true});
  ASSERT_TRUE(source->read(*source->find(kState), whole, of_source).ok());
  ASSERT_TRUE(out->read(*out->find(kState), whole, of_result).ok());
  EXPECT_TRUE(of_source == of_result);
  // A copy of the result knows it, too, and one without this state does not.
  ASSERT_TRUE(reshard_of("out", "again", "tp4").ok());
  EXPECT_EQ(open("again")->info().damage, out->info().damage);
  EXPECT_FALSE(open("again")->known_damage().ok());
}

TEST_F(DamageTest, DamageOfStateThatIsLeftOutIsNotOfTheResult) {
  ASSERT_TRUE(write_checkpoint(path("job"), sample_collection(), {"a", 3}).ok());
  // A part of a moment, wherever it lies.
  for (int rank = 0; rank < 8; ++rank) {
    const std::string name = "job/" + rank_file_name(rank);
    if (!fs::exists(path(name))) continue;
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path(name));
    ASSERT_TRUE(file.ok());
    for (const char* const key : {"flat", "flat#0"})
      if (file->find(key) != nullptr) damage_tensor(name, key);
  }
  damage_tensor("job/rank_000.safetensors", "w");
  ASSERT_TRUE(reshard_of("job", "out", "logical", /*accept=*/true).ok());  // parameters only
  const auto out = open("out");
  ASSERT_EQ(out->info().damage.size(), 1U);
  EXPECT_THAT(out->info().damage[0].states, ::testing::ElementsAre("w"));
}

TEST_F(DamageTest, PartsOfOneWholeTellAllDamage) {
  damage_tensor("ranks/rank_001.safetensors", kKey);
  const ReshardOptions options{.target = path("out"), .threads = 1, .progress = {}};
  const auto source = open("ranks", {.accept_damage = true});
  for (int part = 0; part < 2; ++part) {
    ViewSpec spec = *parse_view_name("tp4");
    spec.part = part;
    spec.parts = 2;
    const auto view = View::make(source, spec);
    ASSERT_TRUE(view.ok());
    ReshardOptions own = options;
    own.target = part_folder(options.target, part, 2);
    ASSERT_TRUE(reshard(**view, *plan_reshard(**view, own), own).ok());
  }
  ASSERT_TRUE(join_parts(**View::make(source, "tp4"), 2, options).ok());
  EXPECT_EQ(open("out")->info().damage.size(), 1U);
}

// --- archives of torch -----------------------------------------------------------------------------------------------

std::string bytes_of_floats(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < 4 * count; ++i) bytes.push_back(static_cast<char>(i * 7));
  return bytes;
}

// Two tensors share a storage; the third's has no checksum.
std::string archive() {
  return torch_file({{"a", "FloatStorage", {2, 3}, {3, 1}, 0, "0"},
                     {"b", "FloatStorage", {4}, {1}, 6, "0"},
                     {"c", "FloatStorage", {5}, {1}, 0, "1"}},
                    {{"0", bytes_of_floats(10)}, {"1", bytes_of_floats(5)}}, /*without_checksum=*/"1");
}

TEST_F(DamageTest, ArchivesOfTorchHaveChecksums) {
  write_text(path("m.pt"), archive());
  const auto whole = open("m.pt");
  EXPECT_EQ(whole->sums().tensors, 3);
  EXPECT_EQ(whole->sums().summed, 2);
  EXPECT_FALSE(whole->sums().of_manifest);
  EXPECT_TRUE(whole->verify({}).ok());
  const std::string text = text_of(path("m.pt"));
  damage(path("m.pt"), static_cast<int64_t>(text.find(bytes_of_floats(10))) + 37);  // of b
  const auto damaged = open("m.pt");
  std::vector<std::byte> to(4);
  for (const auto& [name, box] : {std::pair("a", tensor::Box({0, 0}, {1, 1})), std::pair("b", tensor::Box({0}, {1}))}) {
    const absl::Status status = damaged->read(*damaged->find(name), box, to);
    EXPECT_THAT(message_of(status), HasSubstr("the checksum of the archive")) << name;
  }
  EXPECT_TRUE(damaged->read(*damaged->find("c"), tensor::Box({0}, {1}), to).ok());
  EXPECT_THAT(message_of(damaged->verify({})), HasSubstr("m.pt: tensor \"a\" (\"a\" box ["));
  EXPECT_FALSE(reshard_of("m.pt", "out", "logical").ok());
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(DamageTest, ADamagedPickleIsRefused) {
  std::string text = archive();
  text[text.find("FloatStorage") + 5] ^= 1;
  write_text(path("m.pt"), text);
  EXPECT_THAT(message_of(Checkpoint::open(path("m.pt")).status()),
              HasSubstr("\"archive/data.pkl\": the bytes do not have the checksum of the archive"));
}

TEST_F(DamageTest, FilesWithoutChecksumsAreKnownToHaveNone) {
  const auto opened = open("hf");
  EXPECT_GT(opened->sums().tensors, 0);
  EXPECT_EQ(opened->sums().summed, 0);
  EXPECT_EQ(open("ranks")->sums().summed, open("ranks")->sums().tensors);
  EXPECT_TRUE(open("ranks")->sums().of_manifest);
}

}  // namespace damage_test
}  // namespace scalai::store
