#pragma once
// Trainers: the user's training processes of one job on one host, one a device. The worker owns the state; trainers map
// it and train in place (python/scalai/_job.py is their side).
//
//   worker                                        trainer, a process of the user's program
//     start(devices) ── environment, descriptor 3 ──►   attach: says its device, so its imports are done
//     tell(orders) ───── {"do": "layout", …} ───►   builds the model, maps its tensors      ── {"done": "layout"} ──►
//                  ───── {"do": "train", …} ────►   steps until there, word by word          ── {"read": …} ─────────►
//                                                                                              ── {"done": "train"}
//                                                                                              ───►
//                  ───── {"do": "leave"} ───────►   ends with code 0
//
// Both ways a message is a line of JSON. Its way is a pair of connected Unix sockets without a name: the trainer
// inherits one end as descriptor SpawnOptions::kPassed, so nobody else can take a trainer's or a worker's place. Memory
// goes to a trainer as descriptors, never as paths. A note ({"read": …}) answers no order; it outlives the trainer that
// sent it.
//
// Trainers and all that they start die with this process, however it ends (GuardedGroup).
//
// Words. Each trainer has a 64-bit word in a page of shared memory, which it alone writes: 2·s while the state in its
// memory is whole and of step s; 2·s + 1 from the first to the last byte that the optimizer rewrites on the way to step
// s + 1. The words outlive the trainers. So a word that is odd when its trainer is gone says that the memory is torn.
//
// One thread.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/rpc/process.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/ids.h"

namespace scalai::executor::trainers {

// How a job's trainers are started; equal on all hosts.
struct TrainerProgram {
  std::string command;     // a program with its arguments, as /bin/sh reads them; variables may stand before it
  std::string folder;      // its working directory
  std::string logs;        // folder of log files: FOLDER/g3.log
  double patience_s = 10;  // from the failure of one to that of those who wait for it
  std::string interface;   // of the network where trainers of several hosts meet, for Gloo; empty: it chooses
  friend bool operator==(const TrainerProgram&, const TrainerProgram&) = default;
};

class Trainers {
 public:
  static constexpr size_t kMostDescriptors = 250;  // the kernel sends 253 at a time
  struct Order {
    DeviceId device;
    std::string what;  // JSON: {"do": …}; empty: it has to attach, no more
    // Go with it, for an order that has as many "parts"; at most kMostDescriptors. The caller closes them after tell().
    std::vector<int> descriptors = {};
  };
  // Of one order: the trainer's answer, or why there is none.
  struct Answer {
    DeviceId device;
    std::string said;   // JSON: {"done": …}; empty where the trainer ended
    std::string ended;  // "exit code 1, see out/trainers/g3.log"; empty: it lives
  };
  struct Word {
    int64_t step = 0;
    bool torn = false;
  };

  // Error: Unavailable (no process, no shared memory).
  static absl::StatusOr<std::unique_ptr<Trainers>> create(TrainerProgram program);
  ~Trainers();  // trainers are told to leave, and killed after some seconds

  const TrainerProgram& program() const { return program_; }
  bool running(DeviceId device);
  // Starts the trainers that do not run, and does not wait for them. Errors: those of Process::start; Unavailable (no
  // socket).
  absl::Status start(const std::vector<DeviceId>& devices);
  // Gives each trainer its order as soon as it has attached, and waits until all have answered or ended. A trainer that
  // does not attach in time is killed; so are those that do not answer some time after another one has failed, for they
  // wait for it. No state goes with them.
  std::vector<Answer> tell(std::vector<Order> orders);
  // These leave, or are killed if they do not in time. An error names the first that left with another code than 0.
  absl::Status dismiss(const std::vector<DeviceId>& devices);
  // Kills them at once.
  void kill(const std::vector<DeviceId>& devices);
  std::vector<DeviceId> devices() const;  // that run, or did
  // What the trainer has noted since the last call, in its order: JSON {"read": …}. Also of one that has ended.
  std::vector<std::string> take_notes(DeviceId device);

  Word word(DeviceId device) const;
  // The memory of this device is whole and of this step. Not while its trainer trains.
  void set_word(DeviceId device, int64_t step);
  // Where a trainer finds its word: a descriptor, which stays ours, and the offset in its memory.
  std::pair<int, size_t> place_of_word(DeviceId device);

 private:
  struct Shared;  // the page of words, and the group
  struct Trainer {
    std::optional<rpc::Process> process;
    FileDescriptor socket;
    std::string received;   // the beginning of a message
    bool attached = false;  // its program has said its device; false again when an answer says that it begins anew
    std::vector<std::string> notes;
  };
  explicit Trainers(TrainerProgram program, std::unique_ptr<Shared> shared);
  absl::Status start(DeviceId device, Trainer& trainer);
  // Gives the trainer the order unless it is among `told`; its answer, if there is one. `in_time`: it may still attach.
  std::optional<Answer> answer_to(const Order& order, std::set<DeviceId>& told, bool in_time);
  // Reads what there is: answers that are complete, or why the connection is of no use any more.
  absl::StatusOr<std::vector<std::string>> receive(Trainer& trainer);
  void wait_for_news(int timeout_ms);
  // Waits for its end, or kills it, and cleans up. How it ended; `why` it is given up.
  std::string end_of(DeviceId device, Trainer& trainer, const absl::Status& why = absl::OkStatus());
  size_t slot(DeviceId device);

  TrainerProgram program_;
  std::unique_ptr<Shared> shared_;
  std::map<DeviceId, Trainer> trainers_;
  std::map<DeviceId, size_t> slots_;
};

}  // namespace scalai::executor::trainers
