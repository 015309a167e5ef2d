#pragma once
// What tests of `scalai fs` share: mounts in a folder of the test's own, which are gone when the test ends, however it
// ends.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "tests/end_to_end.h"

namespace scalai::testing {

class FsEndToEnd : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    folder_ = fs::canonical(folder_);
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "/dev/fuse cannot be opened: " << std::strerror(errno);
    }
    if (!python()) GTEST_SKIP() << "no python3, which makes the models";
    ASSERT_TRUE(make_model("hf"));
    const Outcome probe = mount("probe", "--checkpoint=" + path("hf"));
    if (probe.code == 4) GTEST_SKIP() << probe.err;
    ASSERT_EQ(probe.code, 0) << probe.err;
    EXPECT_EQ(unmount("probe").code, 0);
  }
  void TearDown() override {
    for (const pid_t server : servers_) end(server, SIGKILL);
    for (const std::string& name : mounts_) {
      if (is_mounted(name)) scalai("fs unmount --force " + path(name));
      EXPECT_FALSE(is_mounted(name)) << name;
    }
    EndToEnd::TearDown();
  }

  bool python() const { return shell("python3 -c 'import json, struct'").code == 0; }
  // A tiny Llama in Hugging Face's form: 4 layers, 8 heads, 2 groups.
  bool make_model(const std::string& name) const {
    return shell(fmt::format("python3 -B {}/tests/interop/make_tiny.py llama {}", SCALAI_SOURCE_DIR, path(name)))
               .code == 0;
  }
  // Records of 8 digits, and their index.
  bool make_dataset(const std::string& name, int64_t records) const {
    std::ofstream file(path(name + ".bin"), std::ios::binary);
    for (int64_t i = 0; i < records; ++i) file << fmt::format("{:08}", i);
    file.close();
    return scalai(fmt::format("data index --kind=fixed --record-bytes=8 {0}.bin --out={0}.index", path(name))).code ==
           0;
  }

  // In the background, at a folder of that name; its log is NAME.log.
  Outcome mount(const std::string& name, const std::string& options) {
    prepare(name);
    return scalai(fmt::format("fs mount {0} {1} --daemonize --log={0}.log", path(name), options));
  }
  // In the foreground, as a process of ours; stderr goes to NAME.log. 0: it could not be started.
  pid_t start(const std::string& name, const std::string& options) {
    prepare(name);
    const std::string log = path(name) + ".log";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    std::vector<std::string> words = {(kPrograms / "scalai-fs").string(), "mount", path(name)};
    std::istringstream more(options);
    for (std::string word; more >> word;) words.push_back(word);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    if (::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    if (pid > 0) servers_.push_back(pid);
    return pid;
  }
  // Sends the signal and waits for the end; the exit code, 128 + the signal that killed it, -1 when there is none.
  int end(pid_t server, int signal) {
    std::erase(servers_, server);
    if (server <= 0) return -1;
    ::kill(server, signal);
    int status = 0;
    if (::waitpid(server, &status, 0) != server) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  bool wait_for_mount(const std::string& name) const {
    for (int i = 0; i < 1000; ++i) {
      if (scalai("fs status " + path(name)).code == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  Outcome unmount(const std::string& name, const std::string& options = "") const {
    return scalai(fmt::format("fs unmount {} {}", options, path(name)));
  }
  bool is_mounted(const std::string& name) const {
    return read_all("/proc/self/mountinfo").find(" " + path(name) + " ") != std::string::npos;
  }
  std::string log_of(const std::string& name) const { return read_all(path(name) + ".log"); }

 private:
  void prepare(const std::string& name) {
    std::error_code ignored;
    fs::create_directory(path(name), ignored);  // is there already when it is mounted a second time
    mounts_.push_back(name);
  }

  std::vector<std::string> mounts_;
  std::vector<pid_t> servers_;
};

// An open file, by the system calls that readers use.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), error_(errno) {}
  ~OpenedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int error() const { return error_; }  // of the last call that failed
  // What is there from `offset` on, at most so much; "" at the end and on errors.
  std::string read(int64_t offset, size_t bytes) {
    std::string text(bytes, '\0');
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::pread(fd_, text.data() + done, bytes - done, offset + static_cast<int64_t>(done));
      if (got < 0) {
        error_ = errno;
        return "";
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    text.resize(done);
    return text;
  }

 private:
  int fd_;
  int error_;
};

}  // namespace scalai::testing
