// Any bytes as a plan file, as they are and again with the digest made to fit: parsing may refuse them but must not crash,
// hang or accept what overflows where a plan is lowered, or what is not the same when it is written and read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/plan.pb.h"

namespace {

using namespace scalai;

void use(const plan::Plan& plan) {
  constexpr size_t kMostInstances = 1000;
  constexpr int64_t kMostDevice = 1000;
  for (const auto* side : {&plan.src_devices, &plan.dst_devices}) {
    for (const DeviceId device : *side) {
      if (device.value > kMostDevice) return;
    }
  }
  if (plan.instances.size() > kMostInstances) return;
  const plan::Lowering lowering(plan);
  int64_t bytes = 0;
  for (const DeviceId device : plan.dst_devices) {
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
  SCALAI_CHECK(again.ok() && again->digest == plan->digest, "a plan changed when written and read");
  use(*plan);
}

}  // namespace

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
