#pragma once
// The files of a run in its --out folder, for `ctl` and for a controller that continues the run. One thread.
//
//   journal.db   events and commits (executor/journal)      run.json   options of the start
//   token        secret of the workers                      address    address of the controller
//
// A clean end removes address and token: a folder with an address belongs to a running or an interrupted run.
// Whoever writes here decides what a resumed run starts, and whom ctl asks: a new folder is its user's alone (0700),
// these files are (0600), and nobody acts on a folder or a file that belongs to another user, or that others can write.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "apps/common/runs/state_options.h"
#include "executor/journal/journal.h"
#include "executor/rpc/ctl.h"

namespace scalai::apps {

// Options of the start of a run; a continuation keeps them. Paths are absolute.
struct HowRun {
  std::string policy_folder;  // where the scenario's policy, if it is a program, runs
  bool local_workers = true;
  std::string launcher;  // command that starts the workers; then local_workers is false
  StateOptions state;
  std::string verify = "full";
  double time_scale = 0;
  double orphan_timeout_s = 60;
  std::string certificate_file, key_file;
  std::map<std::string, std::string> states;    // by job: file or folder of a real state
  std::map<std::string, std::string> datasets;  // by job: index file
  std::map<std::string, std::string> trainers;  // by job: command of its training program
  std::string train_folder;                     // where these run
  bool launched = false;                        // by `scalai launch`: its scenario says nothing of time
  bool synced = false;                          // receivers of another run's weights, which nothing continues
  bool standby = false;                         // a process of a training program waits on every device
  bool last_checkpoint = true;                  // of real training: of its last step
  std::map<std::string, std::string> mounts;    // by job: mount of `scalai fs` whose dataset/current follows the job
};

class RunFolder {
 public:
  explicit RunFolder(const std::string& path);  // is made absolute
  const std::string& path() const { return path_; }
  std::string workers() const { return path_ + "/workers"; }

  // Makes the folder where it is missing. PermissionDenied, with all reasons: it, or a file above, belongs to another
  // user, or others can write it.
  absl::Status make() const;
  absl::Status check_private() const;  // the same of what is there
  // The right to begin a run here, which one process has at a time; removes nothing. Unavailable: a run is active.
  // NotFound: one was interrupted and can be continued. InvalidArgument: a run would remove files that are not of a
  // run.
  absl::StatusOr<executor::journal::JournalLock> claim() const;
  // Removes the files of an earlier run and writes those of the new one. The address comes last: it marks completeness.
  absl::StatusOr<executor::journal::Journal> begin(executor::journal::JournalLock lock,
                                                   const executor::journal::RunFacts& facts, const HowRun& how,
                                                   const std::string& token, const std::string& address) const;
  // Facts of an interrupted run; for who has called check_private().
  absl::StatusOr<HowRun> how() const;
  absl::StatusOr<std::string> token() const;
  absl::StatusOr<std::string> address() const;
  // How to reach its controller. PermissionDenied: as of make(). NotFound: it died (with the way to go on), or the run
  // is over.
  absl::StatusOr<executor::rpc::CtlTarget> target() const;
  bool controller_died() const;  // on this host; false where it cannot be known
  void end() const;
  // After a run that did not begin: takes away the lock, and the folder, unless it was there before or has something in
  // it.
  void leave_nothing(bool was_there) const;

 private:
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string path_;
};

}  // namespace scalai::apps
