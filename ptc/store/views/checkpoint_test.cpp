#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/opened_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"
#include "ptc/store/views/internal/known_model.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CheckpointTest : public CheckpointFolder {
 protected:
  std::string refusal(const std::string& name, const OpenOptions& options = {}) const {
    const auto opened = Checkpoint::open(path(name), options);
    return opened.ok() ? "accepted" : message_of(opened.status());
  }
  // Without the files that describe it.
  void reshard_bare(const std::string& from, const std::string& to, const std::string& view_name) const {
    reshard_to(from, to, view_name);
    for (const char* name : {"manifest.json", "collection.textproto", "model.textproto", "config.json"}) {
      fs::remove(path(to) + "/" + name);
    }
  }
  static std::vector<std::byte> bytes(const Checkpoint& checkpoint, size_t tensor, const tensor::Box& box) {
    std::vector<std::byte> read(
        static_cast<size_t>(box.volume() * tensor::size_of(checkpoint.tensors()[tensor].dtype)));
    const absl::Status status = checkpoint.read(tensor, box, read);
    EXPECT_TRUE(status.ok()) << status;
    return read;
  }
  static void expect_same_state(const Checkpoint& a, const Checkpoint& b, uint64_t seed) {
    ASSERT_EQ(a.tensors(), b.tensors());
    Random random(seed);
    for (size_t i = 0; i < a.tensors().size(); ++i) {
      const tensor::Shape& shape = a.tensors()[i].shape;
      EXPECT_EQ(bytes(a, i, tensor::Box::whole(shape)), bytes(b, i, tensor::Box::whole(shape))) << a.tensors()[i].name;
      const tensor::Box box = random_box(random, shape);
      EXPECT_EQ(bytes(a, i, box), bytes(b, i, box)) << a.tensors()[i].name << " " << box.str();
    }
  }
};

TEST_F(CheckpointTest, AJobsCheckpointGivesEveryBox) {
  const collection::Collection collection = sample_collection();
  ASSERT_TRUE(write_checkpoint(path("job"), collection, {"job", 12}).ok());
  const auto opened = open("job");
  EXPECT_EQ(opened->info().kind, CheckpointKind::kJob);
  EXPECT_EQ(opened->info().step, 12);
  EXPECT_EQ(opened->info().epoch, 5);
  ASSERT_EQ(opened->tensors().size(), collection.tensors.size());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto i = static_cast<size_t>(random.below(static_cast<int64_t>(collection.tensors.size())));
    const tensor::Box box = random_box(random, collection.tensors[i].shape);
    EXPECT_EQ(bytes(*opened, i, box), content_of(collection.tensors[i], TensorId(static_cast<int64_t>(i)), box));
  }
  EXPECT_TRUE(opened->verify({.threads = 2, .progress = {}}).ok());
}

TEST_F(CheckpointTest, FilesOfOthersAreReadWithWhatIsTold) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const auto whole = open("hf");
  EXPECT_EQ(whole->info().kind, CheckpointKind::kHuggingFace);
  for (const char* layout : {"tp4,pp2", "tp2,dp2", "pp2,vpp2"}) {
    SCOPED_TRACE(layout);
    const std::string name = fmt::format("ranks-{}", layout);
    reshard_bare("hf", name, layout);
    EXPECT_THAT(refusal(name), HasSubstr("--from=LAYOUT"));
    EXPECT_THAT(refusal(name, {.from = layout}), HasSubstr("--config=FILE or --model=NAME"));
    const auto ranks = open(name, {.from = layout, .config = path("hf/config.json")});
    EXPECT_EQ(ranks->info().kind, CheckpointKind::kRanks);
    expect_same_state(*whole, *ranks, 1);
    EXPECT_TRUE(ranks->verify({}).ok());
  }
  EXPECT_THAT(refusal("ranks-tp4,pp2", {.from = "tp4,pp4", .config = path("hf/config.json")}),
              HasSubstr("8 rank files, but tp4,pp4 has 16 ranks"));
  // Another cut of as many ranks has other shapes.
  EXPECT_NE(refusal("ranks-tp4,pp2", {.from = "tp2,pp4", .config = path("hf/config.json")}), "accepted");
}

TEST_F(CheckpointTest, AFolderThatReshardWroteDescribesItself) {
  write_hugging_face(path("hf"), mixtral_config());
  reshard_to("hf", "arranged", "tp2-pp2-dp2-ep2");
  const auto arranged = open("arranged");
  EXPECT_EQ(arranged->info().kind, CheckpointKind::kArranged);
  EXPECT_EQ(arranged->info().layout, "tp2,pp2,dp2,ep2,etp2");
  expect_same_state(*open("hf"), *arranged, 2);
  EXPECT_THAT(refusal("arranged", {.from = "tp2"}), HasSubstr("do not apply"));
}

// An etp that nobody says is tp under Megatron's names, and there only.
TEST_F(CheckpointTest, ExpertsAreCutAsMegatronCutsThem) {
  write_hugging_face(path("hf"), mixtral_config());
  const auto view = View::make(open("hf"), "tp2");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ((*view)->name(), "tp2-etp2");
  EXPECT_THAT((*view)->notes(), ::testing::Contains(HasSubstr("experts are cut by etp2")));
  EXPECT_EQ((*View::make(open("hf"), "tp2-etp1"))->name(), "tp2-etp1");
  EXPECT_EQ((*View::make(open("hf"), "logical-tp2"))->name(), "logical-tp2");
  EXPECT_THAT(message_of(View::make(open("hf"), "tp2-ep2").status()), HasSubstr("say etp1"));
  reshard_bare("hf", "cut", "tp2");
  reshard_bare("hf", "whole", "tp2-etp1");
  OpenOptions options;
  options.config = path("hf/config.json");
  const auto open_as = [&](const std::string& name, const std::string& from) {
    options.from = from;
    return refusal(name, options);
  };
  EXPECT_EQ(open_as("cut", "tp2"), "accepted");
  EXPECT_EQ(open("cut", options)->info().layout, "tp2,etp2");
  expect_same_state(*open("hf"), *open("cut", options), 12);
  EXPECT_EQ(open_as("whole", "tp2,etp1"), "accepted");
  EXPECT_EQ(open("whole", options)->info().layout, "tp2,etp1");
  EXPECT_THAT(open_as("whole", "tp2"), HasSubstr("hint: read as tp2,etp2; if experts are cut otherwise"));
  EXPECT_THAT(open_as("cut", "tp2,etp1"), HasSubstr("hint: read as tp2,etp1"));
}

TEST_F(CheckpointTest, APlainFileStandsForItself) {
  write_hugging_face(path("hf"), llama_config(4, 4));
  const auto plain = Checkpoint::open(path("hf/model.safetensors"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ((*plain)->info().kind, CheckpointKind::kPlain);
  EXPECT_TRUE((*plain)->find("model.embed_tokens.weight").has_value());
}

TEST_F(CheckpointTest, AFileMayBeThatOfTheOnlyRank) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  reshard_bare("hf", "ranks", "tp1");
  fs::create_directories(path("one"));
  fs::copy_file(path("ranks/rank_000.safetensors"), path("one/weights.safetensors"));
  OpenOptions options;
  options.config = path("hf/config.json");
  for (const auto& [names, from] : {std::pair("megatron", "tp1"), std::pair("", "tp1"), std::pair("megatron", "")}) {
    options.names = names;
    options.from = from;
    const auto file = open("one/weights.safetensors", options);
    EXPECT_EQ(file->info().naming, "megatron");
    expect_same_state(*open("hf"), *file, 11);
  }
  options.from = "tp2";
  EXPECT_THAT(refusal("one/weights.safetensors", options), HasSubstr("1 rank files, but tp2 has 2 ranks"));
  // Elsewhere it would mean nothing.
  EXPECT_THAT(refusal("hf", {.names = "", .from = "tp2"}), HasSubstr("give the file itself"));
  EXPECT_THAT(refusal("one", options), HasSubstr("give the file itself"));
}

TEST_F(CheckpointTest, AnIndexThatCountsOtherBytesIsNoted) {
  write_hugging_face(path("hf"), llama_config(8, 2), {.shard_bytes = 40'000, .prefix = {}});
  EXPECT_TRUE(open("hf")->info().notes.empty());
  const std::string index = path("hf/") + std::string(kIndexFileName);
  nlohmann::json json = nlohmann::json::parse(text_of(index));
  const auto bytes = json["metadata"]["total_size"].get<int64_t>();
  json["metadata"]["total_size"] = static_cast<double>(bytes);
  write_text(index, json.dump());
  EXPECT_TRUE(open("hf")->info().notes.empty());
  json["metadata"]["total_size"] = bytes + 2;
  write_text(index, json.dump());
  EXPECT_THAT(open("hf")->info().notes, ::testing::ElementsAre(HasSubstr(fmt::format(
                                            "total_size says {} bytes, the tensors have {}", bytes + 2, bytes))));
  json["metadata"] = nlohmann::json::array({1});
  write_text(index, json.dump());
  EXPECT_TRUE(open("hf")->info().notes.empty());
}

TEST_F(CheckpointTest, WhatTorchWroteIsToldWithTheWayToReadIt) {
  for (const char* name : {"iter_0000100", "__0_0.distcp", "model.pt"}) {
    const std::string folder = fmt::format("of_{}", name);
    fs::create_directories(path(folder));
    write_text(path(folder) + "/" + name, "x");
    EXPECT_THAT(refusal(folder), HasSubstr(fmt::format("torch's {}", name)));
    EXPECT_THAT(refusal(folder), HasSubstr("torch_to_safetensors.py"));
  }
  fs::create_directories(path("old"));
  write_text(path("old/pytorch_model.bin"), "x");
  write_text(path("old/config.json"), llama_config(8, 2));
  EXPECT_THAT(refusal("old"), AllOf(HasSubstr("pytorch_model.bin: not a file of torch.save as of torch 1.6"),
                                    HasSubstr("torch_to_safetensors.py reads older ones")));
}

TEST_F(CheckpointTest, AllThatIsWrongIsSaidAtOnce) {
  write_hugging_face(path("hf"), llama_config(8, 2), {.shard_bytes = 40'000, .prefix = {}});
  ASSERT_GT(open("hf")->files().size(), 2u);
  const std::string index = path("hf/") + std::string(kIndexFileName);
  std::string text = text_of(index);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    SCALAI_CHECK(at != std::string::npos, from);
    text.replace(at, from.size(), to);
  };
  replace("\"lm_head.weight\"", "\"no_head.weight\"");
  replace("\"model.norm.weight\": \"model-0000", "\"model.norm.weight\": \"model-1000");
  write_text(index, text);
  EXPECT_THAT(refusal("hf"), HasSubstr("model-1000"));  // a file that is not there
  replace("model-1000", "model-0000");
  write_text(index, text);
  EXPECT_THAT(refusal("hf"), HasSubstr("\"lm_head.weight\" is in"));
  EXPECT_THAT(refusal("hf"), HasSubstr("\"no_head.weight\" is not in"));
  EXPECT_THAT(refusal("nothing"), HasSubstr("no such folder"));
  fs::create_directories(path("empty"));
  EXPECT_THAT(refusal("empty"), HasSubstr("no checkpoint: neither manifest.json"));
}

TEST_F(CheckpointTest, ManifestsThatDoNotFitTheFilesAreRefused) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  reshard_to("hf", "arranged", "tp2-dp2");
  const std::string manifest = path("arranged/manifest.json");
  const std::string good = text_of(manifest);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    SCALAI_CHECK(at != std::string::npos, from);
    text.replace(at, from.size(), to);
    write_text(manifest, text);
    return refusal("arranged");
  };
  EXPECT_EQ(with("arranged", "arranged"), "accepted");
  EXPECT_THAT(with("\"kind\": \"arranged\"", "\"kind\": \"strange\""), HasSubstr("does not know"));
  EXPECT_THAT(with("\"schema_version\": 2", "\"schema_version\": 3"), HasSubstr("reads version 2"));
  // The box of one tensor-parallel rank: the other ranks' no longer cover.
  EXPECT_THAT(with("[0:512, 0:32]", "[0:511, 0:32]"), HasSubstr("overlaps"));
  EXPECT_THAT(with("[0:512, 0:32]", "[0:513, 0:32]"), HasSubstr("too few"));
  EXPECT_THAT(with("[0:512, 0:32]", "[0:512, 0:33]"), HasSubstr("is not in"));
}

TEST_F(CheckpointTest, VerifyFindsDamageByFileTensorAndBox) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  reshard_to("hf", "arranged", "tp2-dp2");
  reshard_bare("hf", "bare", "tp2-dp2");
  EXPECT_TRUE(open("arranged")->verify({.threads = 2, .progress = {}}).ok());
  const int64_t end = static_cast<int64_t>(fs::file_size(path("arranged/rank_001.safetensors")));
  damage(path("arranged/rank_001.safetensors"), end - 1);
  damage(path("arranged/rank_002.safetensors"), end - 1);
  damage(path("arranged/config.json"), 3);
  auto opened = Checkpoint::open(path("arranged"));
  if (!opened.ok()) {  // the damaged config.json may not even parse
    EXPECT_THAT(message_of(opened.status()), HasSubstr("config.json"));
    damage(path("arranged/config.json"), 3);
    opened = Checkpoint::open(path("arranged"));
  }
  ASSERT_TRUE(opened.ok()) << opened.status();
  const absl::Status status = (*opened)->verify({.threads = 2, .progress = {}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(message_of(status), HasSubstr("rank_001.safetensors: tensor \""));
  EXPECT_THAT(message_of(status), HasSubstr("rank_002.safetensors: tensor \""));
  EXPECT_THAT(message_of(status), HasSubstr("box ["));
  // Without checksums, copies are what can be compared: rank 2 holds what rank 0 holds.
  const OpenOptions told{.from = "tp2,dp2", .config = path("hf/config.json")};
  EXPECT_TRUE(open("bare", told)->verify({}).ok());
  damage(path("bare/rank_002.safetensors"), end - 1);
  EXPECT_THAT(message_of(open("bare", told)->verify({})), HasSubstr("copies of the same state have to be equal"));
}

TEST_F(CheckpointTest, AChangedFileIsAnErrorThatNamesTensorAndFile) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const auto opened = open("hf");
  fs::resize_file(path("hf/model.safetensors"), 3000);
  std::vector<std::byte> to(64);
  const size_t tensor = *opened->find("layers.3.mlp.up.weight");
  const absl::Status status = opened->read(tensor, tensor::Box({0, 0}, {1, 32}), to);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(message_of(status), HasSubstr("layers.3.mlp.up.weight"));
  EXPECT_THAT(message_of(status), HasSubstr("model.safetensors"));
}

// A tied model whose head is stored all the same, in a file before that of the embedding.
void write_tied_with_head(const std::string& folder, bool equal) {
  const std::string config = llama_config(8, 2, /*tied=*/true);
  write_hugging_face(folder, config);
  const absl::StatusOr<SafetensorsFile> whole = SafetensorsFile::open(folder + "/model.safetensors");
  SCALAI_CHECK(whole.ok());
  const StoredTensor& embedding = *whole->find("model.embed_tokens.weight");
  std::vector<std::byte> bytes(static_cast<size_t>(embedding.bytes));
  SCALAI_CHECK(whole->read(embedding, 0, bytes).ok());
  if (!equal) bytes[bytes.size() - 2] ^= std::byte{1};
  const std::vector<TensorSpec> specs = {{"lm_head.weight", embedding.dtype, embedding.shape}};
  SCALAI_CHECK(write_safetensors(folder + "/model-00001-of-00002.safetensors", specs, {{"format", "pt"}},
                                 [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
                                   return std::span<const std::byte>(bytes);
                                 })
                   .ok());
  std::string map = R"("lm_head.weight": "model-00001-of-00002.safetensors")";
  for (const StoredTensor& stored : whole->header().tensors) {
    map += fmt::format(R"(, "{}": "model-00002-of-00002.safetensors")", stored.name);
  }
  fs::rename(folder + "/model.safetensors", folder + "/model-00002-of-00002.safetensors");
  write_text(folder + "/" + std::string(kIndexFileName), fmt::format(R"({{"weight_map": {{{}}}}})", map));
}

TEST_F(CheckpointTest, AnAliasIsNeverReadAndHasToBeEqual) {
  write_tied_with_head(path("equal"), true);
  write_tied_with_head(path("other"), false);
  const auto equal = open("equal");
  EXPECT_EQ(equal->files().size(), 2u);
  for (size_t tensor = 0; tensor < equal->tensors().size(); ++tensor) {
    const tensor::Box box = tensor::Box::whole(equal->tensors()[tensor].shape);
    std::vector<CopyBlock> blocks;
    equal->compose(tensor, {.box = box, .offset = 0, .strides = box.shape().strides()}, 0, blocks);
    for (const CopyBlock& block : blocks) {
      EXPECT_THAT(equal->source(block.file).name(), HasSubstr("00002-of")) << equal->tensors()[tensor].name;
    }
  }
  EXPECT_TRUE(equal->verify({}).ok());
  EXPECT_THAT(refusal("other"), HasSubstr("model-00001-of-00002.safetensors: tensor \"lm_head.weight\""));
  EXPECT_THAT(refusal("other"), HasSubstr("model-00002-of-00002.safetensors has as \"model.embed_tokens.weight\""));
}

// As rsync -t or touch -r leave it.
TEST_F(CheckpointTest, AFileThatWasReplacedIsAnotherCheckpoint) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const std::string file = path("hf/model.safetensors");
  const std::string before = open("hf")->identity();
  EXPECT_EQ(open("hf")->identity(), before);
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  ::usleep(20'000);  // a tick of the clock that the file system stamps with
  damage(file, static_cast<int64_t>(fs::file_size(file)) - 1);
  const timespec times[2] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  EXPECT_NE(open("hf")->identity(), before);
}

// The same files under another manifest are another checkpoint.
TEST_F(CheckpointTest, WhatLiesWhereIsPartOfTheIdentity) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  reshard_to("hf", "a", "logical-tp2");
  const std::string before = open("a")->identity();
  std::string manifest = text_of(path("a/manifest.json"));
  const auto rename = [&](const std::string& from, const std::string& to) {
    const std::string piece = "[[\"";
    SCALAI_CHECK(manifest.find(piece + from) != std::string::npos, from);
    for (size_t at = 0; (at = manifest.find(piece + from, at)) != std::string::npos; ++at) {
      manifest.replace(at, piece.size() + from.size(), piece + to);
    }
  };
  rename("layers.0.mlp.up.weight", "layers.X.mlp.up.weight");
  rename("layers.1.mlp.up.weight", "layers.0.mlp.up.weight");
  rename("layers.X.mlp.up.weight", "layers.1.mlp.up.weight");
  write_text(path("a/manifest.json"), manifest);
  EXPECT_NE(open("a")->identity(), before);
}

TEST_F(CheckpointTest, PiecesWhoseElementsShareAPlaceAreRefused) {
  const std::string file = path("c/x.safetensors");
  fs::create_directories(path("c"));
  const std::vector<std::byte> bytes(8);
  const std::vector<TensorSpec> specs = {{"t", tensor::DType::kU8, {8}}};
  ASSERT_TRUE(
      write_safetensors(file, specs, {}, [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
        return std::span<const std::byte>(bytes);
      }).ok());
  const auto refused = [&](const std::string& states, const std::string& pieces) {
    const std::string sum(32, '0');
    write_text(path("c/manifest.json"),
               fmt::format(R"({{"schema_version": 2, "kind": "arranged", "naming": "logical", "layout": "", "epoch": 0,
 "texts": [], "states": [{}], "files": [{{"name": "x.safetensors", "bytes": {}, "xxh3_128": "{}",
 "tensors": [{{"key": "t", "xxh3_128": "{}", "pieces": [{}]}}]}}]}})",
                           states, fs::file_size(file), sum, sum, pieces));
    return refusal("c");
  };
  const auto state = [](const std::string& name, const std::string& shape) {
    return fmt::format(R"({{"name": "{}", "dtype": "U8", "shape": {}, "kind": "param"}})", name, shape);
  };
  EXPECT_EQ(refused(state("a", "[2, 4]"), R"(["a", "[0:2, 0:4]"])"), "accepted");
  EXPECT_EQ(refused(state("a", "[4, 2]"), R"(["a", "[0:4, 0:2]", 0, [1, 4]])"), "accepted");
  // Of a single row, it does not matter how long a step would be.
  EXPECT_EQ(refused(state("a", "[1, 8]"), R"(["a", "[0:1, 0:8]", 0, [4611686018427387904, 1]])"), "accepted");
  EXPECT_THAT(refused(state("a", "[2305843009213693952]"), R"(["a", "[0:2305843009213693952]", 0, [0]])"),
              HasSubstr("several elements in one place"));
  EXPECT_THAT(refused(state("a", "[3, 4]"), R"(["a", "[0:3, 0:4]", 0, [2, 1]])"),
              HasSubstr("several elements in one place"));
  EXPECT_THAT(refused(state("a", "[8]") + ", " + state("b", "[8]"), R"(["a", "[0:8]"], ["b", "[0:8]"])"),
              HasSubstr("fewer than its pieces"));
  const std::string large = "[4611686018427387904]";
  EXPECT_THAT(refused(state("a", large) + ", " + state("b", large), ""), HasSubstr("2^63 bytes"));
}

TEST_F(CheckpointTest, PathsThatAreNoneAreErrors) {
  fs::create_symlink(path("loop"), path("loop"));
  EXPECT_THAT(refusal("loop"), HasSubstr("no such folder"));
  EXPECT_THAT(refusal(std::string(5000, 'x')), HasSubstr("no such folder"));
  EXPECT_NE(refusal(std::string(5000, 'x') + ".safetensors"), "accepted");
}

TEST_F(CheckpointTest, WhatIsEmptyOrNoFileIsNotTakenForAbsent) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  for (const char* name : {"manifest.json", "model.safetensors.index.json", "model.textproto"}) {
    write_text(path(std::string("hf/") + name), "");
    EXPECT_THAT(refusal("hf"), HasSubstr(std::string(name) + ": is empty"));
    fs::remove(path(std::string("hf/") + name));
  }
  fs::rename(path("hf/config.json"), path("config.json"));
  fs::create_directories(path("hf/config.json"));
  EXPECT_THAT(refusal("hf", {.model = "llama3-8b"}), HasSubstr("config.json: is not a regular file"));
  fs::remove(path("hf/config.json"));
  write_text(path("hf/config.json"), "{");
  fs::resize_file(path("hf/config.json"), uint64_t{3} << 30);  // not read to find out
  EXPECT_THAT(refusal("hf"), HasSubstr("has 3221225472 bytes, more than"));
  fs::remove(path("hf/config.json"));
  ASSERT_EQ(::mkfifo(path("hf/config.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal("hf"), HasSubstr("is not a regular file"));
}

TEST_F(CheckpointTest, SaysWhichOfTwoAndWhatIsMissing) {
  write_hugging_face(path("hf"), llama_config(8, 2), {.shard_bytes = 40'000, .prefix = {}});
  const size_t shards = open("hf")->files().size();
  fs::copy_file(path("hf/") + open("hf")->files()[0].name, path("hf/model.safetensors"));
  EXPECT_THAT(refusal("hf"), HasSubstr("there are both model.safetensors and model.safetensors.index.json"));
  fs::remove(path("hf/model.safetensors"));
  fs::remove(path(fmt::format("hf/model-00001-of-{:05}.safetensors", shards)));
  fs::remove(path(fmt::format("hf/model-00002-of-{:05}.safetensors", shards)));
  const absl::Status status = Checkpoint::open(path("hf")).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  for (const char* name : {"model-00001", "model-00002"}) EXPECT_THAT(message_of(status), HasSubstr(name));
  EXPECT_THAT(message_of(status), HasSubstr("which model.safetensors.index.json says holds \"model."));
}

TEST_F(CheckpointTest, AForeignManifestCanBeLeftAside) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  write_text(path("hf/manifest.json"), R"({"images": []})");
  EXPECT_THAT(refusal("hf"), HasSubstr("--names=hf leaves it aside"));
  EXPECT_EQ(refusal("hf", {.names = "hf"}), "accepted");
  // Ours is not, whatever is said.
  fs::remove(path("hf/manifest.json"));
  reshard_to("hf", "ours", "hf");
  EXPECT_THAT(refusal("ours", {.names = "hf"}), HasSubstr("do not apply"));
}

}  // namespace
}  // namespace scalai::store
