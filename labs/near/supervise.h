#pragma once
// Work in a child process, and what a signal leaves of it: nothing.
//
//   signal ─► this process ─► the work, killed ─► what it started: commands and mounts are told to end, workers see the
//   end of
//                             their input ─► all of them have ended ─► the caller removes its folder, and ends by the
//                             signal
//
// One thread, the only one of its process.

#include <functional>

namespace scalai::near {

struct WorkEnd {
  int code = 0;
  int signal = 0;  // that ended the work, or this process on its way; 0: it ended by itself
};

// Returns in both processes: in the child with the code of `work`, here when the work and all that it started have
// ended. SIGINT, SIGTERM and SIGHUP, unless they are ignored, end the work; a second one kills the rest. The work dies
// with this process.
WorkEnd supervise(const std::function<int()>& work);

// Ends this process as the work ended: by its signal, if one did; else returns its code.
int end_as(const WorkEnd& end);

}  // namespace scalai::near
