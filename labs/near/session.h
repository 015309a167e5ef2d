#pragma once
// A worker of a host, from the caller's side: a process here, or one that a launcher (ssh, srun) starts elsewhere. Work
// goes through its standard input and output, so nothing of it is quoted for a shell. One thread at a time per object.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/work.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::near {

// A host that has files.
struct Host {
  std::string name;
  std::string folder;               // of the source there
  bool here = false;                // this machine: no launcher
  std::optional<RunView> run = {};  // the folder is a run's
};

struct Launch {
  std::vector<std::string> words;              // "{}" is the host; without it the host is the last word
  std::string program;                         // scalai-near on the hosts
  std::string own_program = "/proc/self/exe";  // and here
  double patience_s = 60;                      // a worker that says nothing for so long is given up
};

// InvalidArgument: the program's path has characters that a login shell would read otherwise.
absl::Status check_program(const std::string& program);

class Session {
 public:
  // NotFound: the launcher does not start. Unavailable: the host does not answer; the message has what the launcher
  // said. InvalidArgument: another version answers, or something else.
  static absl::StatusOr<std::unique_ptr<Session>> start(const Host& host, const Launch& launch);
  // A worker whose standard input and output these are, and whose process is somebody else's.
  static absl::StatusOr<std::unique_ptr<Session>> over(const Host& host, double patience_s, FileDescriptor in,
                                                       FileDescriptor out);
  // Closes the worker's standard input, which ends it and what it runs; after five seconds it is killed.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int threads() const { return threads_; }  // of the host

  // Answers are checked against their question; whoever asked may rely on numbers and sizes. Unavailable: the worker is
  // gone, says nothing, or its answer is none to the question. Nothing more is asked of it then: what is left of an
  // answer would be taken for the next one. InvalidArgument: of list(), what it says is no list. NotFound: it cannot
  // read the folder.
  absl::StatusOr<std::vector<ListedFile>> list();
  // `output` gets the bytes as they come; its first error is the answer, and the worker's last. An end without a
  // problem has all stages of the work.
  absl::StatusOr<PartEnd> run(const PartWork& work, const std::function<absl::Status(std::string_view)>& output);

 private:
  Session(Host host, double patience_s) : host_(std::move(host)), patience_s_(patience_s) {}
  absl::Status greet();
  absl::StatusOr<Answer> next();
  absl::Status lost(const absl::Status& why);

  const Host host_;
  const double patience_s_;
  pid_t pid_ = -1;
  FileDescriptor in_, out_, errors_;
  int threads_ = 1;
  bool works_ = false;  // it was given work
  absl::Status over_;   // why nothing more is asked of it
};

}  // namespace scalai::near
