#pragma once
// Reproduction of published results of many-job simulators, for `scalai accuracy policies`. One thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::policy::validation {

// What a row agrees with. Another program with the same rules is arithmetic, its authors' own a published simulator;
// how either compares with machines is a third question.
enum class Reproduces : uint8_t { kArithmetic, kSimulator, kCluster };
std::string_view name_of(Reproduces what);  // "arithmetic", "simulator", "cluster"; static storage

struct ReferenceRow {
  std::string set;     // "G11"
  std::string policy;  // built-in policy or recovery design; empty: none
  std::string name;    // "philly e13805 on 32 GPUs, srtf: average JCT"
  std::string unit;    // "s"
  double reference = 0;
  double ours = 0;
  double tolerance = 0;  // relative; stated before the run
  std::string note;
  std::string not_reproduced = {};  // why it is known to be out of tolerance; empty: it should not be
};

// (ours - reference) / reference. A reference of 0 needs an equal 0; otherwise the error is infinite.
double error_of(const ReferenceRow& row);
bool within_tolerance(const ReferenceRow& row);

// A set of rows. `data` is the folder with gavel/, pollux/ …; NotFound: its input is missing.
struct ReferenceSet {
  std::string name;     // "G11"
  std::string summary;  // what is reproduced
  Reproduces reproduces = Reproduces::kArithmetic;
  std::string source;  // origin of reference and input, and how to get them
  absl::StatusOr<std::vector<ReferenceRow>> (*run)(const std::string& data);
};

// All sets. Valid for the whole process.
const std::vector<ReferenceSet>& reference_sets();

// The named sets ("G11", in any case), in the order of reference_sets(); all sets if `names` is empty. InvalidArgument:
// the unknown names, and the known ones.
absl::StatusOr<std::vector<ReferenceSet>> sets_named(std::span<const std::string> names);

// Built-in policies and recovery designs that no row is of, in the order of their lists.
std::vector<std::string> policies_without(std::span<const ReferenceRow> rows);

// The folder of public data: `given`, else $SCALAI_DATA, else "".
std::string data_folder(const std::string& given);

}  // namespace scalai::policy::validation
