#include "ptc/store/views/internal/dcp_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "ptc/state/collection/distributed_optimizer.h"
#include "ptc/store/torch/testing/torch_writer.h"
#include "ptc/store/torch/torch_frame.h"
#include "ptc/store/views/internal/rank_optimizers.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace dcp_buckets_test {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::StartsWith;

DcpTensor named(const std::string& name, std::vector<int64_t> shape = {4}, const std::vector<int64_t>& chunk = {}) {
  DcpTensor tensor{.path = {name}, .dtype = tensor::DType::kF32, .shape = std::move(shape), .chunks = {}};
  if (!chunk.empty())
    tensor.chunks.push_back({.offsets = std::vector<int64_t>(chunk.size(), 0), .sizes = chunk, .file = "f"});
  return tensor;
}

TEST(DcpBuckets, NamesSayWhoseTheyAre) {
  const std::string bucket = ".gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_12";
  std::vector<DcpTensor> tensors = {named("optimizer.distributed.dp_group_idx_3" + bucket + ".exp_avg"),
                                    named("chained_1.optimizer.distributed.dp_group_idx_10" + bucket + ".param"),
                                    named("optimizer.distributed.dp_group_idx_3.optimizer"),
                                    named("optimizer.state.exp_avg.output_layer.weight"),
                                    named("chained_x.optimizer.distributed.dp_group_idx_3" + bucket + ".param")};
  const std::vector<BucketTensor> found = take_buckets(tensors);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(tensors, SizeIs(3));
  EXPECT_EQ(found[0].chain, -1);
  EXPECT_EQ(found[0].group, 3);
  EXPECT_EQ(found[0].bucket, bucket);
  EXPECT_EQ(found[0].key, "exp_avg");
  EXPECT_EQ(found[1].chain, 1);
  EXPECT_EQ(found[1].group, 10);
  EXPECT_EQ(found[1].key, "param");
}

TEST(DcpBuckets, ChunksSayTheLayout) {
  const BucketLayout layout =
      bucket_layout({named("embedding.word_embeddings.weight", {512, 32}, {128, 32}),
                     named("decoder.layers.mlp.experts.experts.linear_fc2.weight", {2, 4, 32, 48}, {1, 1, 32, 24})});
  EXPECT_EQ(layout.tp, 4);
  EXPECT_EQ(layout.etp, 2);
  EXPECT_EQ(layout.vocabulary_rows, 512);
}

// One tensor, and what the index says of the layout. No folder is touched.
TEST(DcpBuckets, LayoutsThatCannotBeAreRefused) {
  Opened opened;
  opened.model = KnownModel{};
  opened.model->model.experts = 4;
  const OpenOptions options;
  const Folder folder("/nowhere", options);
  const auto refused = [&](const std::vector<std::pair<int, int>>& chains_and_groups, const BucketLayout& layout) {
    std::vector<BucketTensor> tensors;
    for (const auto& [chain, group] : chains_and_groups)
      tensors.push_back({.chain = chain, .group = group, .bucket = "b", .key = "param", .tensor = named("x")});
    const absl::Status status = open_buckets(folder, Naming::logical(), tensors, layout, Joined::kNo, opened);
    return absl::IsFailedPrecondition(status) ? message_of(status) : "accepted";
  };
  constexpr int kMost = std::numeric_limits<int>::max();
  const std::string ranks = "they are of ";
  EXPECT_THAT(refused({{-1, kMost}}, {}), StartsWith(ranks));
  EXPECT_THAT(refused({{-1, 0}}, {.tp = int64_t{1} << 32}), StartsWith(ranks));
  EXPECT_THAT(refused({{-1, 0}, {-1, 1}, {-1, 2}}, {.tp = 2}), StartsWith(ranks));
  EXPECT_THAT(refused({{0, 0}, {1, 0}}, {.tp = 1, .etp = int64_t{1} << 62}), StartsWith(ranks));
  EXPECT_THAT(refused({{0, 0}, {1, kMost}}, {}), StartsWith(ranks));
}

// One rank of tp and pp: its tensors as rank files have them.
struct Rank {
  std::vector<StoredTensor> tensors;
  std::string bytes;
};

// A folder of Megatron-Core with buckets, made of the rank files of the same model.
class BucketFolderTest : public FolderTest {
 protected:
  static constexpr int kTp = 2, kPp = 2, kShares = 2, kLayers = 4;

  void SetUp() override {
    FolderTest::SetUp();
    write_hugging_face(path("hf"), llama_config(4, 2), {}, 9, /*finite=*/true);
    source_ = open(path("hf"), {});
    const auto view = *View::make(source_, "torch_dist");
    for (size_t i = 0; i < view->files(); ++i) {
      const std::string file = path("dist/" + view->file_name(i));
      std::filesystem::create_directories(std::filesystem::path(file).parent_path());
      write_text(file, *read_all(**view->open(i)));
    }
    const auto ranks = *View::make(source_, "tp2,pp2,megatron");
    for (int rank = 0; rank < kTp * kPp; ++rank) {
      const ByteSourcePtr file = *ranks->open(*ranks->find(fmt::format("rank_{:03}.safetensors", rank)));
      ranks_.push_back({read_safetensors_header(*file)->tensors, *read_all(*file)});
    }
  }

  static std::shared_ptr<const Checkpoint> open(const std::string& folder, const OpenOptions& options) {
    auto opened = Checkpoint::open(folder, options);
    SCALAI_CHECK(opened.ok(), message_of(opened.status()));
    return *opened;
  }
  std::shared_ptr<const Checkpoint> open_buckets(bool drop_optimizer = false) const {
    return open(path("dist"), {.config = path("hf/config.json"), .drop_optimizer = drop_optimizer});
  }

  // Forward, as the modules of Megatron-Core are made, of those that the rank has.
  static std::vector<const StoredTensor*> in_order(const Rank& rank) {
    std::vector<std::string> names = {"embedding.word_embeddings.weight"};
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const char* name : {"input_layernorm", "self_attention.linear_proj", "self_attention.linear_qkv",
                               "pre_mlp_layernorm", "mlp.linear_fc1", "mlp.linear_fc2"})
        names.push_back(fmt::format("decoder.layers.{}.{}.weight", layer, name));
    }
    names.insert(names.end(), {"decoder.final_layernorm.weight", "output_layer.weight"});
    std::vector<const StoredTensor*> found;
    for (const std::string& name : names) {
      for (const StoredTensor& tensor : rank.tensors) {
        if (tensor.name == name) found.push_back(&tensor);
      }
    }
    return found;
  }

  // The state of a parameter: the same wherever its values are the same. Masters round to them.
  static std::vector<uint32_t> state_of(const Rank& rank, const StoredTensor& tensor, const std::string& key) {
    const std::string bytes = rank.bytes.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
    Random random(std::hash<std::string>()(bytes + key));
    std::vector<uint32_t> state(bytes.size() / 2);
    for (size_t i = 0; i < state.size(); ++i) {
      uint16_t value = 0;
      std::memcpy(&value, &bytes[2 * i], 2);
      state[i] = key == "param" ? uint32_t{value} << 16 | static_cast<uint32_t>(random.below(0x8000))
                                : static_cast<uint32_t>(random.next()) & 0xbfffffffU;
    }
    return state;
  }

  struct Options {
    bool fused = false;  // as Transformer Engine's modules are made
    std::vector<std::string> keys = {"param", "exp_avg", "exp_avg_sq"};
    std::function<void(std::vector<uint32_t>& bucket, const std::string& key)> edit;
  };
  void write_buckets(const Options& options) const;
  void write_rank_files() const;
  // named: a state whose masters get other values, or whose name says nothing.
  void write_rank_optimizers(const std::string& named) const;
  void expect_states(const std::shared_ptr<const Checkpoint>& checkpoint) const;

  std::shared_ptr<const Checkpoint> source_;
  std::vector<Rank> ranks_;
};

// Each chunk is of one share and one parameter or gap, as Megatron-Core writes them.
void BucketFolderTest::write_buckets(const Options& options) const {
  std::vector<TensorSpec> specs;
  std::vector<std::string> values;                  // their bytes
  std::vector<std::pair<size_t, DcpChunk>> chunks;  // and the tensor
  std::vector<DcpTensor> index = *parse_dcp_index(text_of(path("dist/release/.metadata")));
  std::erase_if(index, [](const DcpTensor& tensor) {
    return tensor.path.back().starts_with("embedding.") || tensor.path.back().starts_with("optimizer.");
  });
  // The vocabulary in chunks of tp, with its padding.
  index.push_back(named("embedding.word_embeddings.weight", {1024, 32}));
  index.back().dtype = tensor::DType::kBF16;
  for (int tp = 0; tp < kTp; ++tp) {
    const Rank& rank = ranks_[static_cast<size_t>(tp)];
    const StoredTensor& rows = *in_order(rank).front();
    specs.push_back({std::to_string(specs.size()), rows.dtype, rows.shape});
    values.push_back(rank.bytes.substr(static_cast<size_t>(rows.offset), static_cast<size_t>(rows.bytes)));
    chunks.emplace_back(index.size() - 1, DcpChunk{{512 * tp, 0}, rows.shape, "buckets.distcp"});
  }
  for (int group = 0; group < kTp * kPp; ++group) {
    const Rank& rank = ranks_[static_cast<size_t>(group)];
    std::vector<const StoredTensor*> order = in_order(rank);
    // A fused norm comes behind the projection.
    for (size_t i = 0; options.fused && i + 1 < order.size(); ++i) {
      if (order[i]->name.ends_with("input_layernorm.weight")) std::swap(order[i], order[i + 1]), ++i;
    }
    std::vector<collection::BufferParam> sizes;
    for (const StoredTensor* const tensor : order) sizes.push_back({tensor->bytes / 2});
    const auto places = collection::place_in_buckets(sizes, kShares, {.bucket_elements = 6000});
    for (size_t last = order.size(), bucket = 0; last > 0; ++bucket) {
      size_t first = last - 1;  // forward: the bucket is [first, last)
      while (first > 0 && places[first - 1].start != 0) --first;
      const int64_t elements = places[first].start + sizes[first].elements;
      for (const std::string& key : options.keys) {
        std::vector<uint32_t> content(static_cast<size_t>(elements), 0x7fc00000U);
        std::vector<int64_t> cuts = {0, elements};
        for (int share = 1; share < kShares; ++share) cuts.push_back(places[first].bucket / kShares * share);
        for (size_t i = first; i < last; ++i) {
          const std::vector<uint32_t> state = state_of(rank, *order[i], key);
          std::copy(state.begin(), state.end(), content.begin() + places[i].start);
          cuts.insert(cuts.end(), {places[i].start, places[i].start + sizes[i].elements});
        }
        if (options.edit) options.edit(content, key);
        index.push_back(
            named(fmt::format("optimizer.distributed.dp_group_idx_{}.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32)."
                              "bucket_idx_{}.{}",
                              group, bucket, key),
                  {elements}));
        std::sort(cuts.begin(), cuts.end());
        for (size_t i = 1; i < cuts.size(); ++i) {
          const int64_t from = cuts[i - 1], to = std::min(cuts[i], elements);
          if (from >= to) continue;
          specs.push_back({std::to_string(specs.size()), tensor::DType::kF32, {to - from}});
          values.emplace_back(reinterpret_cast<const char*>(&content[static_cast<size_t>(from)]), 4 * (to - from));
          chunks.emplace_back(index.size() - 1, DcpChunk{{from}, {to - from}, "buckets.distcp"});
        }
      }
      last = first;
    }
  }
  const ChunkFrame frame = chunk_frame(specs, {});
  std::string file(static_cast<size_t>(frame.frame.bytes), '\0');
  for (const FileFrame::Text& part : frame.frame.texts)
    file.replace(static_cast<size_t>(part.offset), part.bytes.size(), part.bytes);
  for (size_t i = 0; i < specs.size(); ++i) {
    const StoredTensor& stored = frame.frame.tensors[i];
    file.replace(static_cast<size_t>(stored.offset), values[i].size(), values[i]);
    chunks[i].second.begin = frame.places[i].begin;
    chunks[i].second.bytes = frame.places[i].bytes;
    index[chunks[i].first].chunks.push_back(chunks[i].second);
  }
  write_text(path("dist/release/buckets.distcp"), file);
  std::sort(index.begin(), index.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  write_text(path("dist/release/.metadata"), dcp_index_text(index));
}

void BucketFolderTest::write_rank_files() const {
  const auto view = *View::make(source_, "tp2,pp2,torch");
  for (size_t i = 0; i < view->files(); ++i) {
    const std::string file = path("torch/" + view->file_name(i));
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_text(file, *read_all(**view->open(i)));
  }
}

void BucketFolderTest::write_rank_optimizers(const std::string& named) const {
  for (int group = 0; group < kTp * kPp; ++group) {
    const Rank& rank = ranks_[static_cast<size_t>(group)];
    const std::vector<const StoredTensor*> order = in_order(rank);
    std::vector<collection::BufferParam> sizes;
    for (const StoredTensor* const tensor : order) sizes.push_back({tensor->bytes / 2});
    const auto places = collection::place_in_buckets(sizes, kShares, {.bucket_elements = 6000});
    std::vector<TorchTensor> tensors;
    std::vector<std::pair<std::string, std::string>> storages;
    for (const char* key : {"param", "exp_avg", "exp_avg_sq"}) {
      std::vector<uint32_t> content;
      size_t bucket = 0;  // where it begins
      for (size_t i = order.size(); i-- > 0;) {
        if (places[i].start == 0) bucket = content.size();
        content.resize(bucket + static_cast<size_t>(places[i].start), 0x7fc00000U);
        const std::vector<uint32_t> state = state_of(rank, *order[i], key);
        content.insert(content.end(), state.begin(), state.end());
      }
      std::string name = fmt::format("0.?.{}", key);
      if (named == name) content.front() ^= 0x10000U;
      if (named == "0.x.param") name[2] = 'x';
      const auto elements = std::ssize(content);
      tensors.push_back({.name = name, .shape = {elements}, .strides = {1}, .key = key});
      storages.emplace_back(key, std::string(reinterpret_cast<const char*>(content.data()), 4 * content.size()));
    }
    write_text(path(fmt::format("torch/release/mp_rank_{:02}_{:03}/distrib_optim.pt", group % kTp, group / kTp)),
               torch_file(tensors, storages));
  }
}

std::vector<std::string> notes_of(const Checkpoint& checkpoint) {
  std::vector<std::string> found;
  for (const std::string& note : checkpoint.info().notes) {
    if (note.find("distributed optimizer") != std::string::npos) found.push_back(note);
  }
  return found;
}

// Every parameter of every rank has the state that was written for it.
void BucketFolderTest::expect_states(const std::shared_ptr<const Checkpoint>& checkpoint) const {
  EXPECT_THAT(notes_of(*checkpoint), SizeIs(0));
  ViewSpec spec = *parse_view_name("tp2,pp2,megatron");
  spec.transformer_engine = false;
  const auto view = *View::make(checkpoint, spec);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const ByteSourcePtr file = *view->open(*view->find(fmt::format("rank_{:03}.safetensors", r)));
    const SafetensorsHeader header = *read_safetensors_header(*file);
    const std::string bytes = *read_all(*file);
    EXPECT_EQ(header.tensors.size(), 4 * ranks_[r].tensors.size());
    for (const StoredTensor* const param : in_order(ranks_[r])) {
      for (const auto& [key, suffix] : std::map<std::string, std::string>{
               {"param", ".master"}, {"exp_avg", ".exp_avg"}, {"exp_avg_sq", ".exp_avg_sq"}}) {
        const auto found =
            std::find_if(header.tensors.begin(), header.tensors.end(),
                         [&, &suffix = suffix](const auto& each) { return each.name == param->name + suffix; });
        ASSERT_NE(found, header.tensors.end()) << param->name << suffix;
        EXPECT_EQ(found->dtype, tensor::DType::kF32);
        std::vector<uint32_t> expected = state_of(ranks_[r], *param, key);
        // Words that the model does not have are padding, of which nothing goes along.
        const bool words = param->name.starts_with("embedding.") || param->name.starts_with("output_layer.");
        if (words && r % kTp == 1) std::fill(expected.begin() + (1000 - 512) * 32, expected.end(), 0);
        std::vector<uint32_t> state(expected.size());
        ASSERT_EQ(found->bytes, std::ssize(state) * 4);
        std::memcpy(state.data(), &bytes[static_cast<size_t>(found->offset)], static_cast<size_t>(found->bytes));
        EXPECT_EQ(state, expected) << param->name << suffix;
      }
    }
  }
}

TEST_F(BucketFolderTest, ParametersAreFoundByTheirValues) {
  for (const bool fused : {false, true}) {
    SCOPED_TRACE(fused ? "Transformer Engine" : "Megatron-Core");
    write_buckets({.fused = fused});
    expect_states(open_buckets());
  }
}

TEST_F(BucketFolderTest, FilesBesideThoseOfTheRanksHaveThemOneAfterTheOther) {
  write_rank_files();
  for (const char* edit : {"", "0.?.param", "0.x.param"}) {
    SCOPED_TRACE(edit);
    write_rank_optimizers(edit);
    const OpenOptions how{.config = path("hf/config.json"), .drop_optimizer = *edit != '\0'};
    if (*edit != '\0') {
      EXPECT_THAT(message_of(Checkpoint::open(path("torch"), {.config = how.config}).status()),
                  HasSubstr("the optimizer's state in distrib_optim.pt has no place here: "));
    }
    const auto checkpoint = open(path("torch"), how);
    if (*edit == '\0') {
      expect_states(checkpoint);
      continue;
    }
    EXPECT_EQ(checkpoint->tensors().size(), source_->tensors().size());
    EXPECT_THAT(checkpoint->info().notes,
                ElementsAre(StartsWith("left out: the optimizer's state in distrib_optim.pt, ")));
  }
}

TEST_F(BucketFolderTest, WhatCannotBeToldIsRefusedWithAReason) {
  // The reason, which is that of the note where it is left out.
  const auto refused = [&](const Options& options) {
    write_buckets(options);
    const std::string text = message_of(Checkpoint::open(path("dist"), {.config = path("hf/config.json")}).status());
    const auto checkpoint = open_buckets(/*drop_optimizer=*/true);
    EXPECT_EQ(checkpoint->tensors().size(), source_->tensors().size());
    const std::vector<std::string> notes = notes_of(*checkpoint);
    EXPECT_EQ(notes.size(), 1U);
    const std::string begin = "the distributed optimizer's state has no place here: ";
    const size_t at = text.find(begin), end = text.find(":\n\"optimizer.distributed.");
    if (at == std::string::npos || end == std::string::npos) return text;
    const std::string reason = text.substr(at + begin.size(), end - at - begin.size());
    EXPECT_THAT(notes.front(), HasSubstr("tensors; " + reason));
    return reason;
  };
  for (const size_t at : {size_t{0}, size_t{31}}) {
    const auto edit = [&](std::vector<uint32_t>& bucket, const std::string& key) {
      if (key == "param") bucket[at] ^= 0x10000U;  // the next number in 16 bits
    };
    EXPECT_EQ(refused({.edit = edit}), "their masters are not those of the parameters in any order known here");
  }
  EXPECT_THAT(refused({.keys = {"exp_avg", "exp_avg_sq"}}), StartsWith("\".gbuf_idx_0."));
  EXPECT_EQ(refused({.keys = {"param", "seventh"}}), "nothing here is called \"seventh\"");
}

TEST_F(BucketFolderTest, MomentsMayBeAnything) {
  write_buckets({.edit = [](std::vector<uint32_t>& bucket, const std::string& key) {
    if (key != "param") std::fill(bucket.begin(), bucket.end(), 0);
  }});
  const auto checkpoint = open_buckets();
  EXPECT_THAT(notes_of(*checkpoint), SizeIs(0));
  EXPECT_EQ(checkpoint->tensors().size(), 4 * source_->tensors().size());
}

}  // namespace dcp_buckets_test
}  // namespace scalai::store::internal
