// `scalai accuracy policies` as its users run it.

#include <cstdlib>
#include <filesystem>

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace accuracy_policies_test {

using nlohmann::json;
using namespace scalai::testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class AccuracyPolicies : public EndToEnd {
 protected:
  static std::string data() {
    const char* named = std::getenv("SCALAI_DATA");
    const std::string path = named != nullptr ? named : SCALAI_SOURCE_DIR "/../shared/data";
    return std::filesystem::exists(path + "/bamboo/p3-trace.csv") ? path : "";
  }
  Outcome policies(const std::string& words) const { return scalai("accuracy policies " + words); }
};

TEST_F(AccuracyPolicies, PrintsReferenceAndOurs) {
  if (data().empty()) GTEST_SKIP() << "public data bamboo/ is not here; set SCALAI_DATA to the folder that has it";
  const Outcome table = policies("--set=g16 --data=" + data());
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char* part :
       {"G16", "source: bamboo/", "removals", "167", "exact", "ok", "0 out of tolerance", "a published cluster"}) {
    EXPECT_TRUE(has(table.out, part)) << part << "\n" << table.out;
  }
  const json parsed = json::parse(policies("--set=G16 --format=json --data=" + data()).out, nullptr, false);
  ASSERT_EQ(parsed["sets"].size(), 1u);
  EXPECT_EQ(parsed["sets"][0]["rows"].size(), 5u);
  for (const json& row : parsed["sets"][0]["rows"]) EXPECT_EQ(row["ok"], true) << row;
  const Outcome csv = policies("--set=G16 --format=csv --data=" + data());
  EXPECT_EQ(csv.out.substr(0, csv.out.find('\n')),
            "set,reproduces,policy,row,unit,reference,ours,error,tolerance,verdict,note");
}

TEST_F(AccuracyPolicies, NamesTheDataItLacks) {
  const Outcome outcome = policies("--set=G16 --data=/no/such/folder");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_TRUE(has(outcome.out, "/no/such/folder/bamboo/p3-trace.csv is not there")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "github.com/uclasystem/bamboo")) << outcome.out;
}

TEST_F(AccuracyPolicies, RefusesSetsThatAreNone) {
  const Outcome outcome = policies("--set=G77");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "no reference set \"G77\"; there are G1, G2")) << outcome.err;
}

}  // namespace accuracy_policies_test
