#include "ptc/base/screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "ptc/base/units.h"

namespace scalai {
namespace {

constexpr size_t kPipeColumns = 80;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) { return !variable(name).empty(); }

size_t columns_of_stdout() {
  if (is_set("SCALAI_WIDE")) return 0;
  const auto given = parse_count(std::string(variable("COLUMNS")));
  if (given.ok() && *given > 0) return static_cast<size_t>(*given);
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kPipeColumns;
}

bool stdout_has_colour() {
  if (is_set("CLICOLOR_FORCE") && variable("CLICOLOR_FORCE") != "0") return true;
  if (is_set("NO_COLOR") || variable("TERM") == "dumb") return false;
  return ::isatty(STDOUT_FILENO) == 1;
}

}  // namespace

Screen stdout_screen() { return {.columns = columns_of_stdout(), .colour = stdout_has_colour()}; }

bool quiet() { return is_set("SCALAI_QUIET"); }
bool verbose() { return is_set("SCALAI_VERBOSE"); }

std::string styled(const Screen& screen, Style style, const std::string& text) {
  if (!screen.colour || text.empty()) return text;
  return fmt::format("\033[{}m{}\033[0m", style == Style::kBold ? 1 : 2, text);
}

std::string for_terminal(std::string_view text) {
  constexpr std::string_view kOwn[] = {"\033[0m", "\033[1m", "\033[2m"};
  std::string shown;
  while (!text.empty()) {
    const size_t at = std::min(text.find('\033'), text.size());
    shown += escaped(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) break;
    const auto* const own =
        std::find_if(std::begin(kOwn), std::end(kOwn), [&](std::string_view one) { return text.starts_with(one); });
    const size_t length = own == std::end(kOwn) ? 1 : own->size();
    shown += own == std::end(kOwn) ? escaped(text.substr(0, 1)) : std::string(*own);
    text.remove_prefix(length);
  }
  return shown;
}

}  // namespace scalai
