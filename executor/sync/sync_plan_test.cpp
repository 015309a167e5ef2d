#include "executor/sync/sync_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "executor/state/digest.h"
#include "executor/worker/foreign_step.h"
#include "ptc/base/random.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::sync {
namespace sync_plan_test {

StepDigests digests(const std::vector<tensor::Box>& boxes, const tensor::Shape& shape, const std::vector<float>& values,
                    int64_t bytes) {
  StepDigests all;
  const state::Source source{tensor::Box::whole(shape), tensor::DType::kF32,
                             reinterpret_cast<const std::byte*>(values.data())};
  for (const tensor::Box& box : boxes) {
    for (const tensor::Box& chunk : state::digest_chunks(box, tensor::DType::kF32, bytes))
      all[{TensorId(7), box}].push_back(state::box_digest(source, chunk));
  }
  return all;
}

// Whatever the boxes are that the run's workers hold: no element that has changed is left out, and where few have, few
// others come along.
TEST(SyncChanges, HaveEveryElementThatChanged) {
  for (uint64_t seed = 100; seed < 160; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const tensor::Shape shape{random.between(1, 40), random.between(1, 9)};
    SyncPlan plan{{.from = {}, .to = {}, .numbers = {7}}, plan::seal({})};
    plan.origins = plan::replicas(shape, plan::first_devices(1)).tensors;
    plan.made.push_back({.name = "w", .shape = shape});
    std::vector<float> before(static_cast<size_t>(shape.elements()), 1), now = before;
    std::vector<size_t> changed;
    for (int64_t i = random.between(0, 6); i > 0; --i) {
      changed.push_back(static_cast<size_t>(random.between(0, shape.elements() - 1)));
      now[changed.back()] = 2;
    }
    // Rows in up to three boxes, of which the first may be unknown before or now.
    std::vector<tensor::Box> boxes;
    for (int64_t at = 0; at < shape[0];) {
      tensor::Box box = tensor::Box::whole(shape);
      box.lo[0] = at;
      at = box.hi[0] = boxes.size() == 2 ? shape[0] : random.between(at + 1, shape[0]);
      boxes.push_back(box);
    }
    const int64_t bytes = random.between(1, 100);
    std::vector<tensor::Box> known = boxes, known_now = boxes;
    if (random.between(0, 3) == 0) known.erase(known.begin());
    if (random.between(0, 3) == 0) known_now.erase(known_now.begin());
    proto::Foreign foreign;
    const StepDigests old = digests(known, shape, before, bytes);
    ASSERT_TRUE(set_changes(plan, old, digests(known_now, shape, now, bytes), bytes, foreign).ok());
    if (old.empty()) {
      EXPECT_FALSE(foreign.has_changes());
      continue;
    }
    foreign.set_version(state::StateVersion::live(1).wire());
    foreign.add_tensors(7);
    const worker::ForeignStep step = worker::ForeignStep::make(foreign, {{.name = "w", .shape = shape}}).value();
    const auto parts = step.changes(TensorId(0), tensor::Box::whole(shape));
    ASSERT_TRUE(parts.has_value());
    int64_t elements = 0;
    for (const tensor::Box& part : *parts) elements += part.volume();
    for (const size_t at : changed) {
      const auto row = static_cast<int64_t>(at) / shape[1], column = static_cast<int64_t>(at) % shape[1];
      const tensor::Box one({row, column}, {row + 1, column + 1});
      EXPECT_TRUE(
          std::any_of(parts->begin(), parts->end(), [&](const tensor::Box& part) { return part.contains(one); }));
    }
    if (known == boxes && known_now == boxes) {
      EXPECT_LE(elements, static_cast<int64_t>(changed.size()) * std::max<int64_t>(1, bytes / 4));
    }
  }
}

}  // namespace sync_plan_test
}  // namespace scalai::executor::sync
