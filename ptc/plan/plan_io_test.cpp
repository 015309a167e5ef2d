#include "ptc/plan/plan_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ptc/plan/testing/support.h"
#include "ptc/proto/plan.pb.h"

namespace scalai::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Every class of operation, a scalar, and missing boxes.
Plan example(bool storage) {
  Case job{.from = grid_collection({2, 2, 2}, first_devices(8)), .to = grid_collection({4, 1, 2}, first_devices(8, 2))};
  job.residency.lost = {DeviceId(5), DeviceId(7)};
  job.residency.extra = {{TensorId(0), tensor::Box({0, 0}, {19, 2}), HostId(0)}};
  job.residency.storage = storage;
  job.from.epoch = 6;
  job.to.epoch = 7;
  return job.plan();
}

void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.instances(), b.instances());
  EXPECT_EQ(a.patterns(), b.patterns());
  EXPECT_EQ(a.tensor_sets(), b.tensor_sets());
  EXPECT_EQ(a.memory(), b.memory());
  EXPECT_EQ(a.operations(), b.operations());
  EXPECT_EQ(a.missing(), b.missing());
  EXPECT_EQ(a.tensors(), b.tensors());
  EXPECT_EQ(a.src_devices(), b.src_devices());
  EXPECT_EQ(a.dst_devices(), b.dst_devices());
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(a.lower_bound(), b.lower_bound());
  EXPECT_EQ(a.digest(), b.digest());  // and everything else
}

std::string problem_of(std::string_view bytes) { return message_of(parse_plan(bytes).status()); }

std::string changed(const Plan& plan, const std::function<void(proto::Plan&)>& change) {
  proto::Plan message;
  EXPECT_TRUE(message.ParseFromString(serialize(plan)));
  change(message);
  return message.SerializeAsString();
}

TEST(PlanIo, RoundTrip) {
  for (const bool storage : {false, true}) {
    const Plan plan = example(storage);
    ASSERT_EQ(plan.missing().empty(), storage);
    const auto read = parse_plan(serialize(plan));
    ASSERT_EQ(message_of(read.status()), "");
    expect_same(plan, *read);
    EXPECT_EQ(serialize(*read), serialize(plan));
  }
}

TEST(PlanIo, HostMemorySourcesSurvive) {
  Case job{.from = replicas({8}, devices({0, 1})), .to = replicas({8}, devices({5, 6}))};
  job.options = {.name = "central", .in_place = false, .hub = HostId(2)};
  const Plan plan = job.plan();
  ASSERT_EQ(plan.operations().at(0).src, Location::host_memory(HostId(2)));
  expect_same(plan, parse_plan(serialize(plan)).value());
}

TEST(PlanIo, AnotherVersionNamesBoth) {
  const std::string bytes = changed(example(true), [](proto::Plan& plan) { plan.set_schema_version(7); });
  EXPECT_THAT(problem_of(bytes), AllOf(HasSubstr("version 7"), HasSubstr("version 2")));
  EXPECT_THAT(problem_of(""), HasSubstr("version 0"));
}

TEST(PlanIo, ColumnsOfUnequalLength) {
  const Plan plan = example(false);
  using Change = std::function<void(proto::Plan&)>;
  const std::vector<Change> changes = {
      [](proto::Plan& p) { p.mutable_instances()->add_round(0); },
      [](proto::Plan& p) { p.mutable_instances()->mutable_tensors()->RemoveLast(); },
      [](proto::Plan& p) { p.mutable_instances()->add_pattern(0); },
      [](proto::Plan& p) { p.mutable_instances()->mutable_lo()->RemoveLast(); },
      [](proto::Plan& p) { p.mutable_instances()->add_hi(1); },
      [](proto::Plan& p) { p.mutable_patterns()->add_leg_count(0); },
      [](proto::Plan& p) { p.mutable_patterns()->mutable_legs()->add_src(0); },
      [](proto::Plan& p) { p.mutable_patterns()->mutable_legs()->mutable_dst_step()->RemoveLast(); },
      [](proto::Plan& p) {
        proto::Plan::Runs& legs = *p.mutable_patterns()->mutable_legs();
        legs.set_count(0, legs.count(0) + 1);
      },
      [](proto::Plan& p) { p.mutable_memory()->add_before(0); },
      [](proto::Plan& p) { p.mutable_missing()->add_lo(0); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_THAT(problem_of(changed(plan, changes[i])), HasSubstr("columns of unequal length")) << "change " << i;
  }
}

TEST(PlanIo, ValuesOutOfRange) {
  const Plan plan = example(false);
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_instances()->set_pattern(0, 9999); })),
              HasSubstr("instance 0 has pattern 9999"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_instances()->set_tensors(0, -1); })),
              HasSubstr("instance 0 has tensor set -1"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensor_sets(0)->set_tensor(0, 99); })),
              HasSubstr("no tensor 99"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensor_sets(0)->clear_tensor(); })),
              HasSubstr("empty set"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_instances()->set_hi(0, 99); })),
              HasSubstr("is not inside"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_instances()->set_lo(0, -1); })),
              HasSubstr("is not inside"));
  EXPECT_THAT(problem_of(changed(plan,
                                 [](proto::Plan& p) {
                                   p.mutable_instances()->set_lo(0, p.instances().hi(0));
                                   p.mutable_instances()->set_hi(0, p.instances().lo(0) - 1);
                                 })),
              HasSubstr("is not inside"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_patterns()->mutable_legs()->set_dst(0, -5); })),
              HasSubstr("devices that do not exist"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_patterns()->mutable_legs()->set_count(0, 0); })),
              HasSubstr("of the patterns is malformed"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_patterns()->set_leg_count(0, 1 << 30); })),
              HasSubstr("more legs than devices"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensors(0)->set_derived_from(99); })),
              HasSubstr("does not exist"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensors(0)->set_dtype("F3"); })),
              HasSubstr("unknown dtype \"F3\""));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensors(0)->set_shape(0, -1); })),
              HasSubstr("impossible shape"));
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.mutable_tensors(0)->set_shape(0, int64_t{1} << 62); })),
              HasSubstr("impossible shape"));
  EXPECT_THAT(problem_of(changed(plan,
                                 [](proto::Plan& p) {
                                   for (int i = 0; i < 9; ++i) p.mutable_tensors(0)->add_shape(1);
                                 })),
              HasSubstr("11 dimensions"));
}

// Frees name devices only.
TEST(PlanIo, FreesAreNoLegs) {
  Case job{.from = grid_collection({2, 2, 2}, first_devices(8)), .to = grid_collection({4, 1, 2}, first_devices(8))};
  job.options.memory_cap = 300;
  const Plan plan = job.plan();
  using Change = std::function<void(proto::Plan::Runs&)>;
  const std::vector<Change> changes = {[](proto::Plan::Runs& frees) { frees.set_src(0, 1); },
                                       [](proto::Plan::Runs& frees) { frees.set_class_and_hop(0, 1); },
                                       [](proto::Plan::Runs& frees) { frees.set_count(0, -1); }};
  for (const Change& change : changes) {
    EXPECT_THAT(problem_of(changed(plan,
                                   [&](proto::Plan& p) {
                                     ASSERT_GT(p.patterns().frees().count_size(), 0);
                                     change(*p.mutable_patterns()->mutable_frees());
                                   })),
                HasSubstr("run 0 of the patterns is malformed"));
  }
}

TEST(PlanIo, DamageIsFound) {
  const Plan plan = example(false);
  EXPECT_THAT(problem_of(changed(plan, [](proto::Plan& p) { p.set_to_epoch(8); })), HasSubstr("damaged"));
  const std::string bytes = serialize(plan);
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_FALSE(parse_plan(std::string_view(bytes).substr(0, length)).ok()) << "first " << length << " bytes";
  }
}

TEST(PlanIo, BitFlipsAreFound) {
  const std::string bytes = serialize(example(false));
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(parse_plan(flipped).ok()) << "bit " << bit;
  }
}

// Random bytes, and random damage to a real plan, give a status and nothing else.
TEST(PlanIo, RandomBytesNeverCrash) {
  const std::string real = serialize(example(false));
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::string bytes = seed % 2 == 0 ? real : std::string(static_cast<size_t>(random.below(200)), '\0');
    const int64_t changes = seed % 2 == 0 ? random.between(1, 8) : static_cast<int64_t>(bytes.size());
    for (int64_t i = 0; i < changes; ++i) {
      const auto at = static_cast<size_t>(seed % 2 == 0 ? random.below(static_cast<int64_t>(bytes.size())) : i);
      bytes[at] = static_cast<char>(random.below(256));
    }
    EXPECT_TRUE(!parse_plan(bytes).ok() || bytes == real) << "seed " << seed;
  }
}

}  // namespace
}  // namespace scalai::plan
