#include "ptc/store/views/internal/arranged_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::store {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSum = "0123456789abcdef0123456789abcdef";

ArrangedManifest sample() {
  ArrangedManifest manifest{.naming = "megatron", .layout = "tp2", .job = "j", .step = 7, .epoch = 2};
  manifest.hf_prefix = "transformer.";
  manifest.states = {{"w", tensor::DType::kBF16, {4, 6}, model::StateKind::kParam},
                     {"step", tensor::DType::kI64, {}, model::StateKind::kScalar}};
  ArrangedRecord record{.file = {.name = "rank_000.safetensors", .metadata = {}, .tensors = {}},
                        .bytes = 99,
                        .checksum = kSum,
                        .tensor_checksums = {kSum, kSum}};
  const tensor::Box box({0, 0}, {2, 6});
  record.file.tensors.push_back(
      {"w", {}, {}, {{"w", {.box = box, .offset = 0, .strides = {6, 1}}}, {"w", {box, 3, {1, 2}}}}});
  record.file.tensors.push_back({"step", {}, {}, {{"step", {.box = {}, .offset = 0, .strides = {}}}}});
  manifest.files = {record};
  manifest.texts = {{"config.json", 5, kSum}};
  return manifest;
}

std::string refusal(const std::string& from, const std::string& to) {
  std::string text = arranged_manifest_text(sample());
  const size_t at = text.find(from);
  SCALAI_CHECK(at != std::string::npos, from);
  text.replace(at, from.size(), to);
  const auto manifest = parse_arranged_manifest(text);
  return manifest.ok() ? "accepted" : message_of(manifest.status());
}

TEST(ArrangedManifest, ReadsBackWhatItWrote) {
  const auto again = parse_arranged_manifest(arranged_manifest_text(sample()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, sample());
  EXPECT_EQ(*manifest_kind(arranged_manifest_text(sample())), "arranged");
  EXPECT_EQ(*manifest_kind("{}"), "");
}

TEST(ArrangedManifest, EveryKindOfStateComesBack) {
  for (int kind = 0; kind <= static_cast<int>(model::StateKind::kPrevious); ++kind) {
    ArrangedManifest manifest = sample();
    manifest.states[0].kind = static_cast<model::StateKind>(kind);
    const auto again = parse_arranged_manifest(arranged_manifest_text(manifest));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->states[0].kind, manifest.states[0].kind);
  }
}

TEST(ArrangedManifest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(refusal("\"schema_version\": 2", "\"schema_version\": 9"), HasSubstr("version 9"));
  EXPECT_THAT(refusal("\"BF16\"", "\"BF17\""), HasSubstr("dtype"));
  EXPECT_THAT(refusal("\"scalar\"", "\"vector\""), HasSubstr("kind"));
  EXPECT_THAT(refusal("[0:2, 0:6]", "[2:0, 0:6]"), HasSubstr("pieces"));
  EXPECT_THAT(refusal("[0:2, 0:6]", "[0:9223372036854775807, 0:6]"), HasSubstr("pieces"));
  EXPECT_THAT(refusal("rank_000", "../rank"), HasSubstr("name of a file"));
  EXPECT_THAT(refusal(kSum, "abc"), HasSubstr("checksum"));
  EXPECT_THAT(refusal("\"shape\":[4,6]", "\"shape\":[4611686018427387904,0,6]"), HasSubstr("shape"));
  EXPECT_FALSE(manifest_kind(R"({"kind": 3})").ok());
}

TEST(WeightMap, NamesFilesOfTheFolderOnly) {
  const auto index =
      parse_weight_index(R"({"metadata": {}, "weight_map": {"b": "y.safetensors", "a": "x.safetensors"}})");
  ASSERT_TRUE(index.ok());
  EXPECT_THAT(index->file_by_tensor,
              ::testing::ElementsAre(::testing::Pair("a", "x.safetensors"), ::testing::Pair("b", "y.safetensors")));
  for (const char* bad : {"", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 3}})",
                          R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": ""}})"}) {
    EXPECT_FALSE(parse_weight_index(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace scalai::store
