#include "apps/common/problems.h"

#include <fmt/format.h>

#include <cstdio>
#include <sstream>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/state/collection/id_list.h"

namespace scalai::apps {

void Problems::add(int code, const std::string& text) {
  text_ += fmt::format("scalai {}: error: {}\n", command_, text);
  note(code);
}

void Problems::note(int code) {
  if (code_ == 0 || code == kMalformed) code_ = code;
}

void Problems::status(const std::string& prefix, const absl::Status& status) {
  std::istringstream lines(message_of(status));
  for (std::string line; std::getline(lines, line);) add(exit_code_of(status), prefix + line);
}

void Problems::file(const absl::Status& status) {
  if (message_of(status).find('\n') == std::string::npos) return this->status("", status);
  text_ += message_of(status);
  note(exit_code_of(status));
}

std::optional<std::vector<int>> Problems::ids(const Arguments& arguments, const std::string& option) {
  if (!arguments.has(option)) return std::nullopt;
  std::vector<int> ids;
  const auto problem = collection::parse_id_list(arguments.text(option), ids);
  if (!problem) return ids;
  malformed(fmt::format("--{}: at character {}: {}{}{}", option, problem->position, problem->message,
                        problem->hint.empty() ? "" : "; ", problem->hint));
  return std::nullopt;
}

int Problems::report() const {
  say("{}", text_);
  if (code_ == kMalformed) say("Try 'scalai {} --help'.\n", command_);
  return code_;
}

}  // namespace scalai::apps
