#include "executor/trainers/trainers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "executor/rpc/token.h"
#include "ptc/base/file.h"
#include "ptc/base/guarded_group.h"
#include "ptc/base/json.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/base/work_done.h"

namespace scalai::executor::trainers {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

namespace {

constexpr size_t kMostTrainers = 4096;           // of one host
constexpr size_t kMostMessageBytes = 64u << 20;  // a longer one is no message of ours
constexpr double kAttach_s = 300;                // frameworks take long to be imported
constexpr double kLeave_s = 30;                  // from the order to the end of the process
constexpr double kEnd_s = 10;                    // from the end of the connection to the end of the process
constexpr int kPoll_ms = 200;

absl::Status no_shared(const char* what) {
  return absl::UnavailableError(fmt::format("cannot make {}: {}", what, std::strerror(errno)));
}

bool has_problem(const std::string& message) {
  const json said = read_json(message).value_or(json());
  return !said.is_object() || said.value("problem", json("")) != json("");
}

// With its first byte go the descriptors. False: nobody reads any more.
bool send_all(int socket, std::string_view text, const std::vector<int>& descriptors = {}) {
  SCALAI_CHECK(descriptors.size() <= Trainers::kMostDescriptors);
  const size_t bytes = descriptors.size() * sizeof(int);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(Trainers::kMostDescriptors * sizeof(int))> control{};
  bool first = !descriptors.empty();
  while (!text.empty()) {
    iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (first) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    first = false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

struct Trainers::Shared {
  FileDescriptor memory;
  std::atomic<uint64_t>* words = nullptr;
  GuardedGroup group;  // of the trainers

  static constexpr size_t kBytes = kMostTrainers * sizeof(uint64_t);

  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (words != nullptr) ::munmap(words, kBytes);
  }

  absl::Status open() {
    static_assert(std::atomic<uint64_t>::is_always_lock_free, "the words are shared between processes");
    memory = FileDescriptor(::memfd_create("scalai.words", MFD_CLOEXEC));
    if (memory.get() < 0 || ::ftruncate(memory.get(), kBytes) != 0) return no_shared("the words of trainers");
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (mapped == MAP_FAILED) return no_shared("the words of trainers");
    words = static_cast<std::atomic<uint64_t>*>(mapped);
    absl::StatusOr<GuardedGroup> started = GuardedGroup::start();
    if (!started.ok()) return absl::UnavailableError(message_of(started.status()));
    group = *std::move(started);
    return absl::OkStatus();
  }
};

absl::StatusOr<std::unique_ptr<Trainers>> Trainers::create(TrainerProgram program) {
  auto shared = std::make_unique<Shared>();
  SCALAI_RETURN_IF_ERROR(shared->open());
  return std::unique_ptr<Trainers>(new Trainers(std::move(program), std::move(shared)));
}

Trainers::Trainers(TrainerProgram program, std::unique_ptr<Shared> shared)
    : program_(std::move(program)), shared_(std::move(shared)) {}

Trainers::~Trainers() { (void)dismiss(devices()); }

std::vector<DeviceId> Trainers::devices() const {
  std::vector<DeviceId> list;
  for (const auto& [device, trainer] : trainers_) list.push_back(device);
  return list;
}

bool Trainers::running(DeviceId device) {
  const auto found = trainers_.find(device);
  return found != trainers_.end() && found->second.process && !found->second.process->poll();
}

absl::Status Trainers::start(const std::vector<DeviceId>& devices) {
  SCALAI_RETURN_IF_ERROR(make_folders(program_.logs));
  for (const DeviceId device : devices) {
    if (!running(device)) SCALAI_RETURN_IF_ERROR(start(device, trainers_[device]));
  }
  return absl::OkStatus();
}

absl::Status Trainers::start(DeviceId device, Trainer& trainer) {
  if (trainer.process) (void)end_of(device, trainer);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return no_shared("a socket for a trainer");
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  struct stat is {};
  if (::fstat(theirs.get(), &is) != 0) return no_shared("a socket for a trainer");
  rpc::ProcessOptions options{
      .binary = "/bin/sh",
      // The run's secret is not theirs.
      .arguments = {"sh", "-c", fmt::format("cd -- \"$0\" && exec env -u {} {}", rpc::kTokenVariable, program_.command),
                    program_.folder},
      // The inode tells the socket from a file that a program between has opened in its place.
      .environment = {{"SCALAI_WORKER", fmt::format("{}:{}", SpawnOptions::kPassed, is.st_ino)},
                      {"SCALAI_DEVICE", std::to_string(device.value)}},
      .log_file = fmt::format("{}/g{}.log", program_.logs, device.value),
      .passes = theirs.get(),
      .joins = shared_->group.id()};
  constexpr const char* kGloo = "GLOO_SOCKET_IFNAME";
  if (!program_.interface.empty() && std::getenv(kGloo) == nullptr)
    options.environment.emplace_back(kGloo, program_.interface);
  SCALAI_ASSIGN_OR_RETURN(trainer.process, rpc::Process::start(options));
  trainer.socket = std::move(ours);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Trainers::receive(Trainer& trainer) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::recv(trainer.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0) return absl::UnavailableError("it closed its connection to the worker");
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::vector<std::string>();
    return absl::UnavailableError(std::strerror(errno));
  }
  trainer.received.append(buffer.data(), static_cast<size_t>(got));
  std::vector<std::string> answers;
  size_t begin = 0;
  for (size_t end = trainer.received.find('\n'); end != std::string::npos; end = trainer.received.find('\n', begin)) {
    std::string message = trainer.received.substr(begin, end - begin);
    begin = end + 1;
    const json said = read_json(message).value_or(json());
    if (!said.is_object()) return invalid("it sent what is no message");
    if (said.contains("device")) {
      trainer.attached = true;
    } else if (!trainer.attached) {
      return invalid("it spoke before it said its device");
    } else if (!said.contains("done")) {
      trainer.notes.push_back(std::move(message));
    } else {
      trainer.attached = said.value("anew", json()) != json(true);
      answers.push_back(std::move(message));
    }
  }
  trainer.received.erase(0, begin);
  if (trainer.received.size() > kMostMessageBytes) return invalid("it sent what is no message");
  return answers;
}

std::vector<std::string> Trainers::take_notes(DeviceId device) {
  const auto found = trainers_.find(device);
  return found == trainers_.end() ? std::vector<std::string>() : std::exchange(found->second.notes, {});
}

void Trainers::wait_for_news(int timeout_ms) {
  std::vector<pollfd> watched;
  for (const auto& [device, trainer] : trainers_) {
    if (!trainer.process) continue;
    watched.push_back({.fd = trainer.socket.get(), .events = POLLIN, .revents = 0});
    watched.push_back({.fd = trainer.process->pidfd(), .events = POLLIN, .revents = 0});
  }
  ::poll(watched.data(), watched.size(), timeout_ms);
}

std::string Trainers::end_of(DeviceId device, Trainer& trainer, const absl::Status& why) {
  if (!trainer.process) return "it does not run";
  // One that closes its connection mostly ends; one that says what it must not goes on.
  std::optional<rpc::ProcessEnd> end = absl::IsInvalidArgument(why) ? std::nullopt : trainer.process->wait(kEnd_s);
  // What it had sent counts. Its children may keep the connection open, so it need not end.
  for (size_t before = SIZE_MAX; trainer.notes.size() != before;) {
    before = trainer.notes.size();
    if (!receive(trainer).ok()) break;
  }
  trainer.socket = FileDescriptor();
  trainer.received.clear();
  trainer.attached = false;
  std::string how = end ? end->str() : "";
  if (!end) {
    (void)trainer.process->kill();
    end = trainer.process->wait(kEnd_s);
    how = end ? fmt::format("killed: {}", why.ok() ? "it did not end" : message_of(why)) : "does not end";
  }
  trainer.process.reset();
  return fmt::format("{}, see {}/g{}.log", how, program_.logs, device.value);
}

std::optional<Trainers::Answer> Trainers::answer_to(const Order& order, std::set<DeviceId>& told, bool in_time) {
  const DeviceId device = order.device;
  Trainer& trainer = trainers_[device];
  const auto gone = [&](const absl::Status& why = absl::OkStatus()) {
    return Answer{device, "", end_of(device, trainer, why)};
  };
  const bool alive = running(device);  // its children may keep the connection open
  if (!alive && !trainer.process) return gone();
  if (!trainer.attached) {
    if (!in_time) (void)trainer.process->kill();
    const absl::Status received = receive(trainer).status();
    if (!received.ok() || !alive || !in_time) return gone(received);
    if (!trainer.attached) return std::nullopt;
  }
  if (order.what.empty()) return alive ? Answer{device, "", ""} : gone();
  if (told.insert(device).second) {
    if (!send_all(trainer.socket.get(), order.what + "\n", order.descriptors)) return gone();
    return std::nullopt;
  }
  const absl::StatusOr<std::vector<std::string>> answers = receive(trainer);
  if (answers.ok() && !answers->empty()) return Answer{device, answers->back(), ""};
  if (!answers.ok() || !alive) return gone(answers.status());
  return std::nullopt;
}

std::vector<Trainers::Answer> Trainers::tell(std::vector<Order> orders) {
  std::vector<Answer> answers;
  std::set<DeviceId> told;
  std::map<DeviceId, uint64_t> words;
  const auto attached_by = Clock::now() + std::chrono::duration<double>(kAttach_s);
  std::optional<Clock::time_point> patience;  // once one has failed
  while (!orders.empty()) {
    std::erase_if(orders, [&](const Order& order) {
      std::optional<Answer> answer = answer_to(order, told, Clock::now() <= attached_by);
      if (!answer) return false;
      answers.push_back(*std::move(answer));
      return true;
    });
    if (orders.empty()) break;
    const bool broken = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) {
      return !answer.ended.empty() || (!answer.said.empty() && has_problem(answer.said));
    });
    if (broken && !patience)
      patience = Clock::now() +
                 std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(program_.patience_s));
    if (patience && Clock::now() > *patience) {
      for (const Order& order : orders) {
        Trainer& trainer = trainers_[order.device];
        if (trainer.process && trainer.attached) (void)trainer.process->kill();
      }
    }
    wait_for_news(kPoll_ms);
    for (const Order& order : orders) {  // whoever waits for us can see that there is work
      const uint64_t now = shared_->words[slot(order.device)];
      if (std::exchange(words[order.device], now) != now || !told.contains(order.device)) note_work_done();
    }
  }
  return answers;
}

absl::Status Trainers::dismiss(const std::vector<DeviceId>& devices) {
  absl::Status status = absl::OkStatus();
  for (const DeviceId device : devices) {
    const auto found = trainers_.find(device);
    if (found != trainers_.end() && found->second.attached)
      send_all(found->second.socket.get(), "{\"do\":\"leave\"}\n");
  }
  const auto until = Clock::now() + std::chrono::duration<double>(kLeave_s);
  for (const DeviceId device : devices) {
    const auto found = trainers_.find(device);
    if (found == trainers_.end()) continue;
    Trainer& trainer = found->second;
    if (trainer.process && !trainer.attached) (void)trainer.process->kill();
    if (trainer.process) {
      const auto end = trainer.process->wait(std::chrono::duration<double>(until - Clock::now()).count());
      if (!end) (void)trainer.process->kill();
      if (status.ok() && trainer.attached && !(end && end->ok()))
        status = failed(fmt::format("the trainer of g{} did not leave in order: {}, see {}/g{}.log", device.value,
                                    end ? end->str() : "killed", program_.logs, device.value));
    }
    (void)end_of(device, trainer);
    trainers_.erase(found);
  }
  return status;
}

void Trainers::kill(const std::vector<DeviceId>& devices) {
  for (const DeviceId device : devices) {
    const auto found = trainers_.find(device);
    if (found == trainers_.end()) continue;
    if (found->second.process) (void)found->second.process->kill();
    (void)end_of(device, found->second);
    trainers_.erase(found);
  }
}

size_t Trainers::slot(DeviceId device) {
  const auto [found, fresh] = slots_.emplace(device, slots_.size());
  SCALAI_CHECK(found->second < kMostTrainers, "a host has at most this many trainers");
  return found->second;
}

Trainers::Word Trainers::word(DeviceId device) const {
  const auto found = slots_.find(device);
  const uint64_t word = found == slots_.end() ? 0 : shared_->words[found->second].load();
  return {static_cast<int64_t>(word / 2), word % 2 != 0};
}

void Trainers::set_word(DeviceId device, int64_t step) {
  shared_->words[slot(device)] = static_cast<uint64_t>(step) * 2;
}

std::pair<int, size_t> Trainers::place_of_word(DeviceId device) {
  return {shared_->memory.get(), slot(device) * sizeof(uint64_t)};
}

}  // namespace scalai::executor::trainers
