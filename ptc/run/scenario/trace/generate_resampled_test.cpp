#include <algorithm>
#include <cmath>

#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/generate.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace generate_resampled_test {

using testing::has;
using Kind = policy::FleetEvent::Kind;
using Resampled = testing::TraceFiles;

Imported made(const std::vector<std::string>& set, int hosts, uint64_t seed = 1) {
  const absl::StatusOr<Imported> result = generate("resampled", set, seed, hosts);
  EXPECT_TRUE(result.ok()) << message_of(result.status());
  return result.ok() ? *result : Imported();
}

// Host seconds of the outages until `end_s`, those that run at the start among them.
double down_s(const Imported& trace, double end_s) {
  double total = 0;
  std::vector<double> since(trace.hosts.hosts.size(), -1);
  for (size_t host = 0; host < since.size(); ++host) since[host] = trace.hosts.availability.up[host] != 0 ? -1 : 0;
  for (const policy::FleetEvent& event : trace.hosts.availability.events) {
    for (const HostId id : event.hosts) {
      double& from = since[static_cast<size_t>(id.value)];
      EXPECT_EQ(from < 0, event.kind != Kind::kUp) << "host " << id.value << " at " << event.at_s;
      if (event.kind == Kind::kUp) total += event.at_s - from;
      from = event.kind == Kind::kUp ? -1 : event.at_s;
    }
  }
  for (const double from : since) total += from < 0 ? 0 : end_s - from;
  return total;
}

// One host of two is down from 1,000 to 5,000 s of 10,000 s: over a whole period each host of the cluster is down for
// 4,000 s or never, whatever the time drawn.
TEST_F(Resampled, EachHostLivesTheLifeOfOneOfTheTrace) {
  const std::string path = file(
      "scalai-trace,1,hosts,two,10000\nrecord,at_s,what,hosts,text\nhost,,up,0,a\nhost,,up,1,b\n"
      "event,1000,failed,0,GPU\nevent,5000,up,0,\n");
  const Imported got = made({"format=scalai", "file=" + path, "span=10000s"}, 100);
  const double down = down_s(got, 10000) / 4000;
  EXPECT_NEAR(down, std::round(down), 1e-6);
  EXPECT_TRUE(down > 30 && down < 70) << "of 100 hosts half follow the one that fails: " << down;
  const auto& up = got.hosts.availability.up;
  const auto at_start = std::count(up.begin(), up.end(), 0);
  EXPECT_TRUE(at_start > 8 && at_start < 35) << "two fifths of those are down at the start: " << at_start;
  for (const policy::FleetEvent& event : got.hosts.availability.events) {
    EXPECT_EQ(event.cause, event.kind == Kind::kUp ? "" : "GPU");
  }
  // Twice as long: twice as much.
  EXPECT_NEAR(down_s(made({"format=scalai", "file=" + path, "span=20000s"}, 100), 20000), 8000 * down, 1e-3 * 100);
}

TEST_F(Resampled, ProblemsAreThoseOfOptionsAndOfTheTrace) {
  const auto refused = [](const std::vector<std::string>& set) {
    const absl::StatusOr<Imported> result = generate("resampled", set, 1, 8);
    EXPECT_FALSE(result.ok());
    return message_of(result.status());
  };
  const std::string message = refused({"span=0s"});
  EXPECT_TRUE(has(message, "span: is no time span") && has(message, "file: is needed")) << message;
  EXPECT_TRUE(has(refused({"file=" + file("[]")}), "no host") || has(refused({"file=" + file("[]")}), "over a time"));
  EXPECT_TRUE(has(refused({"format=bamboo", "file=" + file("0,add,a\n"), "without=GPU"}), "without"));
}

// 582 losses of 400 servers in 348.98 days are 0.00417 a server and day, and 132.8 h of repair after each of 584 faults
// keep 2.3 % of them down. 12,288 hosts have 2,767 losses in 54 days; servers differ, so seeds lie some 4 % apart.
TEST(PublicResampled, TheRatesOfTheTraceStay) {
  const std::string path = policy::testing::data_path("infinitehbd/fault_trace.json");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("infinitehbd");
  constexpr int kHosts = 12288, kSeeds = 16;
  constexpr double kDays = 54;
  double losses = 0, down = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Imported got = made({"file=" + path, "span=54d"}, kHosts, static_cast<uint64_t>(seed));
    losses += static_cast<double>(got.summary.rows) / kSeeds;
    down += down_s(got, kDays * 86400) / kHosts / kDays / 86400 / kSeeds;
  }
  EXPECT_NEAR(losses, 582 / 400. / 348.98 * kHosts * kDays, 60);
  EXPECT_NEAR(down, 584 * 132.84 / 24 / 400 / 348.98, 0.0005);
}

}  // namespace generate_resampled_test
}  // namespace scalai::trace
