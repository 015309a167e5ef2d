// Completion in the shells themselves: bash, zsh and fish run on a terminal, a line and a tab are typed, and the shell
// says what its line has become. A shell that is not installed is a skip.

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "tests/end_to_end.h"

namespace completion_command_test {

using namespace scalai::testing;

constexpr int kTimeoutMs = 60'000;

class Completion : public EndToEnd, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    if (shell("command -v " + GetParam()).code != 0) GTEST_SKIP() << GetParam() << " is not installed";
    for (const char* name : {"elastic.textproto", "elastic.csv"}) write_all(folder_ / name, "");
    fs::create_directory(folder_ / "reports");
    start();
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      ::close(terminal_);
    }
    EndToEnd::TearDown();
  }

  // The line after `line` and a tab, without blanks at its end.
  std::string completed(const std::string& line) {
    const fs::path answer = folder_ / "answer";
    fs::remove(answer);
    type(line + "\t\x14");  // Ctrl-T saves the line and empties it
    for (int waited = 0; !fs::exists(answer); waited += 20) {
      EXPECT_LT(waited, kTimeoutMs) << screen_;
      if (waited >= kTimeoutMs) return "no answer";
      read_screen(20);
    }
    std::string text = read_all(answer);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
    return text;
  }

 private:
  void start() {
    const std::string save = fmt::format("'{0}/part' && mv '{0}/part' '{0}/answer'", folder_.string());
    std::vector<std::string> words;
    if (GetParam() == "bash") {
      write_all(folder_ / "rc", "source <(scalai completion bash)\nsave() { printf %s \"$READLINE_LINE\" > " + save +
                                    "; READLINE_LINE=; }\nbind -x '\"\\C-t\": save'\n");
      words = {"bash", "--noprofile", "--rcfile", path("rc"), "-i"};
    } else if (GetParam() == "zsh") {
      write_all(folder_ / ".zshrc",
                "bindkey -e\nautoload -U compinit\ncompinit -u\nsource <(scalai completion zsh)\nsave() { print -rn -- "
                "\"$BUFFER\" > " +
                    save + "; BUFFER= }\nzle -N save\nbindkey '^T' save\n");
      words = {"zsh", "-i"};
    } else {
      write_all(folder_ / "rc", "scalai completion fish | source\nfunction save; commandline > " + save +
                                    "; commandline -r ''; end\nbind \\ct save\n");
      words = {"fish", "--no-config", "-C", "source " + path("rc")};
    }
    const winsize size{40, 200, 0, 0};
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) exec(words);
    ::fcntl(terminal_, F_SETFL, O_NONBLOCK);
  }
  [[noreturn]] void exec(std::vector<std::string> words) const {
    ::setenv("PATH", fmt::format("{}:{}", kPrograms.string(), std::getenv("PATH")).c_str(), 1);
    for (const char* name : {"HOME", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"})
      ::setenv(name, folder_.c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (::chdir(folder_.c_str()) == 0) ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  // Typed before the shell reads, keys wait in the terminal.
  void type(const std::string& keys) {
    EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void read_screen(int timeout_ms) {
    pollfd ready{terminal_, POLLIN, 0};
    char buffer[4096];
    if (::poll(&ready, 1, timeout_ms) <= 0) return;
    const ssize_t n = ::read(terminal_, buffer, sizeof buffer);
    if (n > 0) screen_.append(buffer, static_cast<size_t>(n));
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string screen_;
};

TEST_P(Completion, CompletesCommandsOptionsAndValues) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"scalai para", "scalai parallelize"},
      {"scalai help para", "scalai help parallelize"},
      {"scalai plan --plac", "scalai plan --placement="},
      {"scalai plan --placement=id", "scalai plan --placement=identity"},
      {"scalai plan --placement id", "scalai plan --placement identity"},
      {"scalai plan --model=llama3-8", "scalai plan --model=llama3-8b"},
      {"scalai models gpt3-x", "scalai models gpt3-xl"},
      {"scalai machines dgx-1p", "scalai machines dgx-1p"},
      {"scalai machines p5.4", "scalai machines p5.48xlarge"},
      {"scalai parallelize --gpu=h200", "scalai parallelize --gpu=h200-141g"},
      {"scalai init --template=fail", "scalai init --template=failure"},
      {"scalai validate elas", "scalai validate elastic.textproto"},
      {"scalai compare rep", "scalai compare reports/"},
      {"scalai report reports --out=elastic.c", "scalai report reports --out=elastic.csv"},
  };
  for (const auto& [typed, line] : lines) EXPECT_EQ(completed(typed), line);
}

TEST_P(Completion, CompletesCommandsOfTheOtherPrograms) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"scalai policies tire", "scalai policies tiresias"},
      {"scalai breakeven elastic.textproto --policies=srtf,tire",
       "scalai breakeven elastic.textproto --policies=srtf,tiresias"},
      {"scalai import phil", "scalai import philly"},
      {"scalai data ind", "scalai data index"},
      {"scalai data show --global-b", "scalai data show --global-batch="},
      {"scalai checkpoint ver", "scalai checkpoint verify"},
  };
  const auto there = [](const char* program) { return fs::exists(kPrograms / program); };
  if (there("scalai-sim")) {
    lines.emplace_back("scalai sim --netw", "scalai sim --network=");
    lines.emplace_back("scalai sim --strategy=reshard,ten", "scalai sim --strategy=reshard,tenplex");
    lines.emplace_back("scalai sim elas", "scalai sim elastic.textproto");
  }
  if (there("scalai-exec")) {
    lines.emplace_back("scalai exec cali", "scalai exec calibrate");
    lines.emplace_back("scalai exec ctl st", "scalai exec ctl status");
    lines.emplace_back("scalai exec ctl resize --gp", "scalai exec ctl resize --gpus=");
    lines.emplace_back("scalai exec --backend=cu", "scalai exec --backend=cuda");
  }
  if (there("scalai-fs")) {
    lines.emplace_back("scalai fs repa", "scalai fs repartition");
    lines.emplace_back("scalai fs mount rep", "scalai fs mount reports/");
  }
  for (const auto& [typed, line] : lines) EXPECT_EQ(completed(typed), line);
}

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& test) { return test.param; });

}  // namespace completion_command_test
