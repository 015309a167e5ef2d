#pragma once
// Where each command of a pipeline runs. The first ones run near, in parts: on hosts that have the input, as far as
// their annotations let outputs of parts become the output of the whole. The rest runs here. Of all ways the one that
// moves fewest bytes, by the annotations' guesses; of equal ones the one with most commands near. On this machine a
// split has to put out less than it reads.
//
//   pipeline, uses, files of hosts ─► place ─► parts in the order of the input, how their outputs merge, where to go on
//   here
//
// Pure; any thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/annotation.h"
#include "labs/near/session.h"
#include "labs/near/work.h"

namespace scalai::near {

struct FileFacts {
  int64_t bytes = 0;
  bool ends_whole = true;
  bool has_mark = false;
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

// The files of a source, and which hosts have them.
struct Source {
  std::vector<Host> hosts;
  std::vector<int> jobs;                                  // parts at a time, of each host
  std::vector<std::map<std::string, FileFacts>> by_host;  // files of each host, by name
  std::map<std::string, FileFacts> files;                 // of all

  // Of a file as a command names it, "./a" for a. find: nullptr if no host has it.
  const FileFacts* find(const std::string& word) const;
  bool has(size_t host, const std::string& word) const;
  std::vector<std::string> names() const;
};
// Fills `files`. InvalidArgument: files of one name that differ in size; all of them are named.
absl::Status unite(Source& source);

struct PlacedPart {
  size_t host = 0;
  std::vector<std::string> files;  // operands of the first command, or
  std::vector<Range> ranges;       // its standard input
  int64_t bytes = 0;
};

struct Placement {
  size_t near = 0;                // commands [0, near) run in each part
  std::vector<PlacedPart> parts;  // in the order of the input
  Merge merge = Merge::kConcatenate;
  size_t merge_stage = 0;      // whose outputs they are, for the merges kAgain, kSorted, kCounted, kSum and kColumns
  size_t local_from = 0;       // where the pipeline goes on here: `near`, or a stage before it that runs again
  bool counts_sorted = false;  // kCounted: of lines that were sorted
  int64_t input_bytes = 0, moved_if_local_bytes = 0;
  int64_t moved_bytes = 0;       // a guess
  std::vector<std::string> why;  // of each command, in words

  bool by_record(size_t stage) const { return stage > 0 || (!parts.empty() && !parts[0].ranges.empty()); }
};

struct PlaceOptions {
  size_t most_near = SIZE_MAX;  // commands
  bool cuts = true;             // files may be cut
  int64_t part_bytes =
      int64_t{16} << 20;  // smaller files share a part, and larger ones are cut into parts of at least so much
};

// Of a pipeline whose commands have these uses.
Placement place(const std::vector<Use>& uses, const Source& source, const PlaceOptions& options);

}  // namespace scalai::near
