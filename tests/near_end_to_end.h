#pragma once
// `scalai near` as its users run it. Hosts are folders of this machine behind a launcher that, as ssh does, gives its
// words to a shell; the oracle is sh in one folder that has all files.

#include "tests/end_to_end.h"

namespace scalai::testing {

class NearEndToEnd : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    for (const char* name : {"all", "h0", "h1", "h2", "bin"}) fs::create_directory(folder_ / name);
    // Tells the commands on a host where they are.
    program("ssh", "export NEAR_HOST=$1; shift; exec sh -c \"$*\"");
    ::setenv("PATH", (path("bin") + ":" + path_).c_str(), 1);
    ::unsetenv("SLURM_JOB_ID");
    ::setenv("LC_ALL", "C", 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    EndToEnd::TearDown();
  }
  void program(const std::string& name, const std::string& script) const {
    write_all(folder_ / "bin" / name, "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
  }
  // A file on some hosts, and in the folder of the oracle.
  void file(const std::string& name, const std::string& text, const std::vector<int>& hosts) const {
    write_all(folder_ / "all" / name, text);
    for (const int host : hosts) write_all(folder_ / ("h" + std::to_string(host)) / name, text);
  }
  // A word as sh reads it.
  static std::string quoted(const std::string& word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
    return text + "'";
  }
  // Hosts of a source that is not here.
  std::string hosts(const std::vector<int>& which = {0, 1, 2}) const {
    std::string words = quoted(path("nowhere")) + " --launcher='" + path("bin/ssh") + " {}' --jobs=2 --part-size=64B";
    for (const int host : which) words += fmt::format(" --host=h{0}={1}/h{0}", host, folder_.string());
    return words;
  }
  Outcome by_sh(const std::string& pipeline) const {
    return shell(fmt::format("cd {} && sh -c {}", quoted(path("all")), quoted(pipeline)));
  }
  Outcome on_hosts(const std::string& pipeline) const {
    return scalai(fmt::format("near {} -- {}", hosts(), quoted(pipeline)));
  }
  Outcome here(const std::string& pipeline) const {
    return scalai(fmt::format("near {} --jobs=2 --part-size=64B -- {}", quoted(path("all")), quoted(pipeline)));
  }
  void expect_same(const std::string& pipeline) const {
    const Outcome want = by_sh(pipeline);
    for (const Outcome& got : {on_hosts(pipeline), here(pipeline)}) {
      EXPECT_EQ(got.out, want.out) << pipeline << "\n" << got.err;
      EXPECT_EQ(got.code, want.code) << pipeline << "\n" << got.err;
    }
  }
  const std::string path_ = std::getenv("PATH");
};

}  // namespace scalai::testing
