#pragma once
// What tests of scenarios of many jobs share: where public traces may lie, and a small scenario that needs none.

#include "tests/end_to_end.h"

namespace scalai::testing {

inline const fs::path kData = [] {
  const char* data = std::getenv("SCALAI_DATA");
  return data != nullptr && *data != '\0' ? fs::path(data) : fs::path(SCALAI_SOURCE_DIR) / "../shared/data";
}();

class SchedEndToEnd : public EndToEnd {
 protected:
  Outcome with_data(const std::string& words) const {
    return shell(fmt::format("SCALAI_DATA='{}' '{}/scalai' {}", kData.string(), kPrograms.string(), words));
  }
  Outcome sim(const std::string& words) const { return with_data("sim " + words); }

  // 60 jobs like Philly's on 16 GPUs, more than those can take at once, first come first served.
  std::string scenario(const std::string& more = "") const {
    const std::string file = path("jobs.textproto");
    write_all(file, R"(schema_version: 1
name: "jobs"
seed: 7
cluster { hosts { count: 4 gpus: 4 gpu: "v100-16g" nic: "10Gbps" price_per_hour: 8 } }
workload { generator: "philly-like" set: "jobs=60" set: "interval=60s" }
throughputs { source: "duration" }
policy { name: "fifo" }
changes { seconds: "30s" }
)" + more);
    return file;
  }
};

}  // namespace scalai::testing
