#include "executor/worker/state_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/plan/testing/support.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::executor::worker {

using state::Target;
using tensor::Box;

namespace {

using store::TensorSpec;
using tensor::Shape;
using ::testing::HasSubstr;

// Elements are their own row-major number.
std::vector<float> numbers(int64_t count) {
  std::vector<float> list(static_cast<size_t>(count));
  for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<float>(i);
  return list;
}

absl::Status fill(const StateSource& source, std::string_view tensor, const Shape& shape, int64_t step, const Box& part,
                  const Target& dst) {
  const StatePart one{tensor, shape, part};
  return source.fill(*device::make_host_backend(), step, {&one, 1}, {&dst, 1});
}

absl::StatusOr<std::optional<std::string>> check(const StateSource& source, std::string_view tensor, const Shape& shape,
                                                 int64_t step, const Box& part, const state::Source& src) {
  const StatePart one{tensor, shape, part};
  SCALAI_ASSIGN_OR_RETURN(const auto wrong, source.check(*device::make_host_backend(), step, {&one, 1}, {&src, 1}));
  return wrong.front();
}

class StateSourceTest : public ::testing::Test {
 protected:
  StateSourceTest() {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-state-XXXXXX").string();
    SCALAI_CHECK(mkdtemp(path.data()) != nullptr);
    folder_ = path;
  }
  ~StateSourceTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void write(const std::string& file, const std::vector<TensorSpec>& tensors) const {
    std::vector<float> data;
    const auto source = [&](const store::StoredTensor& one) -> absl::StatusOr<std::span<const std::byte>> {
      data = numbers(one.bytes / 4);
      return std::as_bytes(std::span(data));
    };
    SCALAI_CHECK(store::write_safetensors(folder_ + "/" + file, tensors, {}, source).ok());
  }
  std::shared_ptr<const StateSource> open(const std::string& path = "") const {
    auto opened = StateSource::open("a", folder_ + path);
    SCALAI_CHECK(opened.ok(), message_of(opened.status()));
    return *opened;
  }
  std::string folder_;
};

TEST_F(StateSourceTest, AnyBoxOfAnyShapeComesFromTheFile) {
  constexpr uint64_t kSeed = 20261121;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::vector<std::vector<int64_t>> shapes = {{}, {7}, {5, 6}, {3, 4, 5}, {2, 3, 2, 4}, {1, 6, 1}};
  std::vector<TensorSpec> tensors;
  for (size_t i = 0; i < shapes.size(); ++i)
    tensors.push_back({"t" + std::to_string(i), tensor::DType::kF32, shapes[i]});
  write("all.safetensors", tensors);
  const auto source = open();
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape shape{std::span<const int64_t>(shapes[i])};
    Box whole;
    whole.rank = static_cast<int8_t>(shapes[i].size());
    for (size_t dim = 0; dim < shapes[i].size(); ++dim) whole.hi[dim] = shapes[i][dim];
    const std::vector<float> all = numbers(whole.volume());
    for (int round = 0; round < 30; ++round) {
      Box part = whole;
      for (size_t dim = 0; dim < shapes[i].size(); ++dim) {
        part.lo[dim] = random.between(0, whole.hi[dim] - 1);
        part.hi[dim] = random.between(part.lo[dim] + 1, whole.hi[dim]);
      }
      std::vector<float> expected(static_cast<size_t>(part.volume())), found(expected.size(), -1);
      const state::Source memory{whole, tensor::DType::kF32, reinterpret_cast<const std::byte*>(all.data())};
      state::copy_box(part, memory, {part, tensor::DType::kF32, reinterpret_cast<std::byte*>(expected.data())});
      const Target target{part, tensor::DType::kF32, reinterpret_cast<std::byte*>(found.data())};
      ASSERT_TRUE(fill(*source, tensors[i].name, shape, 3, part, target).ok());
      ASSERT_EQ(found, expected) << part.str() << " of " << shape.str();
      EXPECT_EQ(check(*source, tensors[i].name, shape, 9, part, target.source()).value(), std::nullopt);
      found.back() += 1;
      const auto wrong = check(*source, tensors[i].name, shape, 9, part, target.source());
      ASSERT_TRUE(wrong.ok() && wrong->has_value());
      EXPECT_THAT(**wrong, HasSubstr(fmt::format("element {} of it is not what", part.volume() - 1)));
    }
  }
}

TEST_F(StateSourceTest, TypesAreConverted) {
  write("a.safetensors", {{"w", tensor::DType::kF32, {4}}});
  const auto source = open("/a.safetensors");
  std::array<uint16_t, 4> found{};
  const Target target{Box({0}, {4}), tensor::DType::kBF16, reinterpret_cast<std::byte*>(found.data())};
  ASSERT_TRUE(fill(*source, "w", Shape{4}, 0, target.box, target).ok());
  EXPECT_THAT(found, ::testing::ElementsAre(0, 0x3f80, 0x4000, 0x4040)) << "0, 1, 2, 3";
  EXPECT_EQ(check(*source, "w", Shape{4}, 0, target.box, target.source()).value(), std::nullopt);
}

TEST_F(StateSourceTest, WhatTheFilesLackHasTheClosedForm) {
  write("a.safetensors", {{"w", tensor::DType::kF32, {4}}});
  for (const auto& source : {open(), StateSource::open("a", "").value()}) {
    EXPECT_FALSE(source->is_real("v"));
    std::array<float, 3> found{}, expected{};
    const Box box({1}, {4});
    const Target target{box, tensor::DType::kF32, reinterpret_cast<std::byte*>(found.data())};
    state::fill_box(state::Content{state::ContentKey::of("v", "a"), Shape{5}, 7}, box,
                    {box, tensor::DType::kF32, reinterpret_cast<std::byte*>(expected.data())});
    ASSERT_TRUE(fill(*source, "v", Shape{5}, 7, box, target).ok());
    EXPECT_EQ(found, expected);
    EXPECT_EQ(check(*source, "v", Shape{5}, 7, box, target.source()).value(), std::nullopt);
    EXPECT_NE(check(*source, "v", Shape{5}, 8, box, target.source()).value(), std::nullopt);
  }
}

TEST_F(StateSourceTest, ACheckpointIsAState) {
  const collection::Collection side = plan::grid_collection({.tp = 2}, plan::devices({0, 1}));
  const std::string folder = folder_ + "/step_00000005";
  const auto closed = StateSource::open("a", "").value();
  std::vector<std::byte> bytes;
  const auto provide = [&](TensorId id, const Box& box) -> absl::StatusOr<std::span<const std::byte>> {
    const collection::LogicalTensor& what = side.tensors[static_cast<size_t>(id.value)];
    bytes.resize(static_cast<size_t>(state::packed_bytes(box, what.dtype)));
    SCALAI_RETURN_IF_ERROR(fill(*closed, what.name, what.shape, 5, box, {box, what.dtype, bytes.data()}));
    return std::span<const std::byte>(bytes);
  };
  store::Writer writer = store::Writer::begin(folder, side, {"a", 5}).value();
  std::vector<std::string> parts;
  for (int rank = 0; rank < side.ranks(); ++rank)
    parts.push_back(writer.write_rank(LogicalRank(rank), provide).value());
  ASSERT_TRUE(writer.finish(parts).ok());

  const auto source = open("/step_00000005");
  EXPECT_EQ(source->match(side).value(), side.tensors.size());
  for (const collection::LogicalTensor& what : side.tensors) {
    Box whole;
    whole.rank = static_cast<int8_t>(what.shape.rank());
    for (int dim = 0; dim < what.shape.rank(); ++dim) whole.hi[static_cast<size_t>(dim)] = what.shape[dim];
    bytes.resize(static_cast<size_t>(state::packed_bytes(whole, what.dtype)));
    const Target target{whole, what.dtype, bytes.data()};
    ASSERT_TRUE(fill(*closed, what.name, what.shape, 5, whole, target).ok());
    EXPECT_EQ(check(*source, what.name, what.shape, 99, whole, target.source()).value(), std::nullopt) << what.name;
  }
}

TEST_F(StateSourceTest, BadFilesAreNamed) {
  const auto message = [&](const std::string& path) { return message_of(StateSource::open("a", path).status()); };
  EXPECT_THAT(message(folder_), HasSubstr("no .safetensors file in this folder"));
  EXPECT_THAT(message(folder_ + "/none"), HasSubstr("none"));
  EXPECT_THAT(message(std::string(300, 'x')), HasSubstr("name too long"))
      << "found by worker_fuzz: it ended the worker";
  write("a.safetensors", {{"w", tensor::DType::kF32, {4}}});
  write("b.safetensors", {{"w", tensor::DType::kF32, {4}}});
  EXPECT_THAT(message(folder_), HasSubstr("tensor \"w\" is in " + folder_ + "/a.safetensors and in"));

  const collection::Collection side = plan::grid_collection({.tp = 2}, plan::devices({0, 1}));
  EXPECT_THAT(message_of(open("/a.safetensors")->match(side).status()), HasSubstr("none of the tensors of job a"));
  write("c.safetensors", {{side.tensors[0].name, tensor::DType::kF32, {1, 2, 3, 4}}});
  EXPECT_THAT(message_of(open("/c.safetensors")->match(side).status()), HasSubstr("has shape [1, 2, 3, 4], the job's"));
}

}  // namespace
}  // namespace scalai::executor::worker
