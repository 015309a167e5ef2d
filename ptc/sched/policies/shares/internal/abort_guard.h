#pragma once
// Calls into a library that may end the process: Debian builds CLP with its assertions, and some of them fail on programs that
// another algorithm solves. POSIX lets a handler of SIGABRT leave by siglongjmp; then abort() has ended the call only.

#include <functional>

namespace scalai::sched::internal {

// False: the call ended in abort(). What it had on the stack and the heap is lost then, not freed, so let it change nothing that
// is used afterwards. abort() of other threads, or outside of such calls, ends the process as ever. May throw what `call` throws.
bool survives_abort(const std::function<void()>& call);

}  // namespace scalai::sched::internal
