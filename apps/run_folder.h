#pragma once
// What a run keeps in its --out folder while it goes on, so that another controller can go on with it and `ctl` finds it:
//
//   journal.db   events and commits (executor/journal)      run.json   how the run was started
//   token        the secret workers know                    address    where the controller listens
//
// An end in order removes address and token: a folder that has an address is of a run that goes on or was cut off.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "apps/state_options.h"
#include "executor/journal/journal.h"

namespace scalai::apps {

// How a run was started; going on with it keeps to that.
struct HowRun {
  bool local_workers = true;
  StateOptions state;
  std::string verify = "full";
  double time_scale = 0;
  double orphan_timeout_s = 60;
  std::string certificate_file, key_file;
  std::map<std::string, std::string> states;    // file or folder of a real state, by job
  std::map<std::string, std::string> datasets;  // index file, by job
  std::map<std::string, std::string> mounts;    // of `scalai fs`, whose dataset/current follows the job, by job
};

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  std::string workers() const { return path_ + "/workers"; }

  // Ok when a new run may begin here. Unavailable: a run is going on; NotFound: one was cut off, and can be gone on with.
  absl::Status check_free() const;
  // Removes what an earlier run has left, and writes down the new one. The address comes last: it says that all is there.
  absl::StatusOr<executor::Journal> begin(const executor::RunFacts& facts, const HowRun& how, const std::string& token,
                                          const std::string& address) const;
  // Of a run that was cut off.
  absl::StatusOr<HowRun> how() const;
  absl::StatusOr<std::string> token() const;
  absl::StatusOr<std::string> address() const;
  void end() const;

 private:
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string path_;
};

}  // namespace scalai::apps
