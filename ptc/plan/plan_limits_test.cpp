// Plans that somebody made by hand: every number of a valid plan becomes an extreme one, and the digest is right.
// Either the plan is refused, or whatever a program does with it is harmless. UndefinedBehaviorSanitizer sees overflows
// here.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ptc/base/testing/share.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/plan.pb.h"

namespace scalai::plan {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A plan with every class of operation, several rounds, frees and a scalar.
Plan real_plan() {
  Case job{.from = grid_collection({2, 2, 2}, first_devices(8)), .to = grid_collection({4, 1, 2}, first_devices(8, 2))};
  job.residency.lost = {DeviceId(5)};
  job.residency.extra = {{TensorId(0), tensor::Box({0, 0}, {19, 2}), HostId(0)}};
  job.residency.storage = true;
  return job.plan();
}

// Calls visit(message, field, index) for every number; index −1 for a field that is no list.
template <class Visit>
void for_each_number(Message& message, const Visit& visit) {
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const bool number =
        field->cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : -1;
    if (number && count < 0) visit(message, field, -1);
    for (int k = 0; number && k < count; ++k) visit(message, field, k);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (count < 0) for_each_number(*reflection.MutableMessage(&message, field), visit);
    for (int k = 0; k < count; ++k) for_each_number(*reflection.MutableRepeatedMessage(&message, field, k), visit);
  }
}

int64_t value_of(const Message& message, const FieldDescriptor* field, int index) {
  const auto& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    return index < 0 ? reflection.GetInt32(message, field) : reflection.GetRepeatedInt32(message, field, index);
  }
  return index < 0 ? reflection.GetInt64(message, field) : reflection.GetRepeatedInt64(message, field, index);
}

void set_value(Message& message, const FieldDescriptor* field, int index, int64_t value) {
  const auto& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    const auto small = static_cast<int32_t>(
        std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
    return index < 0 ? reflection.SetInt32(&message, field, small)
                     : reflection.SetRepeatedInt32(&message, field, index, small);
  }
  return index < 0 ? reflection.SetInt64(&message, field, value)
                   : reflection.SetRepeatedInt64(&message, field, index, value);
}

// With the digest that its content asks for: parse_plan() itself says which.
absl::StatusOr<Plan> parse_undamaged(proto::Plan message) {
  const absl::StatusOr<Plan> first = parse_plan(message.SerializeAsString());
  const std::string problem = message_of(first.status());
  const std::string mark = "its content has ";
  const size_t at = problem.find(mark);
  if (at == std::string::npos) return first;
  message.set_digest(problem.substr(at + mark.size()));
  return parse_plan(message.SerializeAsString());
}

// What workers, simulators and `scalai plan show` do.
void use(const Plan& plan) {
  int64_t bytes = 0;
  plan.for_each_operation([&](const Operation& operation) { bytes += operation.bytes; });
  const Lowering lowering(plan);
  for (const DeviceId device : plan.dst_devices()) {
    for (const ProgramStep& step : lowering.program(device)) bytes += step.bytes;
  }
  for (const DeviceMemory& memory : plan.memory()) bytes += std::max(memory.before, memory.after) + memory.peak_extra;
  bytes = plan.bytes().kept + plan.bytes().same_device + plan.bytes().derived + plan.bytes().moved() +
          plan.bytes().from_storage;
  bytes = plan.lower_bound().moved() + plan.from_epoch() + 1 + plan.to_epoch() + 1;
  (void)bytes;
  (void)serialize(plan);
  EXPECT_LE(device_traffic(plan).size(), plan.src_devices().size() + plan.dst_devices().size());
  EXPECT_GE(most_allocated_bytes(plan), 0);
  std::vector<int64_t> of_round(static_cast<size_t>(plan.rounds()));  // as estimate.h and ptc/cost/change keep it
  for (const Instance& instance : plan.instances()) ++of_round.at(static_cast<size_t>(instance.round));
}

TEST(PlanLimits, ExtremeNumbersAreRefusedOrHarmless) {
  proto::Plan message;
  ASSERT_TRUE(message.ParseFromString(serialize(real_plan())));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> extremes = {kMost,
                                         kMost - 1,
                                         kMost / 2,
                                         kMost / 8,
                                         int64_t{1} << 40,
                                         int64_t{1} << 31,
                                         (int64_t{1} << 31) - 1,
                                         1 << 20,
                                         kLeast,
                                         kLeast + 1,
                                         -(int64_t{1} << 31),
                                         -2,
                                         -1,
                                         0};
  int refused = 0, harmless = 0;
  size_t cases = 0;
  for_each_number(message, [&](Message& part, const FieldDescriptor* field, int index) {
    const int64_t before = value_of(part, field, index);
    for (const int64_t value : extremes) {
      if (!in_share(cases++, 3)) continue;  // of another number another extreme
      set_value(part, field, index, value);
      const absl::StatusOr<Plan> plan = parse_undamaged(message);
      SCOPED_TRACE(field->full_name() + "[" + std::to_string(index) + "] = " + std::to_string(value));
      if (plan.ok()) {
        ++harmless;
        use(*plan);
      } else {
        ++refused;
        EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
      }
    }
    set_value(part, field, index, before);
  });
  EXPECT_GT(refused, 400);
  EXPECT_GT(harmless, 30);  // 0, or a device that is there
}

}  // namespace
}  // namespace scalai::plan
