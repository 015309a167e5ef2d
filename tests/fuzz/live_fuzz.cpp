// What a controller answers to readers of a job's state, with fields changed: 'L' a step, 'S' other readers that have
// its blocks. Readers and `scalai sync` may refuse it, or read less, but must not crash, hang or take up much memory.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/live/live_run.h"
#include "executor/live/live_stats.h"
#include "executor/sync/sync_plan.h"
#include "executor/worker/box_stats.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/proto/collection.pb.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using namespace scalai::executor;
using tensor::Box;

// Holders that have all of it, all zeros.
class Zeros final : public transport::PeerTransport {
 public:
  std::string address() const override { return "here"; }
  absl::Status connect(HostId, std::string_view address) override {
    return address.empty() ? absl::InvalidArgumentError("no address") : absl::OkStatus();
  }
  absl::Status fetch(HostId peer, std::string_view, std::span<const std::span<std::byte>> dst,
                     transport::Deadline) override {
    if (peer.value % 5 == 4) return absl::NotFoundError("not here");
    for (const std::span<std::byte> part : dst) std::fill(part.begin(), part.end(), std::byte{0});
    return absl::OkStatus();
  }
  void close() override {}
};

constexpr const char* kCollection = R"(
schema_version: 1 name: "tp2,dp2" epoch: 2 meshes { axes { name: "tp" size: 2 } axes { name: "dp" size: 2 } } devices: "0-3"
tensors { name: "w" dtype: "F32" shape: [8, 512] cuts { axis: "tp" dim: 0 } }
tensors { name: "b" dtype: "BF16" shape: [6] cuts { axis: "tp" dim: 0 } }
tensors { name: "m" dtype: "F32" shape: [8, 512] kind: MASTER cuts { axis: "tp" dim: 0 } }
)";
constexpr int64_t kDigestBytes = 4096;

proto::LiveState sound() {
  proto::LiveState live;
  live.set_ready(true);
  live.set_name("a");
  live.set_version(state::StateVersion::live(1).wire());
  live.set_step(5);
  live.set_collection(kCollection);
  live.set_digest_bytes(kDigestBytes);
  for (int host = 0; host < 2; ++host) {
    live.add_gpus_of_host(2);
    live.add_tensors(host);
    proto::Peer& peer = *live.add_peers();
    peer.set_host(host);
    peer.set_host_name("elsewhere");
    peer.set_transport_address("x");
    peer.add_places()->set_place("h" + std::to_string(host) + ".mem");
    peer.mutable_places(0)->set_fd(-1);
    const Box box({4 * host, 0}, {4 * host + 4, 512});
    proto::BoxDigests& digests = *live.add_digests();
    worker::set_box(box, TensorId(0), tensor::DType::kF32, *digests.mutable_box());
    for (int piece = 0; piece < 2; ++piece) digests.add_digests(9);
    proto::BoxStats& stats = *live.add_stats();
    worker::set_stats({.elements = box.volume(), .zeros = box.volume(), .min = 0, .max = 0}, stats);
    *stats.mutable_box() = digests.box();
  }
  return live;
}

proto::LiveSources sound_sources() {
  proto::LiveSources told;
  told.add_sources()->set_reader(7);
  told.mutable_sources(0)->set_transport_address("y");
  told.add_blocks()->add_sources(0);
  return told;
}

void change_collection(std::string& text, Random& random) {
  proto::CollectionFile message;
  text = fuzz::mutate_textproto(text, kCollection, message, random);
}

std::string change(std::string_view input, Random& random) {
  static const fuzz::Nested nested = {{"scalai.proto.LiveState.collection", change_collection}};
  const std::string_view rest = input.substr(std::min<size_t>(1, input.size()));
  if (input.empty() ? random.below(4) != 0 : input[0] != 'S') {
    proto::LiveState live;
    return "L" + fuzz::mutate_bytes(rest, sound().SerializeAsString(), live, random, nested);
  }
  proto::LiveSources told;
  return "S" + fuzz::mutate_bytes(rest, sound_sources().SerializeAsString(), told, random);
}

void read(const live::LiveStep& step) {
  constexpr int64_t kMost = int64_t{1} << 16;  // bytes of a tensor
  const store::Checkpoint& whole = *step.checkpoint();
  for (size_t i = 0; i < std::min<size_t>(whole.tensors().size(), 20); ++i) {
    const Box box = Box::whole(whole.tensors()[i].shape);
    const int64_t bytes = box.volume() * tensor::size_of(whole.tensors()[i].dtype);
    std::string into(static_cast<size_t>(std::min(bytes, kMost)), '?');
    if (bytes <= kMost) (void)whole.read(i, box, std::as_writable_bytes(std::span(into)));
  }
  (void)live::stats_of_step(step, {0});
}

void receive(const live::LiveStep& step) {
  const auto digests = sync::digests_of(step.state()), before = sync::digests_of(sound());
  SCALAI_CHECK(digests.ok() && before.ok(), "digests that were checked");
  sync::SyncTarget target{.layout = {}, .dtype = {}, .gpus_of_host = {2}};
  target.layout.layout = collection::ParallelConfig{.dp = 2};
  const auto plan = sync::plan_sync(step, target);
  if (!plan.ok()) return;
  proto::Foreign foreign;
  for (const sync::StepDigests* const earlier : {&*digests, &*before})
    SCALAI_CHECK(step.state().digest_bytes() == 0 ||
                 sync::set_changes(*plan, *earlier, *digests, step.state().digest_bytes(), foreign).ok());
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, change);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  proto::LiveState live;
  const bool is_step = data[0] != 'S';
  // Its own memory is nobody's to map here: all is elsewhere.
  if (is_step && !live.ParseFromString(rest)) return 0;
  if (!is_step) live = sound();
  live.set_force_network(true);
  const std::string step_text = live.SerializeAsString(),
                    sources = is_step ? sound_sources().SerializeAsString() : rest;
  Zeros transport;
  live::LiveRun run(
      {.place = "the run",
       .patience_s = 0,
       .kept_bytes = int64_t{1} << 20,
       .transport = &transport,
       .served = std::make_shared<live::ServedBlocks>(),
       .ask = [&](const proto::CtlRequest& request) { return request.live().has_touch() ? sources : step_text; }});
  const auto step = run.newest("a");
  if (!step.ok()) {
    SCALAI_CHECK(!message_of(step.status()).empty());
    return 0;
  }
  read(**step);
  receive(**step);
  return 0;
}
