#pragma once
// What is known of commands: which words are input files, how the command may be split, how outputs of parts merge
// (labs/near/annotations/*.textproto; the fields are in ptc/proto/near.proto). An option that an annotation does not
// have is a reason to run the command locally: nothing is guessed.
//
//   words ─► use_of ─► Use: input files, merges, guesses of the output's size; or why the command runs locally
//
// Values; any thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/pipeline.h"

namespace scalai::near {

// How outputs of parts become the output of the whole; NearMerge of near.proto.
enum class Merge { kNotSplit, kConcatenate, kAgain, kSorted, kCounted, kSum, kColumns };
std::string_view name_of(Merge merge);  // static storage

// A command as an annotation sees it.
struct Use {
  std::string why_local;  // not empty: it runs locally, and of the rest only `script` counts

  std::vector<std::string> inputs;       // input files, in their order
  std::vector<std::string> other_words;  // argv without them
  size_t inputs_at = 0;                  // where they stood among the others

  Merge by_file = Merge::kNotSplit, by_record = Merge::kNotSplit;
  bool same_on_stdin = false;  // input files and their bytes on standard input give the same output
  bool text = false;           // a NUL byte in a stream forbids the split by record
  bool joins_files = false;    // files must end with the end of a line, and begin without a mark
  bool keeps_first = false;    // may follow a sort in each part
  bool byte_order = false;     // sort: in the order of bytes, without options
  int columns = 1;             // of kSum and kColumns
  std::string implied;         // an option to add in each part: -H, where several files imply it

  int last_good_status = 0;
  bool any_zero = false;  // the status is 0 if that of one part is
  double share = 1;       // guesses of what is put out: a share of the input, and bytes
  int64_t bytes_a_file = 0, bytes_a_part = 0;

  std::string wrong;     // what is wrong with how its script declares itself
  std::string script;    // path of a script here; "" = none
  size_t script_at = 0;  // its word in other_words

  // argv for some of the input files.
  std::vector<std::string> words_for(const std::vector<std::string>& files) const;
};

struct UseOptions {
  bool first = true;         // of its pipeline: later ones get a stream
  bool byte_locale = false;  // lines are equal only if their bytes are
  // Where a script with this name can be read here; "" = nowhere. Without it names are paths.
  std::function<std::string(const std::string& name)> find_script = {};
};

class Annotations {
 public:
  static Annotations built_in();

  // Adds those of *.textproto in a folder, which come before the built-in ones. NotFound: it cannot be read.
  // InvalidArgument: all problems of all files, with their places. On an error nothing is added.
  absl::Status load(const std::string& folder);

  // Reads the script of a command that may declare itself.
  Use use_of(const Command& command, const UseOptions& options) const;

  std::vector<std::string> commands() const;  // sorted

  struct Rules;  // one annotation

 private:
  std::map<std::string, std::shared_ptr<const Rules>> rules_;  // by command
};

}  // namespace scalai::near
