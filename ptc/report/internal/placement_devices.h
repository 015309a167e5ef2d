#pragma once
// Which GPUs of a host a job has. The engine counts GPUs of hosts; here they get numbers: a job keeps its own on a host
// while it stays there, a new one takes the lowest that are free. Pure function.

#include <string>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"

namespace scalai::report {

// A job on hosts for a while. `placement` outlives the call.
struct Seats {
  double from_s = 0, to_s = 0;
  policy::JobId job;
  const policy::Placement* placement = nullptr;
  bool given = false;    // it got these GPUs at from_s; false: it goes on with them
  policy::JobId beside;  // it got those of this job, which both use
};

// The devices of each: "h2:0-1+3 h3:4"; "" without GPUs. No device is given twice at a time, except to a job beside
// another, and where `seats` lack rows of a run: then the least used are taken.
std::vector<std::string> devices_of(const policy::Fleet& fleet, const std::vector<Seats>& seats);

}  // namespace scalai::report
