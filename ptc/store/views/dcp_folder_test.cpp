#include "ptc/store/views/internal/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ptc/store/torch/torch_frame.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace dcp_folder_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DcpFolderTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_hugging_face(path("hf"), llama_config(4, 2), {}, 7);
    const auto source = *Checkpoint::open(path("hf"));
    const auto view = *View::make(source, "dcp");
    std::filesystem::create_directories(path("dcp"));
    for (size_t i = 0; i < view->files(); ++i)
      write_text(path("dcp/" + view->file_name(i)), *read_all(**view->open(i)));
    index_ = *parse_dcp_index(text_of(path("dcp/.metadata")));
  }
  void write_index() const { write_text(path("dcp/.metadata"), dcp_index_text(index_)); }

  std::vector<DcpTensor> index_;
};

TEST_F(DcpFolderTest, WhatIsNotOfTheModelIsLeftOutOnlyIfItIsNamed) {
  index_.push_back(index_.front());
  index_.back().path = {"optim", "state", "other.weight", "exp_avg"};
  write_index();
  OpenOptions options{.config = path("hf/config.json")};
  EXPECT_THAT(message_of(Checkpoint::open(path("dcp"), options).status()),
              AllOf(HasSubstr("state of an optimizer has no place here: it is of no parameter of the model"),
                    HasSubstr("\n\"optim.state.other.weight.exp_avg\"\nhint: --drop=optimizer")));
  options.drop_optimizer = true;
  const auto opened = Checkpoint::open(path("dcp"), options);
  ASSERT_TRUE(opened.ok()) << message_of(opened.status());
  EXPECT_THAT((*opened)->info().notes, ElementsAre(HasSubstr("left out: state of an optimizer, 1 tensors; ")));
}

// As torch's tutorial saves it: {"app": AppState}, whose state_dict() has a model and an optimizer.
TEST_F(DcpFolderTest, StateOfAnOptimizerIsFoundHoweverDeepItLies) {
  const size_t params = index_.size();
  for (size_t i = 0; i < params; ++i) {
    DcpTensor tensor = index_[i];
    tensor.path = {"app", "optim", "state", index_[i].path.back(), "exp_avg"};
    index_.push_back(std::move(tensor));
    index_[i].path.insert(index_[i].path.begin(), "app");
  }
  write_index();
  OpenOptions options{.config = path("hf/config.json")};
  const auto opened = Checkpoint::open(path("dcp"), options);
  ASSERT_TRUE(opened.ok()) << message_of(opened.status());
  EXPECT_THAT((*opened)->info().notes, ElementsAre());
  EXPECT_TRUE((*opened)->find("layers.0.attention.qkv.weight.exp_avg").has_value());
  // By numbers, as optimizer.state_dict() has them, they are nobody's.
  for (size_t i = params; i < index_.size(); ++i) index_[i].path[3] = std::to_string(i);
  write_index();
  EXPECT_THAT(message_of(Checkpoint::open(path("dcp"), options).status()),
              HasSubstr(fmt::format("\"app.optim.state.{}.exp_avg\"", params)));
}

// An average of the parameters, or another model, has the same names and comes first by its own.
TEST_F(DcpFolderTest, OfSeveralModelsTheOneOfThatNameCounts) {
  const std::vector<DcpTensor> model = index_;
  for (DcpTensor tensor : model) {
    tensor.path.front() = "average";
    for (DcpChunk& chunk : tensor.chunks) chunk.begin += int64_t{1} << 40;  // would be beyond the end
    index_.push_back(std::move(tensor));
  }
  write_index();
  OpenOptions options{.config = path("hf/config.json")};
  EXPECT_THAT(message_of(Checkpoint::open(path("dcp"), options).status()),
              AllOf(HasSubstr(fmt::format("{} tensors are neither of the model nor", model.size())),
                    HasSubstr("\"average.model.norm.weight\"")));
  options.drop = {"average.*"};
  const auto opened = Checkpoint::open(path("dcp"), options);
  ASSERT_TRUE(opened.ok()) << message_of(opened.status());
  EXPECT_EQ((*opened)->info().dropped.size(), model.size());
  // If it lacks something, the other is not taken for it.
  const std::vector<DcpTensor> both = index_;
  index_.erase(std::find_if(index_.begin(), index_.end(), [](const DcpTensor& tensor) {
    return tensor.path.front() == "model" && tensor.path.back() == "model.norm.weight";
  }));
  write_index();
  EXPECT_THAT(message_of(Checkpoint::open(path("dcp"), options).status()),
              HasSubstr("\"model.norm.weight\" [32] is missing"));
  index_ = both;
  // Nor is one that is called so inside of another dict.
  for (DcpTensor& tensor : index_) {
    if (tensor.path.front() == "average") tensor.path.insert(tensor.path.begin() + 1, "model");
  }
  write_index();
  const auto nested = Checkpoint::open(path("dcp"), options);
  ASSERT_TRUE(nested.ok()) << message_of(nested.status()) << ": the average would be beyond the end";
  index_ = both;
  for (DcpTensor& tensor : index_) tensor.path.front() = tensor.path.front() == "model" ? "critic" : "actor";
  write_index();
  EXPECT_THAT(message_of(Checkpoint::open(path("dcp"), options).status()),
              HasSubstr("\"actor\", \"critic\" are whole models, and none is \"model\""));
}

// Adam's step, and a counter of somebody else's.
TEST_F(DcpFolderTest, StepsAreThoseOfParameters) {
  DcpTensor step = index_.front();
  step.dtype = tensor::DType::kF32;
  step.shape = {};
  step.chunks = {{.offsets = {}, .sizes = {}, .file = "steps", .begin = 0, .bytes = 0, .elements = 1}};
  const ChunkFrame frame = chunk_frame({}, {.step = 7});
  ASSERT_TRUE(frame.step.has_value());
  std::string file(static_cast<size_t>(frame.frame.bytes), '\0');
  for (const FileFrame::Text& text : frame.frame.texts)
    file.replace(static_cast<size_t>(text.offset), text.bytes.size(), text.bytes);
  write_text(path("dcp/steps"), file);
  step.chunks.front().begin = frame.step->begin;
  step.chunks.front().bytes = frame.step->bytes;
  for (const std::vector<std::string>& at :
       {std::vector<std::string>{"optim", "state", "w", "step"}, std::vector<std::string>{"train_state.step"}}) {
    step.path = at;
    index_.push_back(step);
  }
  index_.back().chunks.front().begin += 1;  // whoever reads it finds nothing
  write_index();
  const auto opened = Checkpoint::open(path("dcp"), {.config = path("hf/config.json")});
  ASSERT_TRUE(opened.ok()) << message_of(opened.status());
  EXPECT_EQ((*opened)->info().step, 7);
  EXPECT_THAT((*opened)->info().notes, ElementsAre(HasSubstr("no trained state: train_state.step")));
}

TEST_F(DcpFolderTest, AFileOfAModuleIsNoEmptyCheckpoint) {
  const ChunkFrame frame = chunk_frame({}, {.none = true});
  std::string file(static_cast<size_t>(frame.frame.bytes), '\0');
  for (const FileFrame::Text& text : frame.frame.texts)
    file.replace(static_cast<size_t>(text.offset), text.bytes.size(), text.bytes);
  write_text(path("module.pt"), file);
  EXPECT_THAT(message_of(Checkpoint::open(path("module.pt")).status()), HasSubstr("save its state_dict()"));
}

TEST_F(DcpFolderTest, EveryChunkOfAFileThatIsRefusedIsTold) {
  const SourceOpener opener = [](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
    if (location.ends_with(".distcp")) return invalid(location + ": refused");
    return open_file_source(location);
  };
  const auto opened = Checkpoint::open(path("dcp"), {.config = path("hf/config.json"), .opener = opener});
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status()));
  const std::string text = message_of(opened.status());
  EXPECT_THAT(text, HasSubstr("__0_0.distcp: refused\n")) << "several";
}

TEST_F(DcpFolderTest, AChunkBehindTheEndIsTold) {
  index_.front().chunks.front().begin += int64_t{1} << 40;
  write_index();
  const auto opened = Checkpoint::open(path("dcp"), {.config = path("hf/config.json")});
  EXPECT_THAT(message_of(opened.status()), HasSubstr("is beyond the end"));
}

}  // namespace dcp_folder_test
}  // namespace scalai::store::internal
