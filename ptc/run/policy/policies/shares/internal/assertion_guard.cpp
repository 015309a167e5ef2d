#include "ptc/run/policy/policies/shares/internal/assertion_guard.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

namespace scalai::policy::internal {
namespace {

thread_local jmp_buf* way_out = nullptr;  // of this thread's call

// Also when `call` throws.
struct WayOut {
  explicit WayOut(jmp_buf& buffer) { way_out = &buffer; }
  ~WayOut() { way_out = nullptr; }
};

// In a function of its own, where no variable lives across the jump.
bool run(const std::function<void()>& call, jmp_buf& buffer) {
  if (setjmp(buffer) != 0) return false;
  call();
  return true;
}

}  // namespace

bool survives_assertions(const std::function<void()>& call) {
  jmp_buf buffer;
  const WayOut way(buffer);
  return run(call, buffer);
}

}  // namespace scalai::policy::internal

// What assert() calls, in the place of the C library's.
extern "C" void __assert_fail(const char* what, const char* file, unsigned line, const char* function) noexcept {
  if (jmp_buf* const buffer = scalai::policy::internal::way_out) ::longjmp(*buffer, 1);
  ::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, what);
  ::abort();
}
