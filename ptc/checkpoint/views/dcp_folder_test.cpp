#include "ptc/checkpoint/views/internal/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ptc/checkpoint/views/testing/test_model.h"
#include "ptc/checkpoint/views/view.h"

namespace scalai::checkpoint::internal {
namespace dcp_folder_test {

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

TEST_F(DcpFolderTest, WhatIsNotOfTheModelIsLeftOutWithANote) {
  index_.push_back(index_.front());
  index_.back().path = {"optim", "state", "other.weight", "exp_avg"};
  write_index();
  const auto opened = Checkpoint::open(path("dcp"), {.config = path("hf/config.json")});
  ASSERT_TRUE(opened.ok()) << message_of(opened.status());
  EXPECT_THAT((*opened)->info().notes,
              ElementsAre("left out: 1 tensors that are neither of the model nor state of its parameters, such as "
                          "\"optim.state.other.weight.exp_avg\""));
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
}  // namespace scalai::checkpoint::internal
