#include "ptc/store/views/transforms.h"

#include <gmock/gmock.h>

#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace transforms_test {

using ::testing::HasSubstr;

class TransformsTest : public CheckpointFolder {
 protected:
  void SetUp() override { write_hugging_face(path("hf"), llama_config(8, 2), {}, 4, /*finite=*/true); }
  absl::StatusOr<Transformed> made(const std::string& step, const std::string& folder) const {
    return transformed(open("hf"), *transform::parse_steps(std::vector<std::string>{step}), {}, folder);
  }
};

// Receivers on other machines say by the digest that they read the same.
TEST_F(TransformsTest, DigestsAreOfStepsAndContentWhereverTheyLie) {
  for (const char* const name : {"one/other", "two/other", "three/other"}) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    const uint64_t seed = std::string(name).starts_with("three") ? 6 : 5;
    write_hugging_face(path(name), llama_config(8, 2), {}, seed, /*finite=*/true);
  }
  const auto one = made("average(other)", path("one"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->others.size(), 1u);
  EXPECT_EQ(one->digest, made("average(other)", path("two"))->digest);
  EXPECT_NE(one->digest, made("average(other)", path("three"))->digest);
  EXPECT_NE(one->digest, made("average(other, tensors=layers.*)", path("one"))->digest);
  EXPECT_TRUE(made("average(" + path("one/other") + ")", "/nowhere").ok()) << "an absolute path";
  EXPECT_THAT(message_of(made("average(other)", path("four")).status()), HasSubstr("four/other"));
}

}  // namespace transforms_test
}  // namespace scalai::store
