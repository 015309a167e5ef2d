#pragma once
// What a seed chooses for one run: its kind, the fault, and when. Values; any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalai::chaos {

enum class Fault {
  kWorker,      // SIGKILL
  kController,  // SIGKILL, then another one goes on
  kBoth,
  kStop,      // SIGSTOP of one process for some seconds, which its peers may count as its death
  kLongStop,  // for up to 20 s
  kFullDisk,  // the run's folder is full for some seconds
  kClock,     // the date jumps by up to a day, forward or back
  kCut,       // one host is cut off the others for up to 20 s (hosts as network namespaces)
  kLoss,      // one packet in twenty is lost from then on (hosts as network namespaces)
};
inline constexpr int kFaults = 9;
std::string_view name_of(Fault fault);

enum class Way { kSegments, kUcx, kNccl, kNetwork };

// What this machine and the command line allow.
struct Allowed {
  std::vector<Way> ways = {Way::kSegments};
  std::vector<Fault> faults;
  bool tls = false, state = false;
  uint64_t within_ms = 3000;  // of the start: the fault
};

struct Choice {
  Way way = Way::kSegments;
  bool capped = false;
  bool redundant = false;
  bool reads = false;     // a dataset
  bool stateful = false;  // begins with a real state
  bool planned = false;   // a policy in the loop …
  bool program = false;   // … which is a program of its own
  bool tls = false;
  bool doubled = false;    // another controller is started beside
  bool elsewhere = false;  // resumed from another working folder, under a relative name
  Fault fault = Fault::kWorker;
  bool early = false;  // the delay begins with the process, not with the first events
  double delay_s = 0;
  double pause_s = 0;                           // how long something is stopped or full, or until it is resumed
  int64_t jump_s = 0;                           // of the date
  uint64_t victim = 0;                          // which process
  std::vector<std::string_view> kinds() const;  // as in tables: "UCX", "a memory cap", …
  std::string str() const;
};

Choice choose(uint64_t seed, const Allowed& allowed);

}  // namespace scalai::chaos
