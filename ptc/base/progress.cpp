#include "ptc/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr const char* kWipe = "\r\033[K";
constexpr std::chrono::milliseconds kPeriod{100};

// A line that wraps could not be wiped, so the last column stays free.
size_t columns_usable() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && drawn_ != std::chrono::steady_clock::time_point{}) std::fputs(kWipe, stderr);
}

void Progress::update(double fraction, std::string_view detail) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kPeriod) return;
  drawn_ = now;
  const double percent = 100 * std::clamp(fraction, 0.0, 1.0);
  const std::string line = fmt::format("{} {:3.0f} %  {}", what_, percent, detail);
  std::fputs((kWipe + clipped(line, columns_usable())).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace scalai
