#pragma once
// A folder of a test's own, and scenarios that are loaded from it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "ptc/base/status.h"
#include "sim/jobs/scenario/engine_parts.h"

namespace scalai::scenario::testing {

inline const std::string kHead = "name: \"x\"\nseed: 3\n";
inline const std::string kCluster =
    "cluster { hosts { count: 2 gpus: 4 gpu: \"v100-16g\" nic: \"10Gbps\" price_per_hour: 12 } }\n";
inline const std::string kWorkload = "workload { generator: \"philly-like\" set: \"jobs=5\" }\n";

// A scenario with its parts.
struct Loaded : Scenario {
  EngineParts parts;
  const ManyJobs& many() const { return *many_jobs; }
};

class ClusterScenarios : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-sched-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    std::filesystem::create_directory(folder_ + "/s");
    unsetenv("SCALAI_DATA");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }
  absl::StatusOr<std::unique_ptr<Loaded>> load(const std::string& text, LoadOptions options = {}) {
    write("s/x.textproto", text);
    auto loaded = std::make_unique<Loaded>();
    options.engine = &loaded->parts;
    SCALAI_ASSIGN_OR_RETURN(static_cast<Scenario&>(*loaded), scenario::load(folder_ + "/s/x.textproto", options));
    return loaded;
  }
  std::string problems(const std::string& text, int code = 3) {
    const auto scenario = load(text);
    EXPECT_EQ(exit_code_of(scenario.status()), code) << text;
    return message_of(scenario.status());
  }
  std::string folder_;
};

}  // namespace scalai::scenario::testing
