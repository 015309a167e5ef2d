#pragma once
// A small program with one option of each type, for the tests of the command line.

#include <cstdio>
#include <string>

#include "ptc/base/command.h"

namespace scalai {

inline CommandSpec validate_spec() {
  CommandSpec spec;
  spec.name = "validate";
  spec.summary = "Check a scenario.";
  spec.usage = "toy validate FILE…";
  spec.description =
      "Reads each FILE and prints every problem it finds, with the place, so that one run is enough to "
      "repair it.\n\n  a | b\n\nLast.";
  spec.options = {{"format", ValueType::kChoice, "FORMAT", "How to print.", "table", {"table", "json", "csv"}},
                  {"strict", ValueType::kFlag, "", "Take warnings for errors.", "", {}},
                  {"seed", ValueType::kCount, "", "Seed of every random draw.", "7", {}},
                  {"memory", ValueType::kBytes, "", "Memory of a device.", "", {}},
                  {"deadline", ValueType::kSeconds, "", "Longest run in wall-clock time.", "90s", {}},
                  {"only", ValueType::kList, "", "Checks to run.", "", {"shape", "memory"}},
                  {"tags", ValueType::kList, "", "Free words.", "", {}},
                  {"write-a-very-long-report", ValueType::kText, "FILE", "Where to write.", "", {}}};
  spec.examples = {"toy validate a.textproto"};
  spec.min_arguments = 1;
  spec.max_arguments = 2;
  return spec;
}

// `toy validate` prints the format and its first argument; --strict makes it return 1.
inline Program toy() {
  Program program;
  program.name = "toy";
  program.summary = "Plays with scenarios.";
  program.commands = {{validate_spec(), [](const Arguments& arguments) {
                         const std::string line = arguments.text("format") + " " + arguments.positional()[0] + "\n";
                         std::fputs(line.c_str(), stdout);
                         return arguments.flag("strict") ? 1 : 0;
                       }}};
  program.external = {{"sim", "Simulate a scenario."}};
  return program;
}

inline Program single_toy() {
  Program program = toy();
  program.name = "toy-validate";
  program.external.clear();
  program.single = true;
  return program;
}

}  // namespace scalai
