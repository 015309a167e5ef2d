// Any bytes as an answer of a policy program: reading may refuse them but must not crash or hang, and a decision that it
// accepts names jobs that are there.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "ptc/base/status.h"
#include "ptc/sched/policies/external/external_view.h"
#include "ptc/sched/policies/external/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace scalai;
  static const auto* const view = [] {
    auto* made = new sched::testing::PaperView;
    made->add("a", 2, 100);
    made->add("b", 4, 50, 10);
    return made;
  }();
  static const std::map<std::string, sched::JobId> jobs = {{"a", sched::JobId(0)}, {"b", sched::JobId(1)}};
  const std::string answer(reinterpret_cast<const char*>(data), size);
  const absl::Status hello = sched::check_hello(answer);
  SCALAI_CHECK(hello.ok() || !message_of(hello).empty());
  const auto decision = sched::read_decision(answer, *view, jobs);
  if (!decision.ok()) {
    SCALAI_CHECK(!message_of(decision.status()).empty());
    return 0;
  }
  for (const sched::Grant& grant : decision->grants) SCALAI_CHECK(grant.job.value < 2 && grant.gpus <= 4);
  return 0;
}
