#pragma once
// Snapshot of a long run: the answers of what costs time in it (a solver, a policy program), in order, in a file. The
// rest of a run is played again when it goes on, which gives the same questions; their answers come from the file,
// until it has no more. So nothing has to be said of the state of engine and policy, and the outcome is the same, bit
// for bit.
//
//   "scalai-snapshot 1 ABOUT\n"   ABOUT: version and digest of the scenario; another one is refused
//   length (4 bytes, little endian), digest of the question (32), answer, CRC-32 of digest and answer (4); again and
//   again
//
// An answer is in the file before the run goes on: a killed process loses none, a machine those of its last second. The
// rest of an answer at the end of the file is cut off. One thread; one process a file (it is locked).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::policy {

class AnswerLog {
 public:
  // A new file. `about`: one line. InvalidArgument: it is there already. NotFound: it cannot be made.
  static absl::StatusOr<std::unique_ptr<AnswerLog>> create(const std::string& path, const std::string& about);
  // Goes on with a file; all of it is checked. NotFound: it is not there. InvalidArgument: no snapshot, of another
  // scenario or version, or damaged (says where). FailedPrecondition: another process has it.
  static absl::StatusOr<std::unique_ptr<AnswerLog>> resume(const std::string& path, const std::string& about);

  // The answer to the next question: the file's, or what `compute` gives, which is then in the file. Errors of
  // `compute` are not kept. FailedPrecondition: the file's next question is another one, so the run was not of this
  // program and these inputs. Aborted: it cannot be written.
  absl::StatusOr<std::string> answer(std::string_view question,
                                     const std::function<absl::StatusOr<std::string>()>& compute);

  bool recalls() const { return next_ < end_; }  // the next answer comes from the file
  int64_t recalled() const { return recalled_; }
  int64_t added() const { return added_; }

 private:
  AnswerLog(std::string path, FileDescriptor file);
  absl::Status lock() const;
  absl::Status check(const std::string& about);
  absl::StatusOr<std::string> recall(const std::string& digest);
  absl::Status append(const std::string& digest, std::string_view answer);
  absl::Status write(std::string_view bytes);
  absl::Status damaged(int64_t at) const;

  std::string path_;
  FileDescriptor file_;
  int64_t next_ = 0, end_ = 0;  // bytes: of the next answer, of all whole ones
  int64_t recalled_ = 0, added_ = 0;
  double synced_s_ = 0;
};

}  // namespace scalai::policy
