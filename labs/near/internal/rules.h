#pragma once
// One annotation, checked.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "labs/near/annotation.h"

namespace scalai::near {

struct OptionRule {
  size_t group = 0;  // options with the same meaning
  bool value = false, number = false, unsplit = false, whole_files = false, instead_of_leading = false;
  bool says_names = false, one_column = false, changes_order = false;
  Merge by_record = Merge::kNotSplit;
};

struct Annotations::Rules {
  std::vector<std::string> commands;
  std::map<std::string, OptionRule> options;  // by name
  size_t leading = 0, most_files = 0;
  bool no_files = false, same_on_stdin = false, text = false, joins_files = false, c_locale = false,
       keeps_first = false;
  bool any_zero = false, is_script = false;
  Merge by_file = Merge::kNotSplit, by_record = Merge::kNotSplit;
  std::string for_several;
  std::vector<std::string> refused;
  int last_good_status = 0;
  double share = 0;
  int64_t bytes_a_file = 0, bytes_a_part = 0;

  // `declared`: of a script, whose name is its command. InvalidArgument: all problems.
  static absl::StatusOr<Rules> parse(const std::string& text, const std::string& file, bool declared = false);
};

namespace internal {

// The Use of a command under these rules, which are not those of an interpreter of scripts. `first_word`: of options
// and operands.
Use apply_rules(const Annotations::Rules& rules, const std::vector<std::string>& words, size_t first_word,
                const UseOptions& options);
// The annotation in the first lines of a script; "" = none.
std::string declaration_in(const std::string& script);

}  // namespace internal
}  // namespace scalai::near
