// What the mutators make, and a share of what fuzzers play: mutants of their seeds, without libFuzzer.
#include "tests/fuzz/mutate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ptc/base/json.h"
#include "ptc/proto/collection.pb.h"

// The entries of each fuzzer, which has them under these names here.
#define PLAYED(NAME)                                           \
  extern "C" int NAME##_run(const uint8_t* data, size_t size); \
  extern "C" size_t NAME##_change(uint8_t* data, size_t size, size_t max_size, unsigned seed);
#include "tests/fuzz/played.h"
#undef PLAYED

namespace scalai::fuzz {
namespace mutate_test {

// Every field is changed, entries come and go, and all of it is still a message.
TEST(Mutate, ReachesEveryField) {
  proto::CollectionFile seed;
  seed.set_name("n");
  seed.set_epoch(5);
  seed.add_tensors()->add_shape(3);
  std::set<std::string> names;
  std::set<int64_t> epochs;
  std::set<int> tensors, shapes, meshes;
  for (uint64_t i = 1; i <= 2000; ++i) {
    Random random(i);
    proto::CollectionFile message = seed, again;
    mutate(message, random);
    ASSERT_TRUE(again.ParseFromString(message.SerializeAsString())) << "seed " << i;
    names.insert(message.name());
    epochs.insert(message.epoch());
    tensors.insert(message.tensors_size());
    meshes.insert(message.meshes_size());
    if (message.tensors_size() > 0) shapes.insert(message.tensors(0).shape_size());
    Random same(i);
    again = seed;
    mutate(again, same);
    EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString()) << "seed " << i;
  }
  EXPECT_GT(names.size(), 5U);
  EXPECT_TRUE(epochs.contains(INT64_MAX) && epochs.contains(INT64_MIN) && epochs.contains(6) && epochs.contains(0));
  EXPECT_TRUE(tensors.contains(0) && tensors.contains(2) && shapes.contains(0) && shapes.contains(2));
  EXPECT_TRUE(meshes.contains(1));
}

TEST(Mutate, JsonStaysJson) {
  const std::string seed = R"({"a":[1,2.5,{"b":"x7"}],"c":true})";
  std::set<std::string> all;
  for (uint64_t i = 1; i <= 500; ++i) {
    Random random(i);
    const std::string changed = mutate_json(seed, "[]", random);
    EXPECT_TRUE(read_json(changed).ok()) << "seed " << i << ": " << changed;
    all.insert(changed);
  }
  EXPECT_GT(all.size(), 100U);
  EXPECT_TRUE(all.contains(R"({"a":[1,2.5,{"b":"x7"}],"c":false})"));
  EXPECT_TRUE(all.contains(R"({"a":[9223372036854775807,2.5,{"b":"x7"}],"c":true})"));
}

// Chains of mutants, each of one before or of a seed.
void play(const char* name, int (*run)(const uint8_t*, size_t), size_t (*change)(uint8_t*, size_t, size_t, unsigned)) {
  constexpr int kMutants = 200;
  const char* given = std::getenv("SCALAI_FUZZ_SEED");
  const uint64_t seed = given == nullptr ? 20261129 : std::strtoull(given, nullptr, 10);
  fmt::print(stderr, "{}: {} mutants from seed {}\n", name, kMutants, seed);
  Random random(seed);
  std::vector<uint8_t> buffer(size_t{1} << 16);
  size_t size = 0;
  for (int i = 0; i < kMutants; ++i) {
    if (i % 5 == 0) size = 0;  // from a seed
    size = change(buffer.data(), size, buffer.size(), static_cast<unsigned>(random.next()));
    const std::vector<uint8_t> input(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(size));
    run(input.data(), input.size());
  }
}

#define PLAYED(NAME) \
  TEST(Fuzzers, NAME) { play(#NAME, NAME##_run, NAME##_change); }
#include "tests/fuzz/played.h"
#undef PLAYED

}  // namespace mutate_test
}  // namespace scalai::fuzz
