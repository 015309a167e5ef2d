// `scalai data show`: what ranks read, whatever their number. cases/data.case has what it prints.

#include <set>

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace data_command_test {

using nlohmann::json;
using namespace scalai::testing;

using DataCommand = EndToEnd;

// Whatever dp is, the ranks of a step read the same batch in the same order; all steps of a pass read each sample once.
TEST_F(DataCommand, ABatchDoesNotDependOnDp) {
  write_all(path("f"), std::string(1000, 'x'));
  const Outcome made = scalai(fmt::format("data index --kind=fixed --record-bytes=10 {0} --out={0}.index", path("f")));
  ASSERT_EQ(made.code, 0) << made.err;
  std::vector<json> batches;
  for (const int dp : {1, 3, 7, 12}) {
    const Outcome shown = scalai(
        fmt::format("data show {}.index --format=json --dp={} --global-batch=9 --steps=12 --seed=5", path("f"), dp));
    ASSERT_EQ(shown.code, 0) << shown.err;
    const json all = json::parse(shown.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(all["reads"].size(), static_cast<size_t>(12 * dp));
    json ids = json::array();
    for (const json& read : all["reads"]) {
      for (const json& id : read["samples"]) ids.push_back({read["step"], id});
    }
    batches.push_back(ids);
    EXPECT_EQ(ids, batches.front()) << dp;
  }
  std::set<int> seen;
  for (const json& id : batches.front()) seen.insert(id[1].get<int>());
  EXPECT_EQ(batches.front().size(), 100u);
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace data_command_test
