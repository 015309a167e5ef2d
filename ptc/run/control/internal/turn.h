#pragma once
// The event at hand while the control loop answers it. Whoever acts on a job reads the time here and adds commands.

#include <cstddef>
#include <string>
#include <vector>

#include "ptc/run/control/events.h"

namespace scalai::control {

struct Turn {
  double now_s = 0;
  std::vector<double> usd_per_h;  // of each device, by its number; empty = no host has a price
  size_t logged = 0;              // events in the log, this one and a program's answers to it included; 1 = Started
  std::vector<Command> commands;  // the answer so far
  std::string freed_by;           // a job that has left devices during this event; "" = none
};

}  // namespace scalai::control
