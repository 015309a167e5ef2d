#include "near/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::near {
namespace {

constexpr double kEnd_s = 5;

std::vector<std::string> words_for_host(const Host& host, const Launch& launch) {
  if (host.here) return {launch.own_program, "worker"};
  std::vector<std::string> words;
  bool named = false;
  for (std::string word : launch.words) {
    for (size_t at = 0; (at = word.find("{}", at)) != std::string::npos; at += host.name.size()) {
      word.replace(at, 2, host.name);
      named = true;
    }
    words.push_back(std::move(word));
  }
  if (!named) words.push_back(host.name);
  words.push_back(launch.program);
  words.emplace_back("worker");
  return words;
}

// The last line of what the launcher wrote to standard error.
std::string last_line(int fd) {
  std::array<char, 4096> buffer{};
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
  const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), from);
  std::string text(buffer.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const size_t line = text.rfind('\n');
  return printable_text(line == std::string::npos ? text : text.substr(line + 1));
}

// Whether a name that a host sends is one of a file below its folder.
bool is_below(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && name.find('\0') == std::string::npos && !path.is_absolute() &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

bool ended(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; }

}  // namespace

absl::Status check_program(const std::string& program) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+-@%=";
  // Before the first / a = would set a variable.
  const bool sets = program.substr(0, program.find('/')).find('=') != std::string::npos;
  if (!program.empty() && !sets && program.find_first_not_of(kPlain) == std::string::npos) return absl::OkStatus();
  return invalid(fmt::format(
      "\"{}\" has characters that a login shell would read in its own way; give another path with --program", program));
}

absl::StatusOr<std::unique_ptr<Session>> Session::start(const Host& host, const Launch& launch) {
  std::unique_ptr<Session> session(new Session(host, launch.patience_s));
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const FileDescriptor child_in(in[0]);
  session->in_ = FileDescriptor(in[1]);
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  session->out_ = FileDescriptor(out[0]);
  FileDescriptor child_out(out[1]);
  session->errors_ = FileDescriptor(::memfd_create("scalai-near", MFD_CLOEXEC));
  SpawnOptions child{.program = "",
                     .words = words_for_host(host, launch),
                     .ends = {child_in.get(), child_out.get(), session->errors_.get()},
                     .log_file = "",
                     .folder = "",
                     .group = SpawnOptions::Group::kGroup,
                     .close_others = true};
  child.program = child.words[0];
  SCALAI_ASSIGN_OR_RETURN(session->pid_, spawn(child));
  child_out = {};
  SCALAI_ASSIGN_OR_RETURN(const Answer answer, session->next());
  const auto* hello = std::get_if<Hello>(&answer);
  if (hello == nullptr || hello->version != kProtocol)
    return invalid(
        fmt::format("{}: the worker there speaks version {}, this program version {}; install the same release",
                    host.name, hello == nullptr ? 0 : hello->version, kProtocol));
  session->threads_ = std::clamp(hello->threads, 1, 1024);
  return session;
}

Session::~Session() {
  in_ = {};
  out_ = {};
  if (pid_ < 0) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kEnd_s);
  while (!ended(pid_)) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(-pid_, SIGKILL);
      (void)wait_for(pid_);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

absl::Status Session::lost(const absl::Status& why) const {
  const std::string said = last_line(errors_.get());
  const std::string text =
      fmt::format("{}: the worker {}{}", host_.name, message_of(why), said.empty() ? "" : ": " + said);
  return absl::IsInvalidArgument(why) ? invalid(text) : absl::UnavailableError(text);
}

absl::StatusOr<Answer> Session::next() {
  for (;;) {
    absl::StatusOr<Answer> answer = receive_answer(out_.get(), patience_s_);
    if (!answer.ok()) return lost(answer.status());
    if (!std::holds_alternative<Alive>(*answer)) return answer;
  }
}

absl::StatusOr<std::vector<ListedFile>> Session::list() {
  if (const absl::Status sent = send(in_.get(), Work(ListWork{host_.folder, host_.run})); !sent.ok()) return lost(sent);
  SCALAI_ASSIGN_OR_RETURN(Answer answer, next());
  auto* listed = std::get_if<Listed>(&answer);
  if (listed == nullptr) return lost(invalid("answers another question"));
  if (!listed->problem.empty()) return missing(fmt::format("{}: {}", host_.name, listed->problem));
  for (const ListedFile& file : listed->files)
    if (!is_below(file.name) || file.bytes < 0)
      return invalid(
          fmt::format("{}: lists \"{}\", which is no file below the folder", host_.name, printable_text(file.name)));
  return std::move(listed->files);
}

absl::StatusOr<PartEnd> Session::run(const PartWork& work,
                                     const std::function<absl::Status(std::string_view)>& output) {
  if (const absl::Status sent = send(in_.get(), Work(work)); !sent.ok()) return lost(sent);
  int64_t bytes = 0;
  for (;;) {
    SCALAI_ASSIGN_OR_RETURN(Answer answer, next());
    if (const auto* some = std::get_if<Output>(&answer)) {
      bytes += std::ssize(some->bytes);
      SCALAI_RETURN_IF_ERROR(output(some->bytes));
      continue;
    }
    auto* end = std::get_if<PartEnd>(&answer);
    if (end == nullptr) return lost(invalid("answers another question"));
    if (end->problem.empty() && end->output_bytes != bytes) return lost(failed("sent other bytes than it says"));
    return std::move(*end);
  }
}

}  // namespace scalai::near
