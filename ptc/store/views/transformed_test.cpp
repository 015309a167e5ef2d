#include "ptc/store/views/internal/transformed.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/testing/looping_device.h"
#include "ptc/state/transform/testing/memory_state.h"
#include "ptc/store/views/testing/checkpoint_folder.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace transformed_test {

using tensor::DType;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using transform::rounded;

OpenOptions with(const std::vector<std::string>& steps) {
  OpenOptions options;
  auto parsed = transform::parse_steps(steps);
  SCALAI_CHECK(parsed.ok(), message_of(parsed.status()));
  options.transforms = *std::move(parsed);
  return options;
}

std::vector<double> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const LogicalState& state = checkpoint.tensors()[checkpoint.find(name).value()];
  std::vector<std::byte> bytes(static_cast<size_t>(state.shape.elements() * tensor::size_of(state.dtype)));
  const absl::Status status = checkpoint.read(*checkpoint.find(name), tensor::Box::whole(state.shape), bytes);
  SCALAI_CHECK(status.ok(), message_of(status));
  std::vector<double> values(static_cast<size_t>(state.shape.elements()));
  if (state.dtype == DType::kI8) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<int8_t>(bytes[i]));
  } else {
    tensor::convert(state.dtype, DType::kF64, state.shape.elements(), bytes.data(),
                    reinterpret_cast<std::byte*>(values.data()));
  }
  return values;
}

class TransformedTest : public CheckpointFolder {
 protected:
  void SetUp() override { write_hugging_face(path("hf"), llama_config(8, 2), {}, 4, /*finite=*/true); }

  // One file of tensors in F32, with random values.
  std::map<std::string, std::vector<float>> write_floats(
      const std::string& file, const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes, uint64_t seed) {
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    Random random(seed);
    std::map<std::string, std::vector<float>> values;
    std::vector<TensorSpec> specs;
    for (const auto& [name, shape] : shapes) {
      specs.push_back({name, DType::kF32, shape});
      int64_t elements = 1;
      for (const int64_t extent : shape) elements *= extent;
      for (int64_t i = 0; i < elements; ++i)
        values[name].push_back(static_cast<float>(random.between(-1000, 1000)) / 1000);
    }
    const absl::Status written = write_safetensors(
        file, specs, {}, [&](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
          return std::as_bytes(std::span(values.at(stored.name)));
        });
    SCALAI_CHECK(written.ok(), message_of(written));
    return values;
  }
  std::string refusal(const std::vector<std::string>& steps) const {
    return message_of(Checkpoint::open(path("hf"), with(steps)).status());
  }
};

TEST_F(TransformedTest, StatesAreThoseOfWholeTensors) {
  const auto stored = open("hf");
  const auto made = open("hf", with({"scale(0.3, tensors=layers.*)", "cast(fp32)"}));
  ASSERT_EQ(made->tensors().size(), stored->tensors().size());
  for (size_t i = 0; i < stored->tensors().size(); ++i) {
    const LogicalState& state = stored->tensors()[i];
    EXPECT_EQ(made->tensors()[i].name, state.name);
    EXPECT_EQ(made->tensors()[i].shape, state.shape);
    EXPECT_EQ(made->tensors()[i].dtype, DType::kF32);
    std::vector<double> expected = values_of(*stored, state.name);
    for (double& value : expected)
      value = state.name.starts_with("layers.") ? rounded(state.dtype, 0.3 * value) : value;
    EXPECT_EQ(values_of(*made, state.name), expected) << state.name;
  }
  EXPECT_TRUE(made->verify({}).ok());
  EXPECT_NE(made->identity(), stored->identity());
  EXPECT_NE(made->identity(), open("hf", with({"scale(0.4, tensors=layers.*)", "cast(fp32)"}))->identity());
  EXPECT_EQ(made->files().size(), stored->files().size());
  EXPECT_THAT(made->info().notes, Contains(HasSubstr("transformed: ")));
}

// In any layout, from any byte, also in the middle of an element.
TEST_F(TransformedTest, EveryStretchOfAFileIsTheSame) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  for (const char* const layout : {"tp2", "logical", "hf"}) {
    const auto view = View::make(open("hf", with({"scale(3)", "cast(fp64)"})), layout);
    ASSERT_TRUE(view.ok()) << view.status();
    size_t file = 0;
    while (!(*view)->has_tensors(file)) ++file;
    const ByteSourcePtr source = *(*view)->open(file);
    const std::string all = *read_all(*source);
    for (int round = 0; round < 100; ++round) {
      const int64_t begin = random.below(source->size()), count = random.below(source->size() - begin);
      std::string part(static_cast<size_t>(count), '?');
      ASSERT_TRUE(source->read(begin, std::as_writable_bytes(std::span(part))).ok());
      ASSERT_TRUE(part == all.substr(static_cast<size_t>(begin), static_cast<size_t>(count))) << begin << " " << count;
    }
  }
}

TEST_F(TransformedTest, ReshardWritesThemAndReadsThemBack) {
  for (const char* const layout : {"tp2,pp2", "hf", "logical"}) {
    const auto view = View::make(open("hf", with({"scale(-2)", "cast(fp16)"})), layout);
    ASSERT_TRUE(view.ok()) << view.status();
    ReshardOptions options{.target = path("out"), .verify = true, .force = true, .progress = {}};
    const auto plan = plan_reshard(**view, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto result = reshard(**view, *plan, options);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto stored = open("hf"), written = open("out");
    for (const LogicalState& state : stored->tensors()) {
      std::vector<double> expected = values_of(*stored, state.name);
      for (double& value : expected) value = rounded(DType::kF16, rounded(state.dtype, -2 * value));
      EXPECT_EQ(values_of(*written, state.name), expected) << layout << " " << state.name;
    }
  }
}

TEST_F(TransformedTest, RowsInEightBitsHaveTheirScalesBeside) {
  const std::string refused = refusal({"quantise(i8, tensors=layers.0.*norm*)"});
  EXPECT_THAT(refused, HasSubstr("which has no rows"));
  const auto made = open("hf", with({"quantise(i8)"}));
  const auto whole = View::make(made, "logical");
  ASSERT_TRUE(whole.ok()) << whole.status();
  write(**whole, "out");
  const auto stored = open("hf"), written = open("out");
  size_t quantised = 0;
  for (const LogicalState& state : stored->tensors()) {
    if (state.shape.rank() < 2) continue;
    ++quantised;
    const std::vector<double> codes = values_of(*written, state.name),
                              scales = values_of(*written, state.name + "_scale"),
                              before = values_of(*stored, state.name);
    const auto columns = static_cast<size_t>(state.shape[state.shape.rank() - 1]);
    ASSERT_EQ(scales.size() * columns, codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(codes[i], std::clamp(std::nearbyint(before[i] / scales[i / columns]), -127.0, 127.0)) << state.name;
      ASSERT_LE(std::abs(codes[i] * scales[i / columns] - before[i]), 0.501 * scales[i / columns]) << state.name;
    }
  }
  EXPECT_EQ(written->tensors().size(), stored->tensors().size() + quantised);
}

TEST_F(TransformedTest, AveragesReadOtherCheckpointsInAnyLayout) {
  write_hugging_face(path("hf2"), llama_config(8, 2), {}, 5, /*finite=*/true);
  reshard_to("hf2", "ranks", "tp2,pp2");
  const auto a = open("hf"), b = open("hf2"), mean = open("hf", with({"average(" + path("ranks") + ")"}));
  for (const LogicalState& state : a->tensors()) {
    std::vector<double> expected = values_of(*a, state.name);
    const std::vector<double> other = values_of(*b, state.name);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = rounded(state.dtype, (expected[i] + other[i]) / 2);
    EXPECT_EQ(values_of(*mean, state.name), expected) << state.name;
  }
  EXPECT_THAT(refusal({"average(" + path("nowhere") + ")"}), HasSubstr("nowhere"));
}

// PEFT knows the matrices of Hugging Face; here some are rows of fused tensors.
TEST_F(TransformedTest, AdaptersAreMergedUnderHuggingFacesNames) {
  constexpr int64_t kRank = 3;
  const std::string at = "base_model.model.model.layers.1.";
  const auto pairs = write_floats(path("adapter/adapter_model.safetensors"),
                                  {{at + "self_attn.k_proj.lora_A.weight", {kRank, 32}},
                                   {at + "self_attn.k_proj.lora_B.weight", {8, kRank}},
                                   {at + "mlp.up_proj.lora_A.weight", {kRank, 32}},
                                   {at + "mlp.up_proj.lora_B.weight", {48, kRank}},
                                   {at + "mlp.down_proj.lora_A.weight", {kRank, 48}},
                                   {at + "mlp.down_proj.lora_B.weight", {32, kRank}}},
                                  6);
  write_text(path("adapter/adapter_config.json"),
             R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "fan_in_fan_out": false})");
  const auto view = View::make(open("hf", with({"lora(" + path("adapter") + ")"})), "hf");
  ASSERT_TRUE(view.ok()) << view.status();
  write(**view, "merged");
  OpenOptions plain;
  plain.names = "logical";
  const auto before = open("hf/model.safetensors", plain), after = open("merged/model.safetensors", plain);
  int merged = 0;
  for (const LogicalState& state : before->tensors()) {
    std::vector<double> expected = values_of(*before, state.name);
    const std::string name =
        "base_model.model." + state.name.substr(0, state.name.size() - std::string(".weight").size());
    if (pairs.contains(name + ".lora_A.weight")) {
      ++merged;
      const std::vector<float>&a = pairs.at(name + ".lora_A.weight"), &b = pairs.at(name + ".lora_B.weight");
      const int64_t columns = state.shape[1];
      for (int64_t i = 0; i < std::ssize(expected); ++i) {
        double sum = 0;
        for (int64_t k = 0; k < kRank; ++k)
          sum += double{b[static_cast<size_t>(i / columns * kRank + k)]} *
                 double{a[static_cast<size_t>(k * columns + i % columns)]};
        double& value = expected[static_cast<size_t>(i)];
        value = rounded(state.dtype, value + 2 * sum);
      }
    }
    EXPECT_EQ(values_of(*after, state.name), expected) << state.name;
  }
  EXPECT_EQ(merged, 3);
  write_text(path("adapter/adapter_config.json"), R"({"lora_alpha": 6, "use_dora": true})");
  EXPECT_THAT(refusal({"lora(" + path("adapter") + ")"}),
              HasSubstr("adapter_config.json: /use_dora: adapters with it are not merged here"));
}

// The same bytes, whoever computes; what stays on the host is said.
TEST_F(TransformedTest, DevicesComputeSteps) {
  for (const std::vector<std::string>& steps :
       {std::vector<std::string>{"cast(fp32)", "scale(0.3)"}, {"average(" + path("hf") + ")", "quantise(i8)"}}) {
    OpenOptions options = with(steps);
    const auto host = open("hf", options);
    const auto device = std::make_shared<transform::LoopingDevice>(int64_t{64} << 10);
    options.device = device;
    const auto there = open("hf", options);
    for (const LogicalState& state : host->tensors())
      EXPECT_EQ(values_of(*there, state.name), values_of(*host, state.name)) << state.name;
    EXPECT_GT(device->lent, 10);
    EXPECT_EQ(there->identity(), host->identity()) << "a run goes on with either";
    EXPECT_EQ(there->shared_bytes(), device->host_bytes());
    EXPECT_EQ(host->shared_bytes(), 0);
    EXPECT_THAT(there->info().notes, Contains(AllOf(HasSubstr("transformed: "), HasSubstr(" by a loop"))));
    options.device = std::make_shared<transform::LoopingDevice>(512);
    EXPECT_THAT(open("hf", options)->info().notes, Contains(HasSubstr("computed on the host: ")));
  }
}

TEST_F(TransformedTest, MemoryOfStepsIsPlanned) {
  const auto plain = View::make(open("hf"), "hf"), made = View::make(open("hf", with({"quantise(i8)"})), "logical");
  ReshardOptions options{.target = path("out"), .threads = 2, .progress = {}};
  const auto few = plan_reshard(**plain, options), more = plan_reshard(**made, options);
  ASSERT_TRUE(few.ok() && more.ok()) << more.status();
  EXPECT_GE(more->peak_memory_bytes, few->peak_memory_bytes + 2 * (*made)->checkpoint().thread_bytes());
  EXPECT_GT((*made)->checkpoint().thread_bytes(), 0);
  EXPECT_EQ((*plain)->checkpoint().thread_bytes(), 0);
  OpenOptions with_device = with({"quantise(i8)"});
  with_device.device = std::make_shared<transform::LoopingDevice>(int64_t{1} << 20);
  const auto computed = View::make(open("hf", with_device), "logical");
  const auto on_device = plan_reshard(**computed, options);
  ASSERT_TRUE(on_device.ok()) << on_device.status();
  EXPECT_EQ(on_device->peak_memory_bytes, more->peak_memory_bytes + (int64_t{8} << 20)) << "once, not a thread";
}

TEST_F(TransformedTest, ConfigsSayTheNewType) {
  std::string config = llama_config(8, 2);
  config.insert(1, R"("torch_dtype": "bfloat16", )");
  write_text(path("hf/config.json"), config);
  EXPECT_THAT(open("hf", with({"cast(fp32)"}))->info().config, HasSubstr("float32"));
  EXPECT_THAT(open("hf", with({"scale(2)"}))->info().config, HasSubstr("bfloat16"));
  EXPECT_THAT(open("hf", with({"cast(fp32, tensors=layers.0.*)"}))->info().config, HasSubstr("bfloat16")) << "of some";
}

TEST_F(TransformedTest, DamageInTheSourceIsSeen) {
  reshard_to("hf", "ranks", "tp2");
  const auto made = open("ranks", with({"cast(fp32)"}));
  EXPECT_TRUE(made->verify({}).ok());
  EXPECT_TRUE(made->has_replicas());
  damage(path("ranks/rank_001.safetensors"),
         static_cast<int64_t>(std::filesystem::file_size(path("ranks/rank_001.safetensors"))) - 1);
  const absl::Status found = open("ranks", with({"cast(fp32)"}))->verify({});
  EXPECT_THAT(message_of(found), HasSubstr("rank_001.safetensors"));
}

// Also in what steps read, with everything else that is damaged, and by shares.
TEST_F(TransformedTest, DamageInOtherStatesIsSeen) {
  write_hugging_face(path("hf2"), llama_config(8, 2), {}, 5, /*finite=*/true);
  for (const char* const name : {"a", "b"}) reshard_to("hf2", name, "tp2");
  reshard_to("hf", "ranks", "tp2");
  const OpenOptions steps = with({"average(" + path("a") + ", " + path("b") + ")"});
  int64_t done = 0, total = 0;
  const auto count = [&](int64_t so_far, int64_t all) { done = so_far, total = all; };
  EXPECT_TRUE(open("ranks", steps)->verify({.progress = count}).ok());
  EXPECT_EQ(done, total);
  EXPECT_GT(total, 0);
  for (const char* const file : {"b/rank_001.safetensors", "ranks/rank_000.safetensors"})
    damage(path(file), static_cast<int64_t>(std::filesystem::file_size(path(file))) - 1);
  const std::string all = message_of(open("ranks", steps)->verify({.progress = {}}));
  EXPECT_THAT(all, AllOf(HasSubstr("b/rank_001.safetensors"), HasSubstr("ranks/rank_000.safetensors")));
  std::string parts;
  for (const int part : {0, 1})
    parts += message_of(open("ranks", steps)->verify({.part = part, .parts = 2, .progress = {}})) + "\n";
  EXPECT_THAT(parts, AllOf(HasSubstr("b/rank_001.safetensors"), HasSubstr("ranks/rank_000.safetensors")));
  const auto view = View::make(open("ranks", steps), "logical");
  const ReshardOptions options{.target = path("out"), .verify = true, .progress = {}};
  const auto plan = plan_reshard(**view, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(message_of(reshard(**view, *plan, options).status()), HasSubstr("b/rank_001.safetensors"));
}

}  // namespace transformed_test
}  // namespace scalai::store::internal
