#pragma once
// What a worker is asked for, and what it answers; and how both travel: as frames over a pair of descriptors, a length
// and a message of near.proto each. Values and functions; any thread, one at a time for each descriptor.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::near {

constexpr int kProtocol = 4;
constexpr size_t kMostFiles = 1'000'000;           // that a host lists
constexpr int64_t kMostListed = int64_t{1} << 56;  // bytes of them all

// The folder of work is that of a run, and the files are those of a step of its job that some reader keeps.
struct RunView {
  std::string job, view;
  int64_t step = 0;  // the number by which readers know it
  friend bool operator==(const RunView&, const RunView&) = default;
};

struct ListWork {
  std::string folder;
  std::optional<RunView> run = {};
};

// Bytes [begin, end) of a file, or the records that begin there.
struct Range {
  std::string file;
  int64_t begin = 0, end = 0;
  bool records = false;
};

struct StageWork {
  std::vector<std::string> words;
  size_t script = 0;  // the word that names a script, which is sent along; 0: none
  std::string script_text;
};

struct Variable {
  std::string name, value;
  bool set = true;  // false: is to be absent
};

// A pipeline on a part of the input. Files are relative to the folder.
struct PartWork {
  std::string folder;
  std::vector<StageWork> stages;  // none: the ranges are the output
  std::vector<Range> ranges;      // standard input of the first stage, which is empty without
  std::vector<Variable> environment;
  std::optional<RunView> run = {};
};
using Work = std::variant<ListWork, PartWork>;

struct Hello {
  int version = 0;
  int threads = 1;  // of the host
};
struct ListedFile {
  std::string name;
  int64_t bytes = 0;
  bool ends_whole = true;  // empty, or ends with the end of a line
  bool has_mark = false;   // begins with the byte order mark of UTF-8
};
struct Listed {
  std::vector<ListedFile> files;  // sorted by name, also over all that come
  std::string problem;
  bool more = false;  // another Listed follows
};
struct Output {
  std::string bytes;
};
struct Alive {};  // before any answer that takes its time
struct StageEnd {
  int status = 0, signal = 0;
  bool nul = false;   // its standard input had a NUL byte
  bool whole = true;  // its standard input was empty, ended with the end of a line, or was not read to its end
};
// The status of a command that is not there, and of one that may not be run, as of sh.
constexpr int kNotStarted = 127, kNotExecutable = 126;
struct PartEnd {
  std::vector<StageEnd> stages;
  std::string errors;   // standard error of all stages; the beginning of it
  std::string problem;  // why there is no result; "" = there is one
  int64_t output_bytes = 0;
};
using Answer = std::variant<Hello, Listed, Output, Alive, PartEnd>;

// Failures: FailedPrecondition (nobody reads any more), Aborted; InvalidArgument: the message is too large.
absl::Status send(int fd, const Work& work);
absl::Status send(int fd, const Answer& answer);

// Waits for a frame; at most `patience_s` for each part of it, without end if that is 0. OutOfRange: the other side is
// gone. DeadlineExceeded: it says nothing. InvalidArgument: what it says is no frame; the message quotes it.
absl::StatusOr<Work> receive_work(int fd);
absl::StatusOr<Answer> receive_answer(int fd, double patience_s);

}  // namespace scalai::near
