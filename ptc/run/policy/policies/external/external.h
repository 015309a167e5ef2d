#pragma once
// A policy that is a program: `policy { exec: "python3 my_policy.py" }`. It reads its view as one line of JSON and
// answers with one line; docs/policy-protocol.md documents both. Each answer is checked. An answer that breaks a rule,
// a late answer and an ended program are errors (Aborted, exit code 5) that show the line. One thread.
//
// Equal answers give equal runs: the program should be a function of its input.

#include <cstdint>
#include <memory>
#include <string>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct ExternalProgram {
  std::string command;    // for `sh -c`
  std::string folder;     // its working directory; "" = ours
  double timeout_s = 10;  // for one answer, the first included
  uint64_t seed = 0;      // passed to the program
};

// begin() starts the program; the destructor ends it.
std::unique_ptr<Policy> make_external_policy(ExternalProgram program);

}  // namespace scalai::policy
