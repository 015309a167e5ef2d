// The folder of a run: its name may have any bytes.

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

// Bytes of a name in ISO 8859-1, which are no UTF-8.
class FolderOfAnyName : public Exec {
 protected:
  void SetUp() override {
    Exec::SetUp();
    folder_ /= "caf\xE9";
    fs::create_directory(folder_);
  }
  void TearDown() override {
    const fs::path whole = folder_.parent_path();
    Exec::TearDown();
    fs::remove_all(whole);
  }
};

TEST_F(FolderOfAnyName, ARunIsMadeCutOffAndGoesOn) {
  Outcome run;
  std::thread controller([&] { run = exec(replicated_scenario(), "--scale-model=1/16 --time-scale=30ms"); });
  const auto status = [&] { return scalai(fmt::format("exec ctl status --run='{}'", path("exec"))); };
  EXPECT_TRUE(eventually([&] { return status().code == 0; }));
  EXPECT_TRUE(eventually([&] { return fs::exists(path("exec/checkpoints/a")) && !fs::is_empty(path("exec/checkpoints/a")); }));
  kill(this->controller(), SIGKILL);
  controller.join();
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << run.err << resumed.err;
  const nlohmann::json changes = nlohmann::json::parse(summary("exec")).at("jobs")[0].at("reconfigurations");
  ASSERT_EQ(changes.size(), 1u) << changes.dump(2);
  EXPECT_THAT(changes[0].at("cause").get<std::string>(), HasSubstr("redeploy"));
  expect_replayable();
}

}  // namespace
}  // namespace scalai::testing
