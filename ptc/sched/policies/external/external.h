#pragma once
// A policy that is a program: `policy { exec: "python3 my_policy.py" }`. It is told what a policy may see as one line of JSON and
// answers with one; README.md documents both. The program decides, we check: an answer that breaks a rule, one that does not
// come in time and a program that ends are errors (exit code 5) that show the line.
//
// Same answers, same run: the program should be a function of what it reads.

#include <cstdint>
#include <memory>
#include <string>

#include "ptc/sched/policy.h"

namespace scalai::sched {

struct ExternalProgram {
  std::string command;    // for `sh -c`
  std::string folder;     // where it runs; "" = here
  double timeout_s = 10;  // for one answer, the first included
  uint64_t seed = 0;      // told to it
};

// The program starts with begin() and ends with the object.
std::unique_ptr<Policy> make_external_policy(ExternalProgram program);

}  // namespace scalai::sched
