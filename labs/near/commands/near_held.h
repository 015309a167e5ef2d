#pragma once
// A step of a run whose workers' hosts are asked by `scalai near`: kept for all of them, and which of them holds what
// of its files. Programs without the executor have none. One thread.

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "labs/near/placement.h"

namespace scalai::apps {

// Bytes of each file in the memory of each machine, by their names. Replicas count for each of their holders.
using HeldBytes = std::map<std::string, std::map<std::string, int64_t>>;

class HeldStep {
 public:
  // The last step of a job ("": the only one) of the run in this folder. Errors: NotFound (no run goes on there, no
  // such job, or the program was built without the executor), those of asking its controller.
  static absl::StatusOr<std::unique_ptr<HeldStep>> open(const std::string& run, const std::string& job);
  virtual ~HeldStep() = default;
  virtual std::string job() const = 0;
  virtual int64_t number() const = 0;  // by which readers know it
  // InvalidArgument: no such view of the job.
  virtual absl::StatusOr<HeldBytes> held(const std::string& view) const = 0;
};

// Of each file only hosts that hold as good as most of it keep it; where none of them holds anything, all do. A host is
// the machine of its name, without the user and the domain.
void keep_where_held(const HeldBytes& held, near::Source& source);

}  // namespace scalai::apps
