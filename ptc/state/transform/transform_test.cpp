#include "ptc/state/transform/transform.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ptc/state/tensor/box_chunks.h"
#include "ptc/state/transform/testing/memory_state.h"

namespace scalai::transform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Shape random_shape(Random& random, int least_rank) {
  std::vector<int64_t> extents;
  for (int64_t left = random.between(least_rank, 4); left > 0; --left) extents.push_back(random.between(1, 9));
  return Shape(std::span<const int64_t>(extents));
}

DType random_float(Random& random) {
  return std::array{DType::kF64, DType::kF32, DType::kBF16, DType::kF16}[static_cast<size_t>(random.below(4))];
}

// Each step over whole tensors at once, as one would write it down.
TEST(Transform, ElementsAndRowsAreThoseOfWholeTensors) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto stored = std::make_shared<Stored>();
    const DType dtype = random_float(random);
    const Shape shape = random_shape(random, 2);
    const Tensor tensor = in_memory(random, "w", dtype, shape, stored);
    const auto made =
        transform(steps_of({"scale(0.3)", "cast(fp16)", "scale(-3)", "quantise(i8)"}), {tensor}, opens_nothing);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->size(), 2u);
    EXPECT_EQ((*made)[0].name, "w");
    EXPECT_EQ((*made)[0].dtype, DType::kI8);
    EXPECT_EQ((*made)[0].shape, shape);
    EXPECT_EQ((*made)[1].name, "w_scale");
    EXPECT_EQ((*made)[1].dtype, DType::kF32);
    std::vector<double> values = stored->values;
    for (double& value : values) value = rounded(DType::kF16, -3 * rounded(DType::kF16, rounded(dtype, 0.3 * value)));
    const int64_t columns = shape[shape.rank() - 1];
    std::vector<double> scales;
    for (size_t row = 0; row < values.size(); row += static_cast<size_t>(columns)) {
      double largest = 0;
      for (int64_t i = 0; i < columns; ++i) largest = std::max(largest, std::abs(values[row + static_cast<size_t>(i)]));
      scales.push_back(largest == 0 ? 1 : rounded(DType::kF32, largest / 127));
      for (int64_t i = 0; i < columns; ++i) {
        double& value = values[row + static_cast<size_t>(i)];
        value = std::clamp(std::nearbyint(value / scales.back()), -127.0, 127.0);
      }
    }
    EXPECT_EQ(difference(random, (*made)[0], values), "");
    EXPECT_EQ(difference(random, (*made)[1], scales), "");
  }
}

TEST(Transform, AveragesAreMeansRoundedOnce) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Shape shape = random_shape(random, 0);
    std::vector<std::shared_ptr<Stored>> stored;
    std::vector<Tensor> replicas;
    for (int i = 0; i < 3; ++i) {
      stored.push_back(std::make_shared<Stored>());
      replicas.push_back(in_memory(random, "w", random_float(random), shape, stored.back()));
    }
    const auto open = [&](const std::string& path) -> absl::StatusOr<Other> {
      return Other{.tensors = {replicas[path == "b" ? 1 : 2]}, .alpha = {}, .identity = path};
    };
    const auto made = transform(steps_of({"average(b, c)"}), {replicas[0]}, open);
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<double> expected(stored[0]->values.size());
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] =
          rounded(replicas[0].dtype, (stored[0]->values[i] + stored[1]->values[i] + stored[2]->values[i]) / 3);
    EXPECT_EQ((*made)[0].dtype, replicas[0].dtype);
    EXPECT_EQ(difference(random, (*made)[0], expected), "");
  }
}

// Steps take boxes of bounded size, however large the one that they are asked for.
TEST(Transform, MemoryIsBounded) {
  Random random(1);
  const auto stored = std::make_shared<Stored>();
  const Tensor tensor = in_memory(random, "w", DType::kBF16, Shape{512, 1000}, stored);
  const auto made = transform(steps_of({"scale(2)", "quantise(i8)"}), {tensor}, opens_nothing);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const Tensor& one : *made) {
    (void)read(one, Box::whole(one.shape));
    EXPECT_LE(stored->most_read, int64_t{1} << 16) << one.name;
    EXPECT_GT(one.scratch_bytes, 0);
    EXPECT_LE(one.scratch_bytes, int64_t{8} << 20);
  }
}

// A reader that gets the elements of the first tensor from somewhere else asks for what box_in_origin says, and no
// more; a change there is in no other box than box_of_origin says.
TEST(Transform, BoxesOfTheOriginAreThoseThatAreRead) {
  for (uint64_t seed = 600; seed < 800; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto stored = std::make_shared<Stored>();
    const Shape shape = random_shape(random, 3);
    const Tensor tensor = in_memory(random, "w", DType::kF32, shape, stored);
    const auto other = [&](const std::string&) -> absl::StatusOr<Other> {
      return Other{.tensors = {in_memory(random, "w", DType::kF32, shape, std::make_shared<Stored>())},
                   .alpha = {},
                   .identity = "o"};
    };
    // The scales of scales need whole matrices.
    const auto made = transform(steps_of({"average(o)", "scale(0.5)", "quantise(i8)", "quantise(i8, tensors=w_scale)",
                                          "scale(3, tensors=w_scale_scale)"}),
                                {tensor}, other);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->size(), 3u);
    for (size_t i = 0; i < made->size(); ++i) {
      const Tensor& one = (*made)[i];
      EXPECT_EQ(one.origin, "w");
      EXPECT_EQ(one.whole_dims, i == 0 ? 1 : 2);
      EXPECT_EQ(one.dropped_dims, static_cast<int>(i));
      const Box box = random_part(random, one.shape);
      const Box allowed = box_in_origin(one, shape, box);
      EXPECT_TRUE(box_of_origin(one, allowed).contains(box));
      std::vector<Box> asked;
      const Origin origin = [&](const Box& part, std::span<std::byte> dst) {
        asked.push_back(part);
        return tensor.read(part, dst, {});
      };
      std::vector<std::byte> from_origin(static_cast<size_t>(box.volume() * tensor::size_of(one.dtype)));
      std::vector<std::byte> plain = from_origin;
      ASSERT_TRUE(one.read(box, from_origin, origin).ok());
      ASSERT_TRUE(one.read(box, plain, {}).ok());
      EXPECT_EQ(from_origin, plain);
      EXPECT_FALSE(asked.empty());
      for (const Box& part : asked) EXPECT_TRUE(allowed.contains(part)) << part.str() << " of " << allowed.str();
      EXPECT_TRUE(tensor::subtract(allowed, asked).empty()) << allowed.str();
    }
  }
  Random random(7);
  const Tensor tensor = in_memory(random, "w", DType::kF32, Shape{2, 2}, std::make_shared<Stored>());
  EXPECT_FALSE(is_only_cast(tensor));
  EXPECT_TRUE(is_only_cast(transform(steps_of({"cast(bf16)"}), {tensor}, opens_nothing)->front()));
  EXPECT_FALSE(is_only_cast(transform(steps_of({"cast(bf16)", "cast(bf16)"}), {tensor}, opens_nothing)->front()));
}

// Codes are from -127 to 127, and an element is half a scale away from its code at most, whatever its size.
TEST(Transform, CodesDoNotOverflow) {
  const auto quantised = [](const std::vector<double>& row) {
    Random random(1);
    const auto stored = std::make_shared<Stored>();
    const Tensor tensor = in_memory(random, "w", DType::kF64, Shape{1, static_cast<int64_t>(row.size())}, stored);
    stored->values = row;
    return *transform(steps_of({"quantise(i8)"}), {tensor}, opens_nothing);
  };
  const double least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  for (const std::vector<double>& row : std::vector<std::vector<double>>{{128, -128, 127.5, 0.5},
                                                                         {-1, 1, 1e-9, 0.5},
                                                                         {most, -most, 1, most / 3},
                                                                         {126 * most, -126 * most},
                                                                         {714 * least, -714 * least, 300 * least},
                                                                         {64 * least, 0, -63 * least},
                                                                         {1e-300, -1e-300}}) {
    const std::vector<Tensor> made = quantised(row);
    const std::vector<double> codes = read(made[0], Box::whole(made[0].shape));
    const double scale = read(made[1], Box::whole(made[1].shape)).front();
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(std::abs(codes[i]), 127) << row[i];
      EXPECT_LE(std::abs(codes[i] * scale - row[i]), 0.5001 * scale) << row[i] << " is " << codes[i] << " x " << scale;
    }
  }
  const std::vector<Tensor> beyond = quantised({1e300, 1});
  for (const Tensor& one : beyond) {
    std::vector<std::byte> bytes(static_cast<size_t>(one.shape.elements() * tensor::size_of(one.dtype)));
    EXPECT_THAT(message_of(one.read(Box::whole(one.shape), bytes, {})),
                HasSubstr("beyond those that a scale in F32 reaches"));
  }
}

// Weights in 8 bits beside their scales: neither alone is what a step is for.
TEST(Transform, CodesWithScalesAreNoValues) {
  Random random(8);
  std::vector<Tensor> tensors;
  for (const std::string name : {"a.weight", "a.weight_scale_inv", "b.weight"})
    tensors.push_back(in_memory(random, name, name.ends_with("inv") ? DType::kF32 : DType::kF8E4M3, Shape{2, 2},
                                std::make_shared<Stored>()));
  const auto open = [&](const std::string&) -> absl::StatusOr<Other> {
    return Other{.tensors = tensors, .alpha = 1, .identity = "same"};
  };
  for (const char* const step : {"scale(2)", "average(o)", "quantise(i8)", "scale(2, tensors=a.*)"}) {
    const std::string said = message_of(transform(steps_of({step}), tensors, open).status());
    EXPECT_THAT(said, HasSubstr("tensor \"a.weight\" has codes of F8_E4M3, whose scales are \"a.weight_scale_inv\""));
    EXPECT_THAT(said, HasSubstr("scale(FACTOR, tensors=a.weight_scale_inv)"));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("\"b.weight\"")));
  }
  for (const char* const step : {"scale(2, tensors=b.*)", "scale(2, tensors=a.weight_scale_inv)", "cast(bf16)"})
    EXPECT_TRUE(transform(steps_of({step}), tensors, open).ok()) << step;
}

TEST(Transform, PatternsHaveCharacters) {
  Random random(9);
  std::vector<Tensor> tensors;
  for (const std::string name : {"l.1.w", "l.2.w", "l.12.w", "l.x.w"})
    tensors.push_back(in_memory(random, name, DType::kF32, Shape{2}, std::make_shared<Stored>()));
  const auto chosen = [&](const std::string& pattern) {
    std::string names;
    const auto made = transform(steps_of({"scale(2, tensors=" + pattern + ")"}), tensors, opens_nothing);
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    for (const Tensor& one : *made) names += one.made.empty() ? "" : one.name + " ";
    return names;
  };
  EXPECT_EQ(chosen("l.?.w"), "l.1.w l.2.w l.x.w ");
  EXPECT_EQ(chosen("l.[1-2].w"), "l.1.w l.2.w ");
  EXPECT_EQ(chosen("l.[!1].w"), "l.2.w l.x.w ");
  EXPECT_EQ(chosen("l.[0-9]*.w"), "l.1.w l.2.w l.12.w ");
}

// A user's function sees each element of a tensor once, in whole rows, when a writer asks for all boxes once.
TEST(Transform, AFunctionSeesEveryElementOnce) {
  for (const Split split : {Split::kElements, Split::kRows}) {
    Random random(2);
    const auto stored = std::make_shared<Stored>();
    const Shape shape{7, 30'000};
    const Tensor tensor = in_memory(random, "w", DType::kF32, shape, stored);
    const auto seen = std::make_shared<std::vector<int>>(stored->values.size());
    const Function count{.split = split,
                         .name = "count",
                         .outputs = [](DType dtype, const Shape&) -> absl::StatusOr<std::vector<Function::Output>> {
                           return std::vector<Function::Output>{{"", dtype}};
                         },
                         .run =
                             [=](const Function::Part& part) {
                               EXPECT_TRUE(split != Split::kRows || part.box.extent(1) == shape[1]) << part.box.str();
                               for_each_element(shape, part.box,
                                                [&](int64_t at) { ++(*seen)[static_cast<size_t>(at)]; });
                               std::memcpy(part.out.data(), part.in.data(), part.in.size());
                               return absl::OkStatus();
                             }};
    const std::vector<Step> steps = {{.text = "count", .tensors = {}, .what = count}};
    const auto made = transform(steps, {tensor}, opens_nothing);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(tensor::for_each_chunk(Box::whole(shape), 100'000, [&](const Box& box) {
                  (void)read((*made)[0], box);
                  return absl::OkStatus();
                }).ok());
    EXPECT_EQ(std::count(seen->begin(), seen->end(), 1), std::ssize(*seen)) << (split == Split::kRows);
  }
}

TEST(Transform, ErrorsOfReadersAndFunctionsEndTheRead) {
  Random random(3);
  const auto stored = std::make_shared<Stored>();
  Tensor tensor = in_memory(random, "w", DType::kF32, Shape{2, 2}, stored);
  stored->values[3] = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::byte> out(4);
  const auto made = transform(steps_of({"quantise(i8)"}), {tensor}, opens_nothing);
  EXPECT_THAT(message_of((*made)[0].read(Box({0, 0}, {2, 2}), out, {})),
              HasSubstr("tensor \"w\" box [0:2, 0:2]: has an element that is not finite"));
  EXPECT_TRUE((*made)[0].read(Box({0, 0}, {1, 2}), std::span(out).first(2), {}).ok()) << "its row is fine";
  tensor.read = [](const Box&, std::span<std::byte>, const Origin&) { return absl::AbortedError("the disk"); };
  const auto broken = transform(steps_of({"scale(1)", "cast(fp64)"}), {tensor}, opens_nothing);
  std::vector<std::byte> more(32);
  EXPECT_EQ((*broken)[0].read(Box({0, 0}, {2, 2}), more, {}), absl::AbortedError("the disk"));
}

TEST(Transform, NamesChooseTensorsAndOthersStay) {
  Random random(4);
  std::vector<Tensor> tensors;
  for (const std::string name : {"a.weight", "b.weight", "c.count", "d.moment"})
    tensors.push_back(in_memory(random, name, name == "c.count" ? DType::kI64 : DType::kF32, Shape{2, 2},
                                std::make_shared<Stored>()));
  tensors[3].usual = false;
  const auto usual = transform(steps_of({"cast(bf16)"}), tensors, opens_nothing);
  ASSERT_TRUE(usual.ok()) << usual.status();
  const auto some = transform(steps_of({"cast(bf16, tensors=*.moment, tensors=a.*)"}), tensors, opens_nothing);
  ASSERT_TRUE(some.ok()) << some.status();
  const std::vector<bool> by_default = {true, true, false, false}, named = {true, false, false, true};
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*usual)[i].dtype == DType::kBF16, by_default[i]) << tensors[i].name;
    EXPECT_EQ((*usual)[i].made.empty(), !by_default[i]) << tensors[i].name;
    EXPECT_EQ((*some)[i].dtype == DType::kBF16, named[i]) << tensors[i].name;
  }
  // What is no parameter wants its last word said.
  const auto all = transform(steps_of({"cast(bf16, tensors=*.w*, tensors=d*)"}), tensors, opens_nothing);
  EXPECT_THAT(message_of(all.status()), HasSubstr("no tensor is named \"d*\""));
  EXPECT_TRUE(transform(steps_of({"cast(bf16, tensors=d.moment)"}), tensors, opens_nothing).ok());
}

TEST(Transform, AllProblemsComeAtOnce) {
  Random random(5);
  std::vector<Tensor> tensors;
  for (const std::string name : {"w", "w_scale", "n", "v"})
    tensors.push_back(in_memory(random, name, name == "n" ? DType::kI64 : DType::kF32,
                                name == "v" ? Shape{3} : Shape{2, 3}, std::make_shared<Stored>()));
  const auto open = [&](const std::string& path) -> absl::StatusOr<Other> {
    if (path != "other") return missing(path + ": nothing is there");
    return Other{.tensors = {in_memory(random, "w", DType::kF32, Shape{3, 2}, std::make_shared<Stored>())},
                 .alpha = {},
                 .identity = path};
  };
  const auto made = transform(steps_of({"cast(bf16, tensors=x.*)", "scale(2, tensors=n)", "average(other, tensors=?)",
                                        "quantise(i8, tensors=v, tensors=w)"}),
                              tensors, open);
  EXPECT_THAT(message_of(made.status()),
              AllOf(HasSubstr("cast(bf16, tensors=x.*): no tensor is named \"x.*\"; * stands for any text\n"),
                    HasSubstr("scale(2, tensors=n): tensor \"n\" has elements of I64, which are not floating\n"),
                    HasSubstr("tensor \"n\" has elements of I64"), HasSubstr("tensor \"v\" is not in other\n"),
                    HasSubstr("tensor \"w\" has the shape [2, 3], in other [3, 2]\n"),
                    HasSubstr("tensor \"v\" has the shape [3], which has no rows\n"),
                    HasSubstr("tensor \"w_scale\": two tensors have this name")));
  EXPECT_THAT(message_of(transform(steps_of({"average(nowhere)"}), tensors, open).status()), HasSubstr("nowhere: "));
  // Codes of which only the scales are averaged would be neither state's.
  const auto same = [&](const std::string& path) -> absl::StatusOr<Other> {
    return Other{.tensors = tensors, .alpha = {}, .identity = path};
  };
  EXPECT_THAT(message_of(transform(steps_of({"average(other)"}), tensors, same).status()),
              HasSubstr("tensor \"n\" has elements of I64, which are not floating"));
  EXPECT_THAT(message_of(transform(steps_of({"quantise(i8)"}), {tensors[3]}, open).status()),
              HasSubstr("the state has no tensor that this is for"));
}

}  // namespace
}  // namespace scalai::transform
