#include "ptc/store/views/internal/numbered_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace numbered_states_test {

using tensor::DType;
using ::testing::HasSubstr;

// One rank's file: parameters in 16 bits, and state of an optimizer with two groups.
class File {
 public:
  File() {
    opened_.files.push_back({.name = "rank", .source = nullptr, .data_begin = 0, .checksum = "", .tensors = {}});
  }
  // A bf16 parameter of this many elements, all of the value.
  void param(const std::string& name, int64_t elements, float value) {
    const tensor::Shape shape{elements};
    OpenedTensor& stored = add("model." + name, DType::kBF16, elements, value);
    stored.pieces = {{name, {.box = tensor::Box::whole(shape), .offset = 0, .strides = shape.strides()}}};
    opened_.states.push_back({name, DType::kBF16, shape, model::StateKind::kParam});
  }
  void state(const std::string& name, int64_t elements, float value) {
    add("optimizer." + name, DType::kF32, elements, value);
  }
  Opened& open() {
    opened_.files[0].source = text_source("rank", bytes_);
    return opened_;
  }

 private:
  OpenedTensor& add(const std::string& name, DType dtype, int64_t elements, float value) {
    opened_.files[0].tensors.push_back(
        {.name = name, .dtype = dtype, .offset = std::ssize(bytes_), .elements = elements, .pieces = {}});
    char four[4];
    std::memcpy(four, &value, 4);
    const std::string_view stored(dtype == DType::kF32 ? four : four + 2, dtype == DType::kF32 ? 4 : 2);
    for (int64_t i = 0; i < elements; ++i) bytes_ += stored;
    return opened_.files[0].tensors.back();
  }

  Opened opened_;
  std::string bytes_;
};

// Weights with decay are group 0, norms group 1. Masters are a little more than their parameters.
constexpr float kMore = 1 + 0x1p-12F;

constexpr const char* kNorm1 = "decoder.layers.2.input_layernorm.weight";
constexpr const char* kNorm2 = "decoder.layers.10.input_layernorm.weight";

File usual() {
  File file;
  // As older torch had them in files: by name, not in the order of the modules.
  file.param(kNorm2, 4, 1);
  file.param("w1", 100, 3);
  file.param(kNorm1, 4, 1);
  file.param("w2", 100, 5);
  // By group: w1, w2; norm1, norm2.
  file.state("fp32_from_fp16_params.0.0", 100, 3 * kMore);
  file.state("fp32_from_fp16_params.0.1", 100, 5 * kMore);
  file.state("fp32_from_fp16_params.1.0", 4, kMore);
  file.state("fp32_from_fp16_params.1.1", 4, kMore);
  for (int i = 0; i < 4; ++i) file.state(fmt::format("optimizer.state.{}.exp_avg", i), i < 2 ? 100 : 4, 0.5F);
  return file;
}

// The stored name of each state.
std::map<std::string, std::string> assigned(const Opened& opened) {
  std::map<std::string, std::string> found;
  for (const OpenedTensor& tensor : opened.files[0].tensors) {
    for (const PlacedPiece& placed : tensor.pieces) {
      if (tensor.name.starts_with("optimizer.")) found[placed.logical] = tensor.name.substr(10);
    }
  }
  return found;
}

TEST(NumberedStates, AreOfTheParametersThatTheyRoundTo) {
  File file = usual();
  Opened& opened = file.open();
  ASSERT_TRUE(open_numbered_states(opened).ok());
  EXPECT_EQ(assigned(opened),
            (std::map<std::string, std::string>{{"w1.master", "fp32_from_fp16_params.0.0"},
                                                {"w2.master", "fp32_from_fp16_params.0.1"},
                                                {kNorm1 + std::string(".master"), "fp32_from_fp16_params.1.0"},
                                                {kNorm2 + std::string(".master"), "fp32_from_fp16_params.1.1"},
                                                {"w1.exp_avg", "optimizer.state.0.exp_avg"},
                                                {"w2.exp_avg", "optimizer.state.1.exp_avg"},
                                                {kNorm1 + std::string(".exp_avg"), "optimizer.state.2.exp_avg"},
                                                {kNorm2 + std::string(".exp_avg"), "optimizer.state.3.exp_avg"}}));
  ASSERT_EQ(opened.states.size(), 12U);
  EXPECT_EQ(opened.states.back().dtype, DType::kF32);
}

TEST(NumberedStates, SeveralOptimizersCountEachForItself) {
  File file;
  file.param("w", 8, 3);
  file.param("expert", 8, 5);
  file.state("0.fp32_from_fp16_params.0.0", 8, 3);
  file.state("1.fp32_from_fp16_params.0.0", 8, 5);
  for (const char* of : {"0", "1"}) file.state(fmt::format("{}.optimizer.state.0.exp_avg_sq", of), 8, 0.5F);
  Opened& opened = file.open();
  ASSERT_TRUE(open_numbered_states(opened).ok());
  EXPECT_EQ(assigned(opened)["expert.exp_avg_sq"], "1.optimizer.state.0.exp_avg_sq");
}

TEST(NumberedStates, WhatCannotBeToldIsRefusedAndLeftAsItIs) {
  const auto problem = [](File file) {
    Opened& opened = file.open();
    const size_t states = opened.states.size();
    const absl::Status status = open_numbered_states(opened);
    EXPECT_EQ(opened.states.size(), states);
    EXPECT_TRUE(assigned(opened).empty());
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    return message_of(status);
  };
  File other = usual();
  other.state("fp32_from_fp16_params.0.2", 100, 7);
  EXPECT_THAT(problem(other), HasSubstr("\"optimizer.fp32_from_fp16_params.0.2\" is no master of a parameter"));
  File without;
  without.param("w", 8, 3);
  without.state("optimizer.state.0.exp_avg", 8, 0);
  EXPECT_THAT(problem(without), HasSubstr("1 parameters are like \"model.w\", and 0 masters"));
  File apart;
  for (const char* name : {"a", "b"}) apart.param(name, 8, 1);
  for (int group = 0; group < 2; ++group) apart.state(fmt::format("fp32_from_fp16_params.{}.0", group), 8, 1);
  EXPECT_THAT(problem(apart), HasSubstr("parameters like \"model.a\" are in several groups"));
  File unknown;
  for (const char* name : {"a", "b"}) unknown.param(name, 8, 1);
  for (int i = 0; i < 2; ++i) unknown.state(fmt::format("fp32_from_fp16_params.0.{}", i), 8, 1);
  EXPECT_THAT(problem(unknown), HasSubstr("parameters like \"model.a\" are in no order known here"));
  File few;
  for (const float value : {1.F, 3.F}) few.param(fmt::format("w{}", value), 8, value);
  for (int i = 0; i < 2; ++i) few.state(fmt::format("fp32_from_fp16_params.0.{}", i), 8, i == 0 ? 1 : 3);
  few.state("optimizer.state.1.exp_avg", 8, 0);
  EXPECT_THAT(problem(few), HasSubstr("1 of 2 parameters have \"exp_avg\""));
  few.state("optimizer.state.0.exp_avg", 9, 0);
  EXPECT_THAT(problem(few), HasSubstr("\"optimizer.optimizer.state.0.exp_avg\" is of no parameter with a master"));
}

TEST(NumberedStates, NothingIsFine) {
  File file;
  file.param("w", 8, 3);
  EXPECT_TRUE(open_numbered_states(file.open()).ok());
}

}  // namespace numbered_states_test
}  // namespace scalai::store::internal
