#pragma once
// Events as lines of events.csv, and back: the journal of an executed run and the log of a report hold them. Numbers
// are in their shortest exact form, so that an event read back equals the one written.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/control/events.h"

namespace scalai::control {

// One event as a line of events.csv, without its end, and such lines back into events.
std::string event_line(const Event& event);
absl::StatusOr<std::vector<Event>> parse_event_lines(const std::vector<std::string>& lines);
// events.csv back into events.
absl::StatusOr<std::vector<Event>> parse_events(const std::string& csv);
// All of events.csv, with its header.
std::string events_csv(const std::vector<Event>& events);
// Any text as DevicesLost::cause: printable, without separators and quotes, at most 500 characters.
std::string as_cell(std::string_view text);

}  // namespace scalai::control
