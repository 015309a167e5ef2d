#include "ptc/cost/change/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::change {
namespace network_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Only tells rates.
class Rates : public NetworkBackend {
 public:
  double now_s() const override { return 0; }
  FlowId start(int, int, double) override { return 0; }
  void cancel(FlowId) override {}
  void set_bandwidth(int, double) override {}
  std::vector<FlowEnd> advance_to(double) override { return {}; }
  std::vector<double> link_rates() override { return rates; }

  std::vector<std::pair<int, double>> changed() {
    std::vector<std::pair<int, double>> list;
    for (const LinkRate& one : changed_link_rates()) list.emplace_back(one.link, one.bytes_per_s);
    return list;
  }
  std::vector<double> rates;
};

TEST(NetworkBackend, ChangedRatesAreToldOnce) {
  Rates network;
  network.rates = {0, 5, 7};
  EXPECT_THAT(network.changed(), ElementsAre(Pair(1, 5), Pair(2, 7)));
  EXPECT_THAT(network.changed(), IsEmpty());
  network.rates = {0, 0, 7};
  EXPECT_THAT(network.changed(), ElementsAre(Pair(1, 0)));
}

TEST(CheckNetwork, NamesAreUnique) {
  const LinkSpec link{"l", 1};
  EXPECT_TRUE(check_network({{link}, {{"a", {0}, {}}, {"b", {}, {0}}}}).ok());
  EXPECT_THAT(message_of(check_network({{link, link}, {}})), HasSubstr("two links are named 'l'"));
  EXPECT_THAT(message_of(check_network({{link}, {{"a", {0}, {}}, {"a", {}, {}}}})),
              HasSubstr("two endpoints are named 'a'"));
}

}  // namespace network_test
}  // namespace scalai::change
