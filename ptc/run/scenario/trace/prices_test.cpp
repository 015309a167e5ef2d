#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace prices_test {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;

using Prices = testing::TraceFiles;

const std::string kHeader = "timestamp_utc,availability_zone,instance_type,usd_per_hour\n";

TEST_F(Prices, AwsCsvIsSortedInTime) {
  const std::string text = kHeader +
                           "2020-01-01T00:01:00Z,us-a,p3.2xlarge,0.9\n2020-01-01T00:00:00Z,us-a,p3.2xlarge,1.1\n"
                           "2020-01-01T00:02:00Z,us-b,p2.xlarge,0.3\n";
  const Imported got = good("aws-spot", text);
  ASSERT_EQ(got.prices.points.size(), 3U);
  EXPECT_EQ(got.prices.points[0].at_s, 0);
  EXPECT_EQ(got.prices.points[0].usd_per_hour, 1.1);
  EXPECT_EQ(got.prices.points[2].at_s, 120);
  EXPECT_EQ(got.prices.points[2].market, "us-b");
  EXPECT_EQ(got.summary.span_s, 120);
  const Imported one = good("aws-spot", text, {"market=us-a", "from=90s"});
  ASSERT_EQ(one.prices.points.size(), 1U);  // what holds when the window opens
  EXPECT_EQ(one.prices.points[0].at_s, 0);
  EXPECT_EQ(one.prices.points[0].usd_per_hour, 0.9);
  EXPECT_EQ(one.summary.dropped.at("of another market"), 1);
  EXPECT_TRUE(has(bad("aws-spot", text, {"instance=h100"}), "no price is left of 3 rows"));
}

TEST_F(Prices, AwsHistoryInJson) {
  const auto row = [](const std::string& stamp, const std::string& price, const std::string& product = "Linux/UNIX") {
    return R"({"AvailabilityZone": "us-a", "InstanceType": "p3.2xlarge", "ProductDescription": ")" + product +
           R"(", "SpotPrice": ")" + price + R"(", "Timestamp": ")" + stamp + "\"}";
  };
  const auto document = [](const std::string& rows) { return "{\"SpotPriceHistory\": [" + rows + "]}"; };
  const Imported got =
      good("aws-spot",
           document(row("2020-01-01T00:01:00.000Z", "0.918000") + "," + row("2020-01-01T00:00:00+00:00", "1.1") + "," +
                    row("2020-01-01T00:00:00+00:00", "1.1") + "," + row("2020-01-01T00:00:00Z", "2.2", "Windows")));
  ASSERT_EQ(got.prices.points.size(), 2U);
  EXPECT_EQ(got.prices.points[1].usd_per_hour, 0.918);
  EXPECT_EQ(got.summary.rows, 4);
  EXPECT_EQ(got.summary.dropped, (std::map<std::string, int64_t>{{"there already", 1}, {"of another product", 1}}));
  const std::string message =
      bad("aws-spot", document(row("soon", "1") + ",7," + row("2020-01-01T00:00:00Z", "0") + ",{}"));
  for (const char* part :
       {"/SpotPriceHistory/0: Timestamp: \"soon\"", "/SpotPriceHistory/1: is no object",
        "/SpotPriceHistory/2: SpotPrice: \"0\" is no price", "/SpotPriceHistory/3: AvailabilityZone: is missing"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(bad("aws-spot", "{\"Prices\": []}"), "is no JSON object with an array SpotPriceHistory"));
}

TEST_F(Prices, AzureHasAColumnAnInstanceType) {
  const Imported got = good("azure", "Date,NC6,NC12s v3\n2/24/2020,$0.12276,\n2/25/2020,$0.13,$1.2\n");
  ASSERT_EQ(got.prices.points.size(), 3U);
  EXPECT_EQ(got.prices.points[0].market, "trace");
  EXPECT_EQ(got.prices.points[0].usd_per_hour, 0.12276);
  EXPECT_EQ(got.prices.points[2].instance, "NC12s v3");
  EXPECT_EQ(got.prices.points[2].at_s, 86400);
  const std::string message = bad("azure", "Date,NC6\n24/2/2020,$0.1\n2/25/2020,$x\n");
  EXPECT_TRUE(has(message, ":2: Date: \"24/2/2020\" is no date") && has(message, ":3: NC6: \"$x\" is no price"))
      << message;
}

TEST_F(Prices, BadRows) {
  const std::string message = bad("aws-spot", kHeader + "now,us-a,p3,1\n2020-01-01T00:00:00Z,,p3,-1\n");
  for (const char* part : {":2: timestamp_utc", ":3: availability_zone: is empty", ":3: usd_per_hour: \"-1\""}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
}

TEST(PublicPrices, AsTheirSourceSays) {
  const std::string aws = policy::testing::data_path("aws_spot/aws_spot_prices_2019-12_2020-03.csv");
  if (aws.empty()) GTEST_SKIP() << policy::testing::data_hint("aws_spot");
  const auto got = import_trace("aws-spot", aws);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->prices.points.size(),
            14052U);  // the file has 14,052 rows; its SOURCE.txt speaks of 16,560 with repeats
  const auto azure = import_traces(
      "azure", {data_path("aws_spot/azure_us_east.csv"), data_path("aws_spot/azure_us_south_central.csv")});
  ASSERT_TRUE(azure.ok()) << message_of(azure.status());
  EXPECT_EQ(azure->prices.points.size(), 2U * 29 * 12);
}

}  // namespace prices_test
}  // namespace scalai::trace
