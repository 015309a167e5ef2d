#pragma once
// Optimus as the simulator of Pollux has it (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/optimus.py):
// with more jobs than GPUs, those that came first have one.

#include <memory>

#include "labs/policies/optimus.h"

namespace scalai::policy::validation {

inline std::unique_ptr<Policy> make_optimus_by_arrival() {
  return labs::make_optimus([](const order::Claim&) { return 0.0; });
}

}  // namespace scalai::policy::validation
