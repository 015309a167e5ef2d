#include "labs/near/session.h"

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
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

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

// Whether a name that a host sends is one of a file below its folder, as commands are found to name it.
bool is_below(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && name != "." && !name.ends_with('/') && name.find('\0') == std::string::npos &&
         !path.is_absolute() && path.lexically_normal().string() == name &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

// Files of a list that go on after those before; `total`: bytes of them all.
absl::Status check_files(const std::vector<ListedFile>& files, std::string before, int64_t& total) {
  for (const ListedFile& file : files) {
    const std::string name = printable_text(file.name);
    if (!is_below(file.name)) return invalid(fmt::format("lists \"{}\", which is no file below the folder", name));
    if (file.name <= before) return invalid(fmt::format("lists \"{}\" after \"{}\"", name, printable_text(before)));
    if (file.bytes < 0 || file.bytes > kMostListed - total)
      return invalid(fmt::format("lists \"{}\" with {} bytes; at most 2^56 in all are possible", name, file.bytes));
    total += file.bytes;
    before = file.name;
  }
  return absl::OkStatus();
}

// Of the bytes themselves, without commands: so many.
std::optional<int64_t> bytes_asked_for(const PartWork& work) {
  if (!work.stages.empty()) return std::nullopt;
  int64_t bytes = 0;
  for (const Range& range : work.ranges) {
    if (range.records) return std::nullopt;
    bytes += range.end - range.begin;
  }
  return bytes;
}

absl::Status check_end(const PartWork& work, const PartEnd& end, int64_t bytes) {
  if (end.output_bytes != bytes) return failed("sent other bytes than it says");
  if (const auto asked = bytes_asked_for(work); asked && *asked != bytes)
    return invalid(fmt::format("sends {} of the {} bytes that were asked for", bytes, *asked));
  if (end.stages.size() != work.stages.size())
    return invalid(fmt::format("tells of {} commands, and was given {}", end.stages.size(), work.stages.size()));
  for (const StageEnd& stage : end.stages)
    if (stage.status < 0 || stage.status > 255 || stage.signal < 0 || stage.signal > SIGRTMAX)
      return invalid(fmt::format("tells of a command with status {} and signal {}", stage.status, stage.signal));
  return absl::OkStatus();
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
  SCALAI_RETURN_IF_ERROR(session->greet());
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::over(const Host& host, double patience_s, FileDescriptor in,
                                                       FileDescriptor out) {
  std::unique_ptr<Session> session(new Session(host, patience_s));
  session->in_ = std::move(in);
  session->out_ = std::move(out);
  SCALAI_RETURN_IF_ERROR(session->greet());
  return session;
}

absl::Status Session::greet() {
  SCALAI_ASSIGN_OR_RETURN(const Answer answer, next());
  const auto* hello = std::get_if<Hello>(&answer);
  if (hello == nullptr || hello->version != kProtocol)
    return invalid(
        fmt::format("{}: the worker there speaks version {}, this program version {}; install the same release",
                    host_.name, hello == nullptr ? 0 : hello->version, kProtocol));
  threads_ = std::clamp(hello->threads, 1, 1024);
  return absl::OkStatus();
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

absl::Status Session::lost(const absl::Status& why) {
  const std::string said = last_line(errors_.get());
  const std::string text =
      fmt::format("{}: the worker {}{}", host_.name, message_of(why), said.empty() ? "" : ": " + said);
  over_ = absl::UnavailableError(text);
  return absl::IsInvalidArgument(why) && !works_ ? invalid(text) : over_;
}

absl::StatusOr<Answer> Session::next() {
  absl::StatusOr<Answer> answer = receive_answer(out_.get(), patience_s_);
  return answer.ok() ? std::move(answer) : lost(answer.status());
}

absl::StatusOr<std::vector<ListedFile>> Session::list() {
  SCALAI_RETURN_IF_ERROR(over_);
  if (const absl::Status sent = send(in_.get(), Work(ListWork{host_.folder, host_.run})); !sent.ok()) return lost(sent);
  std::vector<ListedFile> files;
  int64_t total = 0;
  for (bool more = true; more;) {
    SCALAI_ASSIGN_OR_RETURN(Answer answer, next());
    if (std::holds_alternative<Alive>(answer)) continue;
    auto* listed = std::get_if<Listed>(&answer);
    if (listed == nullptr) return lost(invalid("answers another question"));
    if (!listed->problem.empty()) return missing(fmt::format("{}: {}", host_.name, listed->problem));
    more = listed->more;
    if ((more && listed->files.empty()) || listed->files.size() > kMostFiles - files.size())
      return lost(invalid(fmt::format("lists no end of files, {} so far", files.size() + listed->files.size())));
    if (const absl::Status checked = check_files(listed->files, files.empty() ? "" : files.back().name, total);
        !checked.ok())
      return lost(checked);
    std::move(listed->files.begin(), listed->files.end(), std::back_inserter(files));
  }
  return files;
}

absl::StatusOr<PartEnd> Session::run(const PartWork& work,
                                     const std::function<absl::Status(std::string_view)>& output) {
  SCALAI_RETURN_IF_ERROR(over_);
  works_ = true;
  if (const absl::Status sent = send(in_.get(), Work(work)); !sent.ok()) return lost(sent);
  const std::optional<int64_t> asked = bytes_asked_for(work);
  int64_t bytes = 0;
  for (;;) {
    SCALAI_ASSIGN_OR_RETURN(Answer answer, next());
    if (std::holds_alternative<Alive>(answer)) continue;
    if (const auto* some = std::get_if<Output>(&answer)) {
      bytes += std::ssize(some->bytes);
      if (asked && bytes > *asked)
        return lost(invalid(fmt::format("sends more than the {} bytes that were asked for", *asked)));
      if (absl::Status taken = output(some->bytes); !taken.ok()) {
        (void)lost(failed("was left amid its answer"));
        return taken;
      }
      continue;
    }
    auto* end = std::get_if<PartEnd>(&answer);
    if (end == nullptr) return lost(invalid("answers another question"));
    const absl::Status checked = end->problem.empty() ? check_end(work, *end, bytes) : absl::OkStatus();
    return checked.ok() ? absl::StatusOr<PartEnd>(std::move(*end)) : lost(checked);
  }
}

}  // namespace scalai::near
