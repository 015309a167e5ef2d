#pragma once
// Calls into a library whose assertions would end the process: Debian builds CLP with them, and some fail on programs
// that another algorithm solves. Only assertions are survived: whatever else calls abort(), such as a heap that is
// damaged, ends the process as ever. Needs the linker to let this program's __assert_fail stand before the C library's,
// as it does for executables.

#include <functional>

namespace scalai::policy::internal {

// False: an assertion failed during the call, on this thread. What the call had on the stack and the heap is lost then,
// not freed, so let it change nothing that is used afterwards. Calls are not nested. Throws what `call` throws.
bool survives_assertions(const std::function<void()>& call);

}  // namespace scalai::policy::internal
