#pragma once
// What a seed chooses for one run: its kind, the fault, and when. Values; any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalai::chaos {

enum class Fault {
  kWorker,      // SIGKILL; of real training also of a training process
  kController,  // SIGKILL, then another one goes on
  kBoth,
  kStop,         // SIGSTOP of one process for some seconds, which its peers may count as its death
  kLongStop,     // for up to 20 s
  kSlow,         // one process has a tenth of its time
  kInterrupts,   // all are stopped and continued many times a second
  kFullDisk,     // the run's folder has no space, or no inodes, for a second
  kDescriptors,  // one process gets no more descriptors for some seconds
  kAddresses,    // no more address space
  kMemory,       // no more memory: the kernel kills it (control groups)
  kClock,        // the date jumps by up to a day, forward or back, and then once more
  kStrangers,    // somebody talks noise to every port
  kReaders,      // receivers of the job's weights (`scalai sync`) and readers of its state (`scalai fs`) are killed
  kCut,          // one host is cut off the others for up to 20 s (hosts as network namespaces)
  kPart,         // half of the hosts are, from the controller and the other half
  kLoss,         // one packet in twenty is lost from then on
};
inline constexpr int kFaults = 17;
std::string_view name_of(Fault fault);

enum class Way { kSegments, kUcx, kNccl, kNetwork };

// What this machine and the command line allow.
struct Allowed {
  std::vector<Way> ways = {Way::kSegments};
  std::vector<Fault> faults;
  bool tls = false, state = false, training = false;
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
  bool trains = false;     // a real training in PyTorch
  bool again = false;      // afterwards another run in the same folder, without a fault
  Fault fault = Fault::kWorker;
  bool early = false;  // the delay begins with the process, not with the first events
  double delay_s = 0;
  double pause_s = 0;                           // how long the trouble lasts, or until the run is resumed
  int64_t jump_s = 0;                           // of the date
  uint64_t victim = 0;                          // which process
  std::vector<std::string_view> kinds() const;  // as in tables: "UCX", "a memory cap", …
  std::string str() const;
};

Choice choose(uint64_t seed, const Allowed& allowed);

}  // namespace scalai::chaos
