#include "apps/checkpoint/stats_json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace scalai::apps {
namespace stats_json_test {

using nlohmann::json;

json elements() {
  const std::vector<float> values = {0, 1.5F, -4, 3};
  const auto stats =
      tensor::stats_of(tensor::DType::kF32, std::ssize(values), reinterpret_cast<const std::byte*>(values.data()));
  json made = json_of(stats);
  made["magnitudes"] = json_of_magnitudes(stats);
  return made;
}

TEST(StatsJson, ReadsBackWhatItWrote) {
  const auto read = elements_of_json(elements());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->elements, 4);
  EXPECT_EQ(read->zeros, 1);
  EXPECT_EQ(nlohmann::json(json_of_magnitudes(*read)), elements()["magnitudes"]);
  const tensor::ElementChange change{.elements = 4, .changed = 3, .no_number = 1, .squares = 2, .largest = 1};
  const auto again = change_of_json(json_of(change));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(json_of(*again), json_of(change));
}

// Of a host that says what cannot be: sums of such counts are no numbers.
TEST(StatsJson, CountsAreOfTheElements) {
  for (const char* name : {"elements", "nan", "inf", "zeros"}) {
    for (const json& bad : {json(-1), json(UINT64_MAX), json(0.5), json("1"), json(INT64_MAX)}) {
      json changed = elements();
      if (name == std::string("elements") && bad == json(INT64_MAX)) continue;
      changed[name] = bad;
      EXPECT_FALSE(elements_of_json(changed).has_value()) << name << " " << bad;
    }
  }
  for (const json& pair :
       {json({0, 5}), json({0, -1}), json({128, 1}), json({-128, 1}), json({INT64_MAX, 1}), json({0.5, 1})}) {
    json changed = elements();
    changed["magnitudes"].push_back(pair);
    EXPECT_FALSE(elements_of_json(changed).has_value()) << pair;
  }
  const json change = json_of(tensor::ElementChange{.elements = 4, .changed = 3, .no_number = 1});
  for (const char* name : {"elements", "changed", "no_number"}) {
    json changed = change;
    changed[name] = -1;
    EXPECT_FALSE(change_of_json(changed).has_value()) << name;
  }
}

}  // namespace stats_json_test
}  // namespace scalai::apps
