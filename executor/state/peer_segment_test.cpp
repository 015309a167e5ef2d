#include "executor/state/peer_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "executor/state/directory.h"
#include "executor/state/testing/support.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
constexpr TensorId kTensor(4);
const VersionKey kKey{0, StateVersion::epoch(1)};
const tensor::Shape kShape{256, 64};
const Box kBox = Box::whole(kShape);

Content content_of(int64_t step) { return {ContentKey::of("w"), kShape, step}; }

// A process of peer_main.cpp with pipes to its standard input and from its standard error.
class Process {
 public:
  Process(std::vector<std::string> arguments, const SpawnOptions::Variables& environment) {
    int in[2];
    int out[2];
    SCALAI_CHECK(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0);
    arguments.insert(arguments.begin(), SCALAI_BINARY_DIR "/bin/executor_state_peer");
    const SpawnOptions options{.program = arguments.front(),
                               .words = arguments,
                               .ends = {in[0], SpawnOptions::kInherit, out[1]},
                               .environment = environment,
                               .inherit_environment = false};
    const absl::StatusOr<pid_t> pid = spawn(options);
    SCALAI_CHECK(pid.ok(), message_of(pid.status()));
    pid_ = *pid;
    ::close(in[0]);
    ::close(out[1]);
    to_ = ::fdopen(in[1], "w");
    from_ = ::fdopen(out[0], "r");
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    std::fclose(to_);
    std::fclose(from_);
    if (pid_ > 0) stop(SIGKILL);
  }
  void tell(const std::string& line) {
    std::fputs((line + "\n").c_str(), to_);
    std::fflush(to_);
  }
  std::string line() {
    std::array<char, 1024> text{};
    if (std::fgets(text.data(), text.size(), from_) == nullptr) return "";
    std::string read(text.data());
    return read.substr(0, read.size() - 1);
  }
  void signal(int number) const { ::kill(pid_, number); }
  void stop(int number) {
    ::kill(pid_, number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

class Owner : public Process {
 public:
  explicit Owner(const SpawnOptions::Variables& environment = {}) : Process({"owner"}, environment) {
    std::istringstream numbers(line());
    numbers >> store.pid >> store.fd >> store.token >> bare.fd >> bare.token;
    bare.pid = store.pid;
  }
  SegmentAddress store;  // holds kBox with the content of step 0, published
  SegmentAddress bare;   // a segment without a store
};

std::string read_by_nobody(const SegmentAddress& address) {
  Process reader({"reader", std::to_string(address.pid), std::to_string(address.fd), std::to_string(address.token)},
                 {{"SCALAI_PEER_NOBODY", "1"}});
  return reader.line();
}

Source found_in(const PeerSegment& peer) {
  const Directory directory = value_or_die(Directory::parse(value_or_die(peer.directory()), peer.capacity()));
  const std::vector<Piece> found = directory.find(kKey, kTensor, kBox);
  SCALAI_CHECK(cover(found, kBox) && found.size() == 1);
  return found.front().source(peer.base());
}

TEST(PeerSegment, ReadsTheStateOfAnotherProcess) {
  Owner owner;
  const PeerSegment peer = value_or_die(PeerSegment::open(owner.store));
  EXPECT_TRUE(peer.alive());
  const uint64_t epoch = peer.epoch();
  EXPECT_EQ(check_box(content_of(0), kBox, found_in(peer)), std::nullopt);
  EXPECT_TRUE(peer.still_valid(epoch));
  owner.tell("drop");
  EXPECT_EQ(owner.line(), "done");
  EXPECT_FALSE(peer.still_valid(epoch));
  EXPECT_TRUE(value_or_die(Directory::parse(value_or_die(peer.directory()), peer.capacity())).versions().empty());
}

// Siblings of one user without any privilege, neither a parent of the other: what ptrace_scope 1 is about.
TEST(PeerSegment, UnprivilegedSiblingsRead) {
  Owner owner(SpawnOptions::Variables{{"SCALAI_PEER_NOBODY", "1"}});
  EXPECT_EQ(read_by_nobody(owner.store), "right");
}

TEST(PeerSegment, SaysWhatToDoWithoutPermission) {
  Owner closed(SpawnOptions::Variables{{"SCALAI_PEER_NOBODY", "1"}, {"SCALAI_PEER_CLOSED", "1"}});
  const std::string status = read_by_nobody(closed.store);
  EXPECT_NE(status.find("PERMISSION_DENIED"), std::string::npos) << status;
  EXPECT_NE(status.find("same user"), std::string::npos) << status;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  Owner of_root;
  EXPECT_NE(read_by_nobody(of_root.store).find("PERMISSION_DENIED"), std::string::npos);
}

// Directories are whole and of one moment, however often the owner changes them.
TEST(PeerSegment, DirectoriesAreNeverTorn) {
  Owner owner;
  const PeerSegment peer = value_or_die(PeerSegment::open(owner.bare));
  owner.tell("publish");
  std::vector<size_t> sizes;
  for (int i = 0; i < 3000; ++i) {
    const absl::StatusOr<std::vector<std::byte>> bytes = peer.directory();
    ASSERT_OK(bytes.status());
    const auto mark = static_cast<std::byte>(bytes->size() % 251);
    ASSERT_EQ(std::count(bytes->begin(), bytes->end(), mark), static_cast<std::ptrdiff_t>(bytes->size()));
    sizes.push_back(bytes->size());
  }
  EXPECT_EQ(owner.line(), "done");
  EXPECT_EQ(value_or_die(peer.directory()).size(), 19999u * 7919 % 30000);
}

// What the epoch accepts is the content of one step.
TEST(PeerSegment, CopiesDuringARewriteDoNotCount) {
  Owner owner;
  const PeerSegment peer = value_or_die(PeerSegment::open(owner.store));
  const Source source = found_in(peer);
  std::vector<std::vector<std::byte>> expected;
  for (int64_t step = 0; step <= 500; ++step) {
    expected.emplace_back(static_cast<size_t>(packed_bytes(kBox, DType::kF32)));
    fill_box(content_of(step), kBox, {kBox, DType::kF32, expected.back().data()});
  }
  owner.tell("rewrite");
  std::vector<std::byte> copy(expected.front().size());
  size_t step = 0;
  int accepted = 0;
  while (step < 500) {
    const uint64_t epoch = peer.epoch();
    pack_box(kBox, source, DType::kF32, copy.data());
    if (!peer.still_valid(epoch)) continue;
    ++accepted;
    while (step <= 500 && copy != expected[step]) ++step;  // steps only go up
    ASSERT_LE(step, 500u) << "a mixture of steps, or an older one, after " << accepted << " copies";
  }
  EXPECT_EQ(owner.line(), "done");
}

TEST(PeerSegment, ADeadOwnersMemoryDoesNotCount) {
  Owner owner;
  const PeerSegment peer = value_or_die(PeerSegment::open(owner.store));
  const Source source = found_in(peer);
  const uint64_t epoch = peer.epoch();
  std::vector<std::byte> copy(static_cast<size_t>(packed_bytes(kBox, DType::kF32)));
  owner.signal(SIGKILL);
  while (peer.still_valid(epoch)) pack_box(kBox, source, DType::kF32, copy.data());
  // Mapped still, with the old bytes and the old epoch: only its death tells.
  pack_box(kBox, source, DType::kF32, copy.data());
  EXPECT_EQ(check_box(content_of(0), kBox, {kBox, DType::kF32, copy.data()}), std::nullopt);
  EXPECT_EQ(peer.epoch(), epoch);
  EXPECT_FALSE(peer.alive());
  EXPECT_FALSE(peer.still_valid(epoch));
  EXPECT_EQ(peer.directory().status().code(), absl::StatusCode::kUnavailable);
  const absl::Status zombie = PeerSegment::open(owner.store).status();
  EXPECT_EQ(zombie.code(), absl::StatusCode::kUnavailable) << message_of(zombie);
  owner.stop(SIGKILL);
  const absl::Status reaped = PeerSegment::open(owner.store).status();
  EXPECT_EQ(reaped.code(), absl::StatusCode::kUnavailable) << message_of(reaped);
  EXPECT_FALSE(peer.alive());
}

// A process that ends closes its files before others can see that it has ended: here 0.3 s before.
TEST(PeerSegment, AnOwnerThatEndsIsGoneWhenItsFilesAre) {
  const Segment segment = value_or_die(Segment::create({}));
  const pid_t ending = ::fork();
  if (ending == 0) {
    ::usleep(300'000);
    ::_exit(0);
  }
  ASSERT_GT(ending, 0);
  const absl::Status status = PeerSegment::open({ending, 9999, segment.address().token}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << message_of(status);
  EXPECT_EQ(::waitpid(ending, nullptr, 0), ending);
}

// A killed owner may have been in the middle of a change.
TEST(PeerSegment, AnOwnerKilledWhilePublishing) {
  for (int i = 0; i < 20; ++i) {
    Owner owner;
    const PeerSegment peer = value_or_die(PeerSegment::open(owner.bare));
    owner.tell("publish");
    for (int reads = 0; reads < i; ++reads) EXPECT_OK(peer.directory().status());
    owner.stop(SIGKILL);
    EXPECT_EQ(peer.directory().status().code(), absl::StatusCode::kUnavailable);
  }
}

// On a machine with more work than cores it may have to wait in the middle of a change.
TEST(PeerSegment, AnOwnerThatPausesWhilePublishing) {
  Segment segment = value_or_die(Segment::create({}));
  const PeerSegment peer = value_or_die(PeerSegment::open(segment.address()));
  std::atomic_ref<uint64_t> sequence(*reinterpret_cast<uint64_t*>(segment.data(40)));
  ++sequence;
  std::thread owner([&] {
    ::usleep(800'000);
    ++sequence;
  });
  EXPECT_OK(peer.directory().status());
  EXPECT_EQ(sequence % 2, 0U);
  owner.join();
}

TEST(PeerSegment, RefusesWhatIsNoSegment) {
  const Segment segment = value_or_die(Segment::create({}));
  const SegmentAddress right = segment.address();
  EXPECT_OK(PeerSegment::open(right).status());
  const auto code = [](const SegmentAddress& address) { return PeerSegment::open(address).status().code(); };
  EXPECT_EQ(code({right.pid, right.fd, right.token + 1}), absl::StatusCode::kNotFound);
  EXPECT_EQ(code({right.pid, 9999, right.token}), absl::StatusCode::kNotFound);
  EXPECT_EQ(code({-3, right.fd, right.token}), absl::StatusCode::kInvalidArgument);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  EXPECT_EQ(code({right.pid, pipe[0], right.token}), absl::StatusCode::kInvalidArgument);
  const int file = ::open(SCALAI_SOURCE_DIR "/README.md", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(code({right.pid, file, right.token}), absl::StatusCode::kInvalidArgument);
  for (const int fd : {pipe[0], pipe[1], file}) ::close(fd);
}

TEST(PeerSegment, NamesBothVersions) {
  const Segment segment = value_or_die(Segment::create({}));
  segment.data(0)[8] = std::byte{77};
  const std::string message = message_of(PeerSegment::open(segment.address()).status());
  EXPECT_NE(message.find("version 77"), std::string::npos) << message;
  EXPECT_NE(message.find("version 1"), std::string::npos) << message;
}

TEST(PeerSegment, SaysWhenTheHeaderMakesNoSense) {
  Segment segment = value_or_die(Segment::create({}));
  const PeerSegment peer = value_or_die(PeerSegment::open(segment.address()));
  EXPECT_TRUE(value_or_die(peer.directory()).empty());
  std::fill_n(segment.data(56), 16, std::byte{0x77});  // offset and size of the directory
  EXPECT_EQ(peer.directory().status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace scalai::executor::state
