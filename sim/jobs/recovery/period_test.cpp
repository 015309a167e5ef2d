#include "sim/jobs/recovery/period.h"

#include "gtest/gtest.h"
#include "ptc/run/policy/job.h"

namespace scalai::jobs {
namespace {

// 54 days with 419 failures (arXiv:2407.21783), checkpoints of 10 s and 60 s, 300 s to recover.
TEST(Period, OfLlamaThree) {
  const double mtbf_s = 54 * 86400.0 / 419;
  EXPECT_NEAR(mtbf_s / 3600, 3.093, 5e-4);
  const double fast = young_daly_period_s(10, mtbf_s);
  const double slow = young_daly_period_s(60, mtbf_s);
  EXPECT_NEAR(fast, 472, 0.5);
  EXPECT_NEAR(slow, 1155, 1.5);
  EXPECT_NEAR(first_order_ettr({fast, 10, 300, mtbf_s}), 0.931, 5e-4);
  EXPECT_NEAR(first_order_ettr({slow, 60, 300, mtbf_s}), 0.869, 5e-4);
}

TEST(Period, IsTheBestOfTheFormula) {
  for (const double write_s : {1.0, 10.0, 100.0}) {
    const double mtbf_s = 20000;
    const double best = young_daly_period_s(write_s, mtbf_s);
    const double ettr = first_order_ettr({best, write_s, 50, mtbf_s});
    for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
      EXPECT_GT(ettr, first_order_ettr({best * factor, write_s, 50, mtbf_s})) << write_s << " x " << factor;
    }
  }
}

// Rare failures: both forms agree; frequent ones: the first order is too dark, for work lost in a recovery counts
// twice.
TEST(Period, TheFirstOrderIsTheLimit) {
  EXPECT_NEAR(exact_ettr({1000, 5, 20, 1e7}), first_order_ettr({1000, 5, 20, 1e7}), 1e-4);
  EXPECT_GT(exact_ettr({1000, 5, 20, 2000}), first_order_ettr({1000, 5, 20, 2000}) + 0.01);
  EXPECT_NEAR(exact_ettr({472, 10, 300, 11134}), 0.9327, 5e-4);
}

TEST(Period, AtTheEdges) {
  EXPECT_EQ(young_daly_period_s(0, 100), 0);
  EXPECT_EQ(young_daly_period_s(10, policy::kNever), policy::kNever);
  EXPECT_EQ(young_daly_period_s(0, policy::kNever), policy::kNever);
  EXPECT_EQ(first_order_ettr({100, 0, 0, 10}), 0);  // five periods of work lost a failure: nothing is left
}

}  // namespace
}  // namespace scalai::jobs
