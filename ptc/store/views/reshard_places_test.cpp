#include "ptc/store/views/internal/reshard_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/store/safetensors/files.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store::internal {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class PlacesTest : public FolderTest {
 protected:
  std::string refusal(const std::string& target, bool force) const {
    return message_of(check_target(places_of(target), force));
  }
};

TEST_F(PlacesTest, ForceReplacesACheckpointAndNothingElse) {
  EXPECT_EQ(refusal(path("new"), false), "");
  EXPECT_THAT(refusal(path("no/where"), false), HasSubstr("mkdir -p"));
  fs::create_directories(path("empty"));
  EXPECT_EQ(refusal(path("empty/"), false), "");
  write_hugging_face(path("hf"), llama_config(8, 2));
  write_text(path("hf/tokenizer.model"), "");
  EXPECT_THAT(refusal(path("hf"), false), HasSubstr("--force"));
  EXPECT_EQ(refusal(path("hf"), true), "");
  write_text(path("hf/modeling_llama.py"), "");
  EXPECT_EQ(refusal(path("hf"), true), "");
  for (const char* name : {"train.py", "best.model", "README.txt"}) {  // what people write beside a model
    write_text(path("hf/") + name, "mine");
    EXPECT_THAT(refusal(path("hf"), true), HasSubstr(name));
    fs::remove(path("hf/") + name);
  }
  write_text(path("hf/notes.txt"), "mine");
  EXPECT_THAT(refusal(path("hf"), true), HasSubstr("\"notes.txt\""));
  fs::create_directories(path("runs/step1"));
  EXPECT_THAT(refusal(path("runs"), true), HasSubstr("\"step1\", which is no file"));
  fs::create_directories(path("results"));
  write_text(path("results/a.json"), "{}");
  EXPECT_THAT(refusal(path("results"), true), HasSubstr("is no checkpoint"));
  write_text(path("results/manifest.json"), "{}");
  EXPECT_THAT(refusal(path("results"), true), HasSubstr("is no checkpoint"));
  write_text(path("file"), "");
  EXPECT_THAT(refusal(path("file"), true), HasSubstr("not a folder"));
  fs::create_directory_symlink(path("empty"), path("link"));
  EXPECT_THAT(refusal(path("link/"), true), HasSubstr("symbolic link"));
}

TEST_F(PlacesTest, TheSourceIsApart) {
  write_hugging_face(path("ck/step1"), llama_config(8, 2));
  const auto source = Checkpoint::open(path("ck/step1"));
  ASSERT_TRUE(source.ok());
  const auto refusal = [&](const std::string& target) { return message_of(check_apart(places_of(target), **source)); };
  EXPECT_EQ(refusal(path("out")), "");
  EXPECT_EQ(refusal(path("ck/step2")), "");
  EXPECT_EQ(refusal(path("ck/step1/tp2")), "");
  EXPECT_THAT(refusal(path("ck/step1")), HasSubstr("the source is read from it"));
  EXPECT_THAT(refusal(path("ck")), HasSubstr("the source is read from it"));
  fs::create_directory_symlink(path("ck"), path("link"));
  EXPECT_THAT(refusal(path("link")), HasSubstr("the source is read from it"));
  for (const char* target : {"", ".", "..", "/", "a/.", "a/../"}) {
    EXPECT_THAT(refusal(target), HasSubstr("names no folder to write")) << target;
  }
  // Its only file is a link to somewhere else.
  fs::create_directories(path("blobs"));
  fs::rename(path("ck/step1/model.safetensors"), path("blobs/b"));
  fs::create_symlink(path("blobs/b"), path("ck/step1/model.safetensors"));
  const auto linked = Checkpoint::open(path("ck/step1"));
  ASSERT_TRUE(linked.ok());
  EXPECT_THAT(message_of(check_apart(places_of(path("blobs")), **linked)), HasSubstr("the source is read from it"));
}

TEST_F(PlacesTest, AFolderThatAppearsAtTheEndStays) {
  fs::create_directories(path("a"));
  fs::create_directories(path("b"));
  write_text(path("b/mine"), "mine");
  EXPECT_TRUE(absl::IsInvalidArgument(publish_folder(path("a"), path("b"), Existing::kRefused)));
  EXPECT_EQ(text_of(path("b/mine")), "mine");
  EXPECT_TRUE(publish_folder(path("a"), path("b"), Existing::kReplaced).ok());
  EXPECT_FALSE(fs::exists(path("b/mine")));
}

}  // namespace
}  // namespace scalai::store::internal
