// Any bytes or changed plans as a plan file, as they are and again with the digest made to fit: parsing may refuse them
// but must not crash, hang or accept what overflows where a plan is lowered, or what is not the same when it is written
// and read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/proto/plan.pb.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;

void use(const plan::Plan& plan) {
  constexpr size_t kMostInstances = 1000;
  constexpr int64_t kMostDevice = 1000;
  for (const auto* side : {&plan.src_devices(), &plan.dst_devices()}) {
    for (const DeviceId device : *side) {
      if (device.value > kMostDevice) return;
    }
  }
  if (plan.instances().size() > kMostInstances) return;
  const plan::Lowering lowering(plan);
  int64_t bytes = 0;
  for (const DeviceId device : plan.dst_devices()) {
    for (const plan::ProgramStep& step : lowering.program(device)) SCALAI_CHECK(step.bytes >= 0);
  }
  for (const plan::DeviceTraffic& traffic : plan::device_traffic(plan)) bytes = std::max(bytes, traffic.received);
  SCALAI_CHECK(bytes >= 0 && plan::most_allocated_bytes(plan) >= 0);
}

void try_plan(const std::string& bytes) {
  const auto plan = plan::parse_plan(bytes);
  if (!plan.ok()) {
    SCALAI_CHECK(!message_of(plan.status()).empty());
    return;
  }
  const auto again = plan::parse_plan(plan::serialize(*plan));
  SCALAI_CHECK(again.ok() && again->digest() == plan->digest(), "a plan changed when written and read");
  use(*plan);
}

// Of several rounds and hops, one with casts, one from storage.
const std::string& seed_plan(Random& random) {
  using collection::LogicalTensor;
  static const std::vector<std::string> seeds = [] {
    std::vector<std::string> made;
    const auto side = [](int ranks, int first) {
      collection::Collection of{.name = "seed", .meshes = {collection::Mesh({{"x", ranks}})}};
      for (int rank = 0; rank < ranks; ++rank) of.device_of_rank.emplace_back(first + rank);
      const tensor::Layout rows{{{.axis = "x", .dim = 0, .rule = tensor::SplitRule::kBalanced}}};
      of.tensors = {{.name = "a.w", .dtype = tensor::DType::kBF16, .shape = tensor::Shape({8, 4}), .layout = rows},
                    {.name = "b.w", .dtype = tensor::DType::kF32, .shape = tensor::Shape({12, 2, 2}), .layout = rows},
                    {.name = "b.s", .dtype = tensor::DType::kF32, .shape = tensor::Shape()}};
      of.tensors.push_back({.name = "a.w:master",
                            .dtype = tensor::DType::kF32,
                            .shape = tensor::Shape({8, 4}),
                            .kind = model::StateKind::kMaster,
                            .layout = rows});
      return of;
    };
    cluster::Cluster cluster{.hosts = {{.first_device = 0, .gpus = 3}, {.first_device = 3, .gpus = 3}}};
    collection::Residency lost;
    lost.lost = {DeviceId(0), DeviceId(1)};
    lost.storage = true;
    const auto from = side(2, 0), to = side(3, 2), wide = side(6, 0);
    for (const plan::PlannerInput& input :
         {plan::PlannerInput{from, to, cluster, {}, {}}, plan::PlannerInput{wide, to, cluster, {}, {.round_bytes = 16}},
          plan::PlannerInput{to, wide, cluster, lost, {}},
          plan::PlannerInput{from, wide, cluster, {}, {.memory_cap = 64}},
          plan::PlannerInput{wide, from, cluster, {}, {.in_place = false}}}) {
      const auto plan = plan::make_plan(input);
      if (plan.ok()) made.push_back(plan::serialize(*plan));
    }
    SCALAI_CHECK(made.size() > 2);
    return made;
  }();
  return seeds[static_cast<size_t>(random.below(std::ssize(seeds)))];
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view plan, Random& random) {
    proto::Plan message;
    return fuzz::mutate_bytes(plan, seed_plan(random), message, random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try_plan(bytes);
  const std::string problem = message_of(plan::parse_plan(bytes).status());
  const std::string mark = "its content has ";
  const size_t at = problem.find(mark);
  proto::Plan message;
  if (at == std::string::npos || !message.ParseFromString(bytes)) return 0;
  message.set_digest(problem.substr(at + mark.size()));
  try_plan(message.SerializeAsString());
  return 0;
}
