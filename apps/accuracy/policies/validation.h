#pragma once
// Reproduction of published results of many-job simulators, for `scalai accuracy policies`. One thread.

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::sched {

struct ReferenceRow {
  std::string set;   // "G11"
  std::string name;  // "philly e13805 on 32 GPUs, srtf: average JCT"
  std::string unit;  // "s"
  double reference = 0;
  double ours = 0;
  double tolerance = 0;  // relative
  std::string note;
};

// (ours - reference) / reference. A reference of 0 needs an equal 0; otherwise the error is infinite.
double error_of(const ReferenceRow& row);
bool within_tolerance(const ReferenceRow& row);

// A set of rows. `data` is the folder with gavel/, pollux/ …; NotFound: its input is missing.
struct ReferenceSet {
  std::string name;     // "G11"
  std::string summary;  // what is reproduced
  std::string source;   // origin of reference and input, and how to get them
  absl::StatusOr<std::vector<ReferenceRow>> (*run)(const std::string& data);
};

// All sets. Valid for the whole process.
const std::vector<ReferenceSet>& reference_sets();

// The named sets ("G11", in any case), in the order of reference_sets(); all sets if `names` is empty. InvalidArgument:
// the unknown names, and the known ones.
absl::StatusOr<std::vector<ReferenceSet>> sets_named(std::span<const std::string> names);

// The folder of public data: `given`, else $SCALAI_DATA, else "".
std::string data_folder(const std::string& given);

}  // namespace scalai::sched
