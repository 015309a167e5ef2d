#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/testing/family.h"

namespace scalai::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FamilyRegistry : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "families." + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + "/" + name) << text; }

  std::string folder_;
};

TEST_F(FamilyRegistry, HasTheBuiltInOnes) {
  const Families families = Families::built_in();
  EXPECT_THAT(families.names(),
              ElementsAre("bert", "deepseek", "gemma2", "gpt", "gpt_neox", "gpt_oss", "llama", "llama4", "mixtral",
                          "nemotron_h", "olmo2", "opt", "qwen_moe", "starcoder2"));
  for (const std::string& name : families.names()) EXPECT_TRUE(families.is_built_in(*families.find(name)));
  EXPECT_EQ(message_of(families.find("lama").status()), "unknown family \"lama\": did you mean \"llama\"?");
}

TEST_F(FamilyRegistry, AddsAndReplaces) {
  write("a.textproto", small_family(""));
  write("b.txt", "not read");
  std::string llama = Families::built_in().find("llama")->text();
  write("c.textproto", llama + "# changed\n");
  Families families = Families::built_in();
  EXPECT_EQ(message_of(families.load(folder_)), "");
  EXPECT_EQ(families.names().size(), Families::built_in().names().size() + 1);
  EXPECT_FALSE(families.is_built_in(*families.find("llama")));
  EXPECT_FALSE(families.is_built_in(*families.find("small")));
  EXPECT_EQ(families.of_config(R"({"architectures": ["Small"]})")->name(), "small");
}

TEST_F(FamilyRegistry, ReportsAllFilesAndAddsNothing) {
  write("a.textproto", small_family(""));
  write("b.textproto", small_family(""));
  write("c.textproto", "name: 1");
  write("d.textproto", replaced("\"small\"", "\"other\""));
  Families families = Families::built_in();
  const std::string text = message_of(families.load(folder_));
  EXPECT_THAT(text, HasSubstr("b.textproto: error: family \"small\" is also in "));
  EXPECT_THAT(text, HasSubstr("c.textproto:1:7: error"));
  EXPECT_THAT(text, HasSubstr("families \"small\" and \"other\" both are for architecture \"Small\""));
  EXPECT_EQ(families.names(), Families::built_in().names());
  EXPECT_TRUE(absl::IsNotFound(families.load(folder_ + "/none")));
}

TEST_F(FamilyRegistry, OnesOwnComeBeforeTheBuiltIn) {
  write("a.textproto", replaced("architectures: \"Small\"", "architectures: \"LlamaForCausalLM\""));
  Families families = Families::built_in();
  EXPECT_EQ(message_of(families.load(folder_)), "");
  EXPECT_EQ(families.of_config(R"({"architectures": ["LlamaForCausalLM"]})")->name(), "small");
  EXPECT_EQ(families.of_config(R"({"architectures": ["MistralForCausalLM"]})")->name(), "llama");
}

}  // namespace
}  // namespace scalai::store
