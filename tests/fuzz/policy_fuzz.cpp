// Any bytes or changed answers as an answer of a policy program: reading may refuse them but must not crash or hang,
// and a decision that it accepts names jobs that are there.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/answer.h"
#include "ptc/run/policy/policies/external/protocol.h"
#include "ptc/run/policy/policies/external/testing/external_view.h"
#include "tests/fuzz/mutate.h"

namespace {

constexpr std::array<const char*, 5> kSeeds = {
    R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":1,"gpus":2}]},{"job":"b","gpus":0}],"wake_at_s":160})",
    R"({"grants":[{"job":"b","type":"p100","gpus":4},{"job":"a","type":"k80","gpus":2}],"refused":["a"]})",
    R"({"grants":[{"job":"a","type":"v100","gpus":2},{"job":"b","type":"v100","gpus":4,"beside":"a"}]})",
    R"({"ask":"rates","of":[{"job":"a","type":"v100","gpus":2},{"job":"b","hosts":[{"host":0,"gpus":1}]}]})",
    R"({"ask":"change_costs","of":[{"job":"a","gpus":2}]})"};
constexpr const char* kHello = R"({"scalai_policy":1,"name":"p","delta":true,"past":false,"curves":true})";

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return scalai::fuzz::mutate_input(data, size, max_size, seed, [](std::string_view text, scalai::Random& random) {
    const char* of = random.below(8) == 0 ? kHello : kSeeds.at(static_cast<size_t>(random.below(5)));
    return scalai::fuzz::mutate_json(text, of, random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace scalai;
  static const auto* const view = [] {
    auto* made = new policy::testing::PaperView;
    made->add("a", 2, 100);
    made->add("b", 4, 50, 10);
    return made;
  }();
  static const policy::Known* const known = [] {
    auto* made = new policy::Known;
    made->update(*view, {});
    return made;
  }();
  const std::string answer(reinterpret_cast<const char*>(data), size);
  const auto hello = policy::check_hello(answer);
  SCALAI_CHECK(hello.ok() || !message_of(hello.status()).empty());
  const auto read = policy::read_answer(answer, *view, *known);
  if (!read.ok()) {
    SCALAI_CHECK(!message_of(read.status()).empty());
    return 0;
  }
  const auto* decision = std::get_if<policy::Decision>(&*read);
  if (decision == nullptr) return 0;  // it asks
  for (const policy::Grant& grant : decision->grants) SCALAI_CHECK(grant.job.value < 2 && grant.gpus <= 4);
  return 0;
}
