// Any bytes as an answer of a policy program: reading may refuse them but must not crash or hang, and a decision that it
// accepts names jobs that are there.

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "ptc/base/status.h"
#include "ptc/sched/policies/external/answer.h"
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
  static const sched::Known* const known = [] {
    auto* made = new sched::Known;
    made->update(*view, {});
    return made;
  }();
  const std::string answer(reinterpret_cast<const char*>(data), size);
  const auto hello = sched::check_hello(answer);
  SCALAI_CHECK(hello.ok() || !message_of(hello.status()).empty());
  const auto read = sched::read_answer(answer, *view, *known);
  if (!read.ok()) {
    SCALAI_CHECK(!message_of(read.status()).empty());
    return 0;
  }
  const auto* decision = std::get_if<sched::Decision>(&*read);
  if (decision == nullptr) return 0;  // it asks
  for (const sched::Grant& grant : decision->grants) SCALAI_CHECK(grant.job.value < 2 && grant.gpus <= 4);
  return 0;
}
