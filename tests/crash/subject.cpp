#include "tests/crash/subject.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "ptc/base/status.h"
#include "tests/crash/record_format.h"

namespace scalai::crash {

void mark(const std::string& text) {
  static const auto function = reinterpret_cast<void (*)(const char*)>(::dlsym(RTLD_DEFAULT, kMarkFunction));
  if (function != nullptr) function(text.c_str());
}

absl::Status in_process(const std::function<absl::Status()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const absl::Status status = work();
    if (!status.ok()) fmt::print(stderr, "{}\n", message_of(status));
    ::_exit(status.ok() ? 0 : 1);
  }
  int code = 0;
  while (::waitpid(child, &code, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(code) && WEXITSTATUS(code) == 0 ? absl::OkStatus() : failed("the process failed");
}

Progress progress_of(std::span<const std::string> marks) {
  Progress progress;
  for (const std::string& text : marks) {
    progress.begun += text == "begin" ? 1 : 0;
    progress.ended += text == "end" ? 1 : 0;
  }
  return progress;
}

}  // namespace scalai::crash
