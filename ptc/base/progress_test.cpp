#include "ptc/base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

namespace scalai {
namespace {

// Stderr turned into a terminal of 30 columns; drawn() is what was written to it.
class Terminal {
 public:
  Terminal() : controller_(::posix_openpt(O_RDWR | O_NOCTTY)), saved_stderr_(::dup(STDERR_FILENO)) {
    ::grantpt(controller_);
    ::unlockpt(controller_);
    const int screen = ::open(::ptsname(controller_), O_RDWR | O_NOCTTY);
    const winsize size{24, 30, 0, 0};
    ::ioctl(screen, TIOCSWINSZ, &size);
    ::dup2(screen, STDERR_FILENO);
    ::close(screen);
    ::fcntl(controller_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::dup2(saved_stderr_, STDERR_FILENO);
    ::close(saved_stderr_);
    ::close(controller_);
  }
  std::string drawn() const {
    char buffer[1024];
    const ssize_t n = ::read(controller_, buffer, sizeof buffer);
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
  }

 private:
  int controller_;
  int saved_stderr_;
};

TEST(Progress, DrawsOneLineAndWipesIt) {
  const Terminal terminal;
  {
    Progress progress("planning");
    progress.update(0.425, "3 of 7");
    EXPECT_EQ(terminal.drawn(), "\r\033[Kplanning  42 %  3 of 7");
  }
  EXPECT_EQ(terminal.drawn(), "\r\033[K");
}

TEST(Progress, ClipsToTheTerminalAndTheRange) {
  const Terminal terminal;
  Progress progress("planning");
  progress.update(7, "a detail that is far too long");
  EXPECT_EQ(terminal.drawn(), "\r\033[Kplanning 100 %  a detail tha…");
}

TEST(Progress, SaysHowLongTheRestTakesOnceThePaceIsKnown) {
  EXPECT_EQ(progress_line("planning", 0.25, "1 of 4", 1.9), "planning  25 %  1 of 4");
  EXPECT_EQ(progress_line("planning", 0.25, "1 of 4", 2), "planning  25 %  6 s left  1 of 4");
  EXPECT_EQ(progress_line("planning", 0.01, "x", 60), "planning   1 %  1 h 39 min left  x");
  EXPECT_EQ(progress_line("planning", 0, "x", 60), "planning   0 %  x");
  EXPECT_EQ(progress_line("planning", 1, "x", 60), "planning 100 %  x");
}

TEST(Progress, IsSilentWhereTheUserWantsQuiet) {
  ::setenv("SCALAI_QUIET", "1", 1);
  const Terminal terminal;
  {
    Progress progress("planning");
    progress.update(0.5, "x");
  }
  ::unsetenv("SCALAI_QUIET");
  EXPECT_EQ(terminal.drawn(), "");
}

TEST(Progress, DrawsNothingWhenNeverUpdated) {
  const Terminal terminal;
  { const Progress progress("planning"); }
  EXPECT_EQ(terminal.drawn(), "");
}

TEST(Progress, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("planning");
    progress.update(0.5, "x");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace scalai
