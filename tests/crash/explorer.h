#pragma once
// Records a subject's work, and opens the states that a crash at any moment of it may leave.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/random.h"
#include "tests/crash/disk.h"
#include "tests/crash/subject.h"

namespace scalai::crash {

struct Tally {
  int64_t operations = 0;
  int64_t moments = 0;  // of crashes
  int64_t states = 0;   // distinct contents of the disk
  int64_t checks = 0;   // states with what had been promised at their moments
  int64_t found_old = 0, found_new = 0, failed = 0;
  Tally& operator+=(const Tally& other);
};

// The program that plays a subject under the recorder: its words get --root=FOLDER.
struct Recorder {
  std::string library;
  std::string program;
  std::vector<std::string> words;
};

// Runs the work in FOLDER/root and reads what was recorded. Aborted: the work failed; or the operations do not give the
// folder that the work has left, so the recorder has missed some.
absl::StatusOr<std::vector<Operation>> record(const Recorder& recorder, Subject& subject, const std::string& folder);

// Writes a state as an empty folder's contents.
void materialise(const Tree& tree, const std::string& folder);

class Explorer {
 public:
  // `folder`: for states, in memory if possible. References must outlive the object.
  Explorer(const std::vector<Operation>& operations, Subject& subject, std::string folder);
  // Goes through all moments of a crash, for about `states` states more. False: a state failed; its folder stays.
  // Aborted: the operations contradict each other.
  absl::StatusOr<bool> explore(int64_t states, Random& random);
  const Tally& tally() const { return tally_; }
  const std::string& failure() const { return failure_; }  // for people

 private:
  bool visit(const Disk& disk, const std::vector<Dimension>& dimensions, const Choice& choice, size_t moment);
  std::string describe(const std::vector<Dimension>& dimensions, const Choice& choice, size_t moment,
                       const std::string& why) const;

  const std::vector<Operation>& operations_;
  Subject& subject_;
  const std::string folder_;
  std::vector<std::string> marks_;
  std::set<std::string> states_;
  std::set<std::string> checks_;
  Tally tally_;
  std::string failure_;
};

}  // namespace scalai::crash
