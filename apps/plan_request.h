#pragma once
// What `scalai plan` is asked: its options, read and checked as a whole. All problems are reported.

#include <optional>
#include <string>
#include <vector>

#include "ptc/base/command.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {

// Problems of one command line. Malformed values exit with 2, else the first problem decides.
class Problems {
 public:
  static constexpr int kMalformed = 2, kMisfit = 3;

  void malformed(const std::string& text) { add(kMalformed, text); }
  void misfit(const std::string& text) { add(kMisfit, text); }
  // Each line of a status' message (none when it is OK) after `prefix`; the status gives the exit code.
  void status(const std::string& prefix, const absl::Status& status);
  // What the loader of a file says: several lines with their places are passed on as they are.
  void file(const absl::Status& status);

  bool empty() const { return code_ == 0; }
  int report() const;  // prints them to stderr; the exit code

 private:
  void add(int code, const std::string& text);
  void note(int code);

  std::string text_;
  int code_ = 0;
};

struct PlanRequest {
  std::string model;  // name; "" when both sides are files
  collection::Collection from, to;
  std::vector<DeviceId> candidates;  // what may take new ranks; with --placement=identity the first do, in order
  plan::Cluster cluster;
  collection::Residency residency;
  plan::PlannerOptions options;

  plan::PlannerInput input() const { return {from, to, cluster, residency, options}; }
};

// Nothing when there are problems.
std::optional<PlanRequest> read_plan_request(const Arguments& arguments, Problems& problems);

// Reports a tensor that is not among `names`, with those it may be meant for.
void check_tensor_name(const std::string& tensor, const std::vector<std::string>& names, Problems& problems);

}  // namespace scalai::apps
