#include "executor/nccl/testing/test_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "executor/nccl/testing/support.h"
#include "ptc/base/status.h"

namespace scalai::executor::nccl {
namespace {

std::string to_hex(const NcclUniqueId& id) {
  std::string text;
  for (const char c : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

NcclUniqueId from_hex(const std::string& text) {
  NcclUniqueId id;
  for (size_t i = 0; i < id.bytes.size(); ++i) {
    id.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

absl::Status send_around(Communicator& communicator, size_t bytes, Deadline deadline) {
  const int rank = communicator.rank(), size = communicator.size();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const auto out = message(bytes, rank, next, 0, bytes);
  std::vector<std::byte> got(bytes);
  SCALAI_RETURN_IF_ERROR(communicator.start_group());
  SCALAI_RETURN_IF_ERROR(communicator.send(next, out.data(), bytes, nullptr));
  SCALAI_RETURN_IF_ERROR(communicator.receive(previous, got.data(), bytes, nullptr));
  SCALAI_RETURN_IF_ERROR(communicator.end_group(deadline));
  return got == message(bytes, previous, rank, 0, bytes) ? absl::OkStatus() : absl::DataLossError("wrong bytes");
}

// The process' side.
class Rank {
 public:
  absl::Status execute(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    int64_t time_ms = 0;
    words >> verb >> time_ms;
    const Deadline deadline = in(milliseconds(time_ms));
    if (verb == "join") return join(words, deadline);
    if (!communicator_.has_value()) return absl::FailedPreconditionError("not joined");
    if (verb == "all") {
      uint64_t seed = 0;
      int each = 0;
      words >> seed >> each;
      return all_to_all(*communicator_, seed, each, deadline);
    }
    if (verb == "ring") {
      size_t bytes = 0;
      words >> bytes;
      return send_around(*communicator_, bytes, deadline);
    }
    if (verb == "shrink") {
      const std::vector<int> gone{std::istream_iterator<int>(words), {}};
      SCALAI_ASSIGN_OR_RETURN(Communicator child, communicator_->shrink(gone, deadline));
      communicator_ = std::move(child);
      return absl::OkStatus();
    }
    communicator_->abort();
    return absl::OkStatus();
  }

 private:
  absl::Status join(std::istringstream& words, Deadline deadline) {
    std::string id;
    Communicator::Membership membership;
    words >> id >> membership.rank >> membership.size;
    membership.id = from_hex(id);
    communicator_.reset();
    SCALAI_ASSIGN_OR_RETURN(Communicator joined, Communicator::join(fake_nccl().api(), membership, deadline));
    communicator_ = std::move(joined);
    return absl::OkStatus();
  }

  std::optional<Communicator> communicator_;
};

}  // namespace

int run_rank() {
  Rank rank;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = rank.execute(line);
    const std::string code = absl::StatusCodeToString(status.code());
    const std::string answer =
        fmt::format("{} {}\n", ms_since(begin), status.ok() ? "ok" : code + " " + message_of(status));
    if (::write(STDOUT_FILENO, answer.data(), answer.size()) < 0) return 1;  // nobody listens any more
  }
  return 0;
}

RankProcess::RankProcess(const SpawnOptions::Variables& environment) {
  std::array<int, 2> in{}, out{};
  SCALAI_CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0);
  const SpawnOptions options{.program = "/proc/self/exe",
                             .words = {"/proc/self/exe", kRankArgument},
                             .ends = {in[0], out[1], SpawnOptions::kInherit},
                             .environment = environment};
  const absl::StatusOr<pid_t> pid = spawn(options);
  SCALAI_CHECK(pid.ok(), message_of(pid.status()));
  pid_ = *pid;
  ::close(in[0]);
  ::close(out[1]);
  in_ = fdopen(in[1], "w");
  out_ = fdopen(out[0], "r");
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, nullptr)),
      out_(std::exchange(other.out_, nullptr)) {}

RankProcess& RankProcess::operator=(RankProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  return *this;
}

RankProcess::~RankProcess() {
  if (pid_ > 0) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (in_ != nullptr) std::fclose(in_);
  if (out_ != nullptr) std::fclose(out_);
}

int RankProcess::end() {
  std::fclose(std::exchange(in_, nullptr));
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void RankProcess::join(const NcclUniqueId& id, int rank, int size, int64_t time_ms) {
  tell(fmt::format("join {} {} {} {}", time_ms, to_hex(id), rank, size));
}
void RankProcess::all_to_all(uint64_t seed, int each, int64_t time_ms) {
  tell(fmt::format("all {} {} {}", time_ms, seed, each));
}
void RankProcess::ring(size_t bytes, int64_t time_ms) { tell(fmt::format("ring {} {}", time_ms, bytes)); }
void RankProcess::shrink(const std::vector<int>& gone, int64_t time_ms) {
  tell(fmt::format("shrink {} {}", time_ms, fmt::join(gone, " ")));
}
void RankProcess::abort() { tell("abort 0"); }

RankProcess::Answer RankProcess::answer() {
  std::string text;
  for (int c = std::fgetc(out_); c != EOF && c != '\n'; c = std::fgetc(out_)) text += static_cast<char>(c);
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {"no answer", -1};
  return {text.substr(space + 1), std::stoll(text.substr(0, space))};
}

void RankProcess::tell(const std::string& line) {
  std::fputs((line + "\n").c_str(), in_);
  std::fflush(in_);
}

}  // namespace scalai::executor::nccl
