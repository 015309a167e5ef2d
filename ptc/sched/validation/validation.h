#pragma once
// The published numbers of many-job simulators, reproduced: what `scalai validate-policies` prints.

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

// (ours - reference) / reference; a reference of 0 is met by 0 only, else the error is infinite.
double error_of(const ReferenceRow& row);
bool within_tolerance(const ReferenceRow& row);

// The rows of one set; `data` is the folder that holds gavel/, pollux/ … NotFound when what it needs is not there.
struct ReferenceSet {
  std::string name;     // "G11"
  std::string summary;  // what is reproduced
  std::string source;   // where reference and input come from, and how to get them
  absl::StatusOr<std::vector<ReferenceRow>> (*run)(const std::string& data);
};

const std::vector<ReferenceSet>& reference_sets();

// The sets named ("G11", in any case), in the order of reference_sets(); all when there are none. Error:
// InvalidArgument with the names that are none and those there are.
absl::StatusOr<std::vector<ReferenceSet>> sets_named(std::span<const std::string> names);

// The folder of public data: `given`, else $SCALAI_DATA, else ../shared/data where it is there, else "".
std::string data_folder(const std::string& given);

}  // namespace scalai::sched
