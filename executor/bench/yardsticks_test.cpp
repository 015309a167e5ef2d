#include "executor/bench/yardsticks.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"

namespace scalai::executor::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;

TEST(Memcpy, TakesTime) {
  EXPECT_GT(memcpy_seconds(1 << 20, 3), 0);
  EXPECT_GE(memcpy_seconds(0, 1), 0);
}

TEST(Output, SecondsAreInTheLastJsonLine) {
  EXPECT_THAT(seconds_in("a warning\n{\"ranks\": 2, \"bytes\": 8, \"seconds\": 0.25}\n").value(), DoubleEq(0.25));
  EXPECT_THAT(seconds_in("{\"seconds\": 1}\n{\"seconds\": 0.5}\nbye\n").value(), DoubleEq(0.5));
  for (const char* text : {"", "{}", "nothing", "{\"seconds\": \"1\"}", "{\"seconds\": 0}", "{\"seconds\": -1}", "[1]"})
    EXPECT_FALSE(seconds_in(text).ok()) << text;
  EXPECT_THAT(message_of(seconds_in("all\ngone wrong\n").status()), HasSubstr("gone wrong"));
}

TEST(Output, UcxPrintsMebibytes) {
  const std::string header = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n";
  EXPECT_THAT(bandwidth_in(header + "  50,7.757,2020.960,2020.960,3958.52,4000.5,495,495\n").value(),
              DoubleEq(4000.5 * 1024 * 1024));
  for (const std::string& text : {std::string(), header, std::string("1,2,3,4,5"), std::string("1,2,3,4,5,-6,7,8"),
                                  std::string("1,2,3,4,5,6 s,7,8")})
    EXPECT_FALSE(bandwidth_in(text).ok()) << text;
}

TEST(Programs, AreFoundOnPath) {
  const auto shell = find_program("sh");
  ASSERT_TRUE(shell.has_value());
  EXPECT_THAT(*shell, ::testing::EndsWith("/sh"));
  EXPECT_FALSE(find_program("no-such-program-anywhere").has_value());
}

TEST(Programs, OneThatIsNotThereIsNamed) {
  const auto seconds = alltoallw_seconds({.program = "/nowhere/alltoallw_bench", .log_file = "/dev/null"});
  EXPECT_TRUE(absl::IsNotFound(seconds.status()));
  const bool has_mpirun = find_program("mpirun").has_value();
  EXPECT_THAT(message_of(seconds.status()), HasSubstr(has_mpirun ? "/nowhere/alltoallw_bench" : "mpirun"));
}

// The server takes its time to listen: a client that came too early comes again.
TEST(Programs, AClientThatIsTooEarlyComesAgain) {
  const std::filesystem::path folder = ::testing::TempDir() + "yardsticks." + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "ucx_perftest") << "#!/bin/sh\n[ $# -gt 2 ] || exec sleep 100\necho >> "
                                         << (folder / "asked").string() << "\n[ $(wc -l < "
                                         << (folder / "asked").string()
                                         << ") -gt 2 ] || exit 1\necho 1,2,3,4,5,1000,7,8\n";
  std::filesystem::permissions(folder / "ucx_perftest", std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
  const auto seconds = ucx_seconds({.log_file = (folder / "log").string(), .bytes = int64_t{1000} << 20});
  ::setenv("PATH", path.c_str(), 1);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_THAT(*seconds, DoubleEq(1));
}

}  // namespace
}  // namespace scalai::executor::bench
