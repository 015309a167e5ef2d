#include "ptc/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ptc/base/screen.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr const char* kWipe = "\r\033[K";
constexpr std::chrono::milliseconds kPeriod{100};
constexpr double kSilentSeconds = 2;  // the pace of less says little

// A line that wraps could not be wiped, so the last column stays free.
size_t columns_usable() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), drawn_on_(::isatty(STDERR_FILENO) == 1 && !quiet()) {}

Progress::~Progress() {
  if (drawn_on_ && drawn_ != std::chrono::steady_clock::time_point{}) std::fputs(kWipe, stderr);
}

void Progress::update(double fraction, std::string_view detail) {
  if (!drawn_on_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kPeriod) return;
  drawn_ = now;
  const double elapsed_s = std::chrono::duration<double>(now - started_).count();
  const std::string line = progress_line(what_, fraction, detail, elapsed_s);
  std::fputs((kWipe + clipped(line, columns_usable())).c_str(), stderr);
  std::fflush(stderr);
}

std::string progress_line(std::string_view what, double fraction, std::string_view detail, double elapsed_s) {
  const double part = std::clamp(fraction, 0.0, 1.0);
  std::string left;
  if (elapsed_s >= kSilentSeconds && part > 0 && part < 1) {
    const double left_s = std::ceil(elapsed_s * (1 - part) / part);
    left = (left_s < 600 ? fmt::format("{:.0f} s", left_s) : format_seconds(left_s)) + " left  ";
  }
  return fmt::format("{} {:3.0f} %  {}{}", what, 100 * part, left, detail);
}

}  // namespace scalai
