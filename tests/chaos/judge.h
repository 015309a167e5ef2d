#pragma once
// Reads what a run has left, without its controller's opinion. Any thread.

#include <string>

namespace scalai::chaos {

// The problem with a finished run's folder; "" = none:
//   summary     no job has failed, datasets were read exactly once, no job is behind its last checkpoint
//   journal     epochs of committed changes rise, job by job
//   checkpoint  the last one of each job: every checksum, and, if it is `emulated`, every byte of every box: the closed
//               form of its step, or, of a tensor of `state`, what is there
//   folder      no temporary file
// `state`: the checkpoint that the job began with; "" = none.
std::string judge(const std::string& folder, const std::string& state, bool emulated = true);

}  // namespace scalai::chaos
