#include "ptc/sched/policies/shares/internal/abort_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <mutex>

namespace scalai::sched::internal {
namespace {

thread_local sigjmp_buf* way_out = nullptr;  // of this thread's call

struct sigaction before;

// Nothing where no call is to be left.
void jump_out() {
  if (way_out != nullptr) ::siglongjmp(*way_out, 1);
}

void leave(int signal) {
  jump_out();
  // Somebody else's: as if this handler were not there.
  ::sigaction(signal, &before, nullptr);
  ::raise(signal);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = leave;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGABRT, &action, &before);
  });
}

// Outside of survives_abort(), where no variable lives across the jump.
bool run(const std::function<void()>& call, sigjmp_buf& buffer) {
  if (sigsetjmp(buffer, /*savemask=*/1) != 0) return false;
  call();
  return true;
}

// Also when `call` throws.
struct WayOut {
  explicit WayOut(sigjmp_buf& buffer) { way_out = &buffer; }
  ~WayOut() { way_out = nullptr; }
};

}  // namespace

bool survives_abort(const std::function<void()>& call) {
  install();
  sigjmp_buf buffer;
  const WayOut way(buffer);
  return run(call, buffer);
}

}  // namespace scalai::sched::internal

// What assert() calls, in the place of the C library's where the linker lets us: a failed assertion that is survived is told by
// whoever made the call, not by a line that looks as if the program had ended.
extern "C" void __assert_fail(const char* what, const char* file,
                              unsigned line,  // NOLINT(bugprone-reserved-identifier)
                              const char* function) noexcept {
  scalai::sched::internal::jump_out();
  ::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, what);
  ::abort();
}
