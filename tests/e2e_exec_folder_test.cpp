// The folder of a run: its name may have any bytes, and it is its user's alone.

#include <sys/stat.h>

#include <atomic>
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

bool has_checkpoint(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step_") && name.find(".partial") == std::string::npos) return true;
  }
  return false;
}

TEST_F(FolderOfAnyName, ARunIsMadeCutOffAndGoesOn) {
  Outcome run;
  std::atomic<bool> over = false;
  const std::string scenario = replicated_scenario();
  std::thread controller([&] {
    run = shell(fmt::format("cd '{}' && exec '{}/scalai' exec '{}' --out='{}' --scale-model=1/16 --time-scale=100ms",
                            folder_.string(), kPrograms.string(), scenario, path("exec")));
    over = true;
  });
  const auto status = [&] { return scalai(fmt::format("exec ctl status --run='{}'", path("exec"))); };
  EXPECT_TRUE(eventually([&] { return over || status().code == 0; }));
  EXPECT_TRUE(eventually([&] { return over || has_checkpoint(path("exec/checkpoints/a")); }));
  if (this->controller() > 0) kill(this->controller(), SIGKILL);
  controller.join();
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  ASSERT_EQ(resumed.code, 0) << run.err << resumed.err;
  const nlohmann::json changes = nlohmann::json::parse(summary("exec")).at("jobs")[0].at("reconfigurations");
  ASSERT_EQ(changes.size(), 1u) << changes.dump(2);
  EXPECT_THAT(changes[0].at("cause").get<std::string>(), HasSubstr("redeploy"));
  EXPECT_TRUE(has_checkpoint(path("exec/checkpoints/a"))) << run.err << resumed.err;
  expect_replayable();
}

TEST_F(Exec, ARunIsItsUsersAloneAndOnlyThenGoesOn) {
  Outcome run;
  std::thread controller([&] {
    run = shell(fmt::format("umask 000; '{}/scalai' exec '{}' --out='{}' --scale-model=1/16 --time-scale=100ms",
                            kPrograms.string(), replicated_scenario(), path("exec")));
  });
  const auto ctl = [&] { return scalai(fmt::format("exec ctl status --run='{}'", path("exec"))); };
  EXPECT_TRUE(eventually([&] { return ctl().code == 0; }));
  EXPECT_TRUE(
      eventually([&] { return fs::exists(path("exec/checkpoints/a")) && !fs::is_empty(path("exec/checkpoints/a")); }));
  kill(this->controller(), SIGKILL);
  controller.join();
  EXPECT_EQ(fs::status(path("exec")).permissions(), fs::perms::owner_all);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path("exec"))) {
    const fs::perms others = entry.symlink_status().permissions() & (fs::perms::group_write | fs::perms::others_write);
    EXPECT_TRUE(entry.is_symlink() || others == fs::perms::none) << entry.path();
  }
  // Somebody could have written there: neither does the run go on, nor does anybody ask its controller.
  fs::permissions(path("exec"), fs::perms::all);
  fs::permissions(path("exec/journal.db"), fs::perms::others_write, fs::perm_options::add);
  const std::string resume = fmt::format("exec --resume='{}'", path("exec"));
  for (const Outcome& refused : {scalai(resume), ctl()}) {
    EXPECT_EQ(refused.code, 4) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(path("exec") + ": other users can write it (mode 777)"));
    EXPECT_THAT(refused.err, HasSubstr("journal.db: other users can write it (mode 602)"));
  }
  EXPECT_EQ(shell(fmt::format("chmod -R go-w '{}'", path("exec"))).code, 0);
  const Outcome resumed = scalai(resume);
  EXPECT_EQ(resumed.code, 0) << run.err << resumed.err;
}

}  // namespace
}  // namespace scalai::testing
