// The other process of peer_segment_test: an owner of state that obeys lines of standard input, or a reader. Both
// answer on standard error.
//   executor_state_peer owner|reader … with SCALAI_PEER_NOBODY=1: gives up root's rights first; SCALAI_PEER_CLOSED=1:
//   an owner whose memory nobody may read.

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "executor/state/content.h"
#include "executor/state/directory.h"
#include "executor/state/peer_segment.h"
#include "executor/state/store.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
constexpr TensorId kTensor(4);
const VersionKey kKey{0, StateVersion::epoch(1)};
const tensor::Shape kShape{256, 64};
const Box kBox = Box::whole(kShape);

Content content_of(int64_t step) { return {ContentKey::of("w"), kShape, step}; }

void say(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());  // not buffered
}

// Directories of changing length, each of which says its length by its bytes.
void publish_often(Segment& segment, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    const auto size = static_cast<size_t>((i * 7919) % 30000);
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(size % 251));
    SCALAI_CHECK(segment.publish(bytes).ok());
  }
}

void rewrite_often(Store& store, const Target& target, int64_t times) {
  for (int64_t step = 1; step <= times; ++step) {
    store.begin_rewrite();
    fill_box(content_of(step), kBox, target);
    store.end_rewrite();
    ::usleep(200);
  }
}

int own() {
  auto store = Store::create({.name = "peer"});
  SCALAI_CHECK(store.ok(), message_of(store.status()));
  auto target = (*store)->add(kKey, kTensor, kBox, DType::kF32);
  SCALAI_CHECK(target.ok(), message_of(target.status()));
  fill_box(content_of(0), kBox, *target);
  SCALAI_CHECK((*store)->publish(kKey).ok());
  auto bare = Segment::create({.name = "bare"});
  SCALAI_CHECK(bare.ok(), message_of(bare.status()));
  const SegmentAddress a = (*store)->address();
  const SegmentAddress b = bare->address();
  say(fmt::format("{} {} {} {} {}", a.pid, a.fd, a.token, b.fd, b.token));
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    const std::string command(line);
    if (command == "publish\n") publish_often(*bare, 20000);
    if (command == "rewrite\n") rewrite_often(**store, *target, 500);
    if (command == "drop\n") (*store)->drop(kKey);
    say("done");
  }
  return 0;
}

std::string read(const SegmentAddress& address) {
  const absl::StatusOr<PeerSegment> peer = PeerSegment::open(address);
  if (!peer.ok()) return peer.status().ToString();
  const uint64_t epoch = peer->epoch();
  const absl::StatusOr<std::vector<std::byte>> bytes = peer->directory();
  if (!bytes.ok()) return bytes.status().ToString();
  const absl::StatusOr<Directory> directory = Directory::parse(*bytes, peer->capacity());
  if (!directory.ok()) return directory.status().ToString();
  const std::vector<Piece> found = directory->find(kKey, kTensor, kBox);
  if (!cover(found, kBox)) return "not held";
  const std::optional<Mismatch> mismatch = check_box(content_of(0), kBox, found.front().source(peer->base()));
  if (mismatch) return mismatch->str();
  return peer->still_valid(epoch) ? "right" : "changed";
}

int main_with(int count, char** arguments) {
  if (std::getenv("SCALAI_PEER_NOBODY") != nullptr && ::geteuid() == 0) {
    constexpr unsigned kNobody = 65534;
    SCALAI_CHECK(::setresgid(kNobody, kNobody, kNobody) == 0 && ::setresuid(kNobody, kNobody, kNobody) == 0);
    // As for a program that the user has started.
    SCALAI_CHECK(::prctl(PR_SET_DUMPABLE, 1) == 0);
  }
  if (std::getenv("SCALAI_PEER_CLOSED") != nullptr) SCALAI_CHECK(::prctl(PR_SET_DUMPABLE, 0) == 0);
  if (count == 2) return own();
  SCALAI_CHECK(count == 5);
  say(read({std::atoi(arguments[2]), std::atoi(arguments[3]), std::strtoull(arguments[4], nullptr, 10)}));
  return 0;
}
}  // namespace
}  // namespace scalai::executor::state

int main(int count, char** arguments) { return scalai::executor::state::main_with(count, arguments); }
