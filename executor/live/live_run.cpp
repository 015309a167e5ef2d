#include "executor/live/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "executor/device/backend.h"
#include "executor/live/blocks.h"
#include "executor/live/holders.h"
#include "executor/rpc/process.h"
#include "executor/rpc/worker_place.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"
#include "ptc/collection/rank_parts.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBlockBytes = int64_t{1} << 20;    // that are fetched at a time
constexpr int64_t kSegmentBytes = int64_t{1} << 20;  // of this process's own place, which stays empty

uint64_t random_number() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

// What reads need: it lives as long as a view of the step does, and does not keep the step.
class Reading {
 public:
  static absl::StatusOr<std::shared_ptr<Reading>> open(proto::LiveState&& live, const LiveOptions& options,
                                                       uint64_t reader);

  absl::Status read(TensorId tensor, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst);
  void end(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (ended_.empty()) ended_ = why;
  }
  bool has_ended() const { return !why_ended().empty(); }
  std::string why_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  const collection::Collection& collection() const { return collection_; }
  std::vector<TensorId> tensors() const {
    std::vector<TensorId> ids;
    for (const int32_t id : live_.tensors()) ids.emplace_back(id);
    return ids;
  }
  const proto::LiveState& live() const { return live_; }

 private:
  // A box that hosts hold: in their memory, or before it is copied there, on a device.
  struct Holder {
    HostId host;
    std::optional<Location> device;
  };
  struct Part {
    int64_t number = 0;
    std::vector<Holder> holders;  // in the order of asking
    bool here = false;            // the first of them is on this machine
  };
  explicit Reading(int64_t kept_bytes) : blocks_(kept_bytes, kBlockBytes) {}
  absl::Status find_holders(uint64_t reader);
  absl::Status fetch(const Part& from, TensorId tensor, const tensor::Box& owned, int64_t offset,
                     std::span<std::byte> dst);
  absl::Status fetch_from(const Part& from, const Holder& holder, TensorId tensor, const tensor::Box& owned,
                          int64_t offset, std::span<std::byte> dst);
  absl::Status fetch_at(const Location& place, TensorId tensor, const tensor::Box& owned, int64_t offset,
                        std::span<std::byte> dst);
  absl::Status gone() const {
    return absl::FailedPreconditionError(
        fmt::format("step {} of job {} is no longer kept: {}", live_.step(), live_.name(), why_ended()));
  }

  proto::LiveState live_;
  collection::Collection collection_;
  VersionKey key_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Places> places_;
  std::map<std::pair<TensorId, tensor::Box>, Part> parts_;
  std::set<Location> mapped_;  // devices whose memory others can map
  Blocks blocks_;
  mutable std::mutex mutex_;
  std::set<std::pair<int64_t, HostId>> copied_;  // parts that no device of a host shows
  std::string ended_;                            // why; empty: it is kept
};

absl::StatusOr<std::shared_ptr<Reading>> Reading::open(proto::LiveState&& live, const LiveOptions& options,
                                                       uint64_t reader) {
  std::shared_ptr<Reading> made(new Reading(options.kept_bytes));
  made->live_ = std::move(live);
  SCALAI_ASSIGN_OR_RETURN(
      collection::CollectionFile file,
      collection::parse_collection(made->live_.collection(), options.place, collection::FileRole::kPlanned));
  made->collection_ = std::move(file.collection);
  SCALAI_ASSIGN_OR_RETURN(const StateVersion version, StateVersion::from_wire(made->live_.version()));
  made->key_ = {made->live_.job(), version};
  made->backend_ = make_host_backend();
  // One more host, without devices: this process.
  std::vector<int> gpus(made->live_.gpus_of_host().begin(), made->live_.gpus_of_host().end());
  gpus.push_back(0);
  made->places_ = std::make_unique<Places>(Places::Options{.host = HostId(std::ssize(gpus) - 1),
                                                           .segments = {.capacity = kSegmentBytes},
                                                           .backend = made->backend_.get(),
                                                           .transport = options.transport});
  SCALAI_RETURN_IF_ERROR(made->places_->setup(gpus));
  std::vector<WorkerJoined> workers;
  for (const proto::Peer& peer : made->live_.peers()) {
    WorkerJoined& one = workers.emplace_back();
    one.host = peer.host();
    one.hello.transport_address = peer.transport_address();
    one.hello.host_name = peer.host_name();
    for (const proto::WorkerPlace& place : peer.places()) {
      const auto parsed = parse_place(place.place());
      const bool device = parsed && parsed->kind == Location::Kind::kDevice;
      if (!parsed || (device && place.fd() < 0)) continue;
      if (device) made->mapped_.insert(*parsed);
      one.hello.places.push_back(unpack(place));
    }
  }
  SCALAI_RETURN_IF_ERROR(made->places_->peers(workers, made->live_.force_network()));
  SCALAI_RETURN_IF_ERROR(made->find_holders(reader));
  return made;
}

// Hosts of this machine come first; of the others each reader begins at another one, so that none has all readers.
absl::Status Reading::find_holders(uint64_t reader) {
  std::map<HostId, bool> here;
  for (const proto::Peer& peer : live_.peers())
    here[HostId(peer.host())] = !live_.force_network() && peer.host_name() == machine_name();
  std::map<std::pair<TensorId, tensor::Box>, std::map<HostId, std::vector<Location>>> found;
  for (size_t i = 0; i < collection_.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    for (const collection::RankPart& part : rank_parts(collection_, tensor)) {
      std::map<HostId, std::vector<Location>> hosts;
      for (const LogicalRank rank : part.ranks) {
        const Location device = Location::device(collection_.device_of_rank[static_cast<size_t>(rank.value)]);
        if (!places_->in_cluster(device)) return invalid(fmt::format("{} is on no host", device.str()));
        const HostId host = places_->host_of(device);
        if (!here.contains(host)) continue;  // it was lost before
        std::vector<Location>& devices = hosts[host];
        if (mapped_.contains(device)) devices.push_back(device);
      }
      if (hosts.empty()) continue;
      for (const tensor::Piece& piece : part.buffer.pieces) {
        for (const auto& [host, devices] : hosts) {
          std::vector<Location>& all = found[{tensor, piece.box}][host];
          all.insert(all.end(), devices.begin(), devices.end());
        }
      }
    }
  }
  uint64_t turn = reader;
  for (const auto& [box, hosts] : found) {
    Part& part = parts_[box];
    part.number = std::ssize(parts_);
    for (const auto& [host, devices] : hosts) {
      Holder& holder = part.holders.emplace_back(Holder{host, std::nullopt});
      if (!devices.empty()) holder.device = devices[turn % devices.size()];
    }
    std::vector<Holder>& order = part.holders;
    std::rotate(order.begin(), order.begin() + static_cast<int64_t>(turn++ % order.size()), order.end());
    std::stable_partition(order.begin(), order.end(), [&](const Holder& one) { return here.at(one.host); });
    part.here = here.at(order.front().host);
  }
  return absl::OkStatus();
}

// Long reads of this machine's memory need no copy between. All others come in blocks: a view may want every hundredth element.
absl::Status Reading::read(TensorId tensor, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst) {
  if (has_ended()) return gone();
  const auto found = parts_.find({tensor, owned});
  if (found == parts_.end()) return absl::NotFoundError("no living host had this part when the step was copied");
  const Part& part = found->second;
  const int64_t size = tensor::size_of(collection_.tensors[static_cast<size_t>(tensor.value)].dtype);
  const bool whole = offset % size == 0 && std::ssize(dst) % size == 0;
  if (part.here && whole && std::ssize(dst) >= kBlockBytes / 4) return fetch(part, tensor, owned, offset, dst);
  return blocks_.read(part.number, owned.volume() * size, offset, dst, [&](int64_t begin, std::span<std::byte> block) {
    return fetch(part, tensor, owned, begin, block);
  });
}

absl::Status Reading::fetch(const Part& from, TensorId tensor, const tensor::Box& owned, int64_t offset,
                            std::span<std::byte> dst) {
  const absl::Status read = ask_holders(
      from.holders.size(),
      [&](size_t holder) { return fetch_from(from, from.holders[holder], tensor, owned, offset, dst); },
      [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
  if (read.ok()) return read;
  if (has_ended()) return gone();
  return absl::Status(read.code(), fmt::format("step {} of job {}: {}", live_.step(), live_.name(), message_of(read)));
}

// A host has a copy before its devices show a part no more.
absl::Status Reading::fetch_from(const Part& from, const Holder& holder, TensorId tensor, const tensor::Box& owned,
                                 int64_t offset, std::span<std::byte> dst) {
  const auto is_copied = [&] {
    const std::lock_guard lock(mutex_);
    return copied_.contains({from.number, holder.host});
  };
  absl::Status shown;
  if (holder.device && !is_copied()) {
    shown = fetch_at(*holder.device, tensor, owned, offset, dst);
    if (shown.ok()) return shown;
  }
  const absl::Status copied = fetch_at(Location::host_memory(holder.host), tensor, owned, offset, dst);
  if (!copied.ok()) return absl::IsNotFound(copied) && !shown.ok() ? shown : copied;
  const std::lock_guard lock(mutex_);
  if (holder.device) copied_.emplace(from.number, holder.host);
  return absl::OkStatus();
}

absl::Status Reading::fetch_at(const Location& place, TensorId tensor, const tensor::Box& owned, int64_t offset,
                               std::span<std::byte> dst) {
  const DType dtype = collection_.tensors[static_cast<size_t>(tensor.value)].dtype;
  const int64_t size = tensor::size_of(dtype);
  return for_each_box_of_range(owned, offset / size, (offset + std::ssize(dst)) / size, [&](const tensor::Box& box) {
    const absl::Status read = places_->read(place, key_, tensor, box, {box, dtype, dst.data()});
    dst = dst.subspan(static_cast<size_t>(box.volume() * size));
    return read;
  });
}

class Step final : public LiveStep {
 public:
  Step(std::shared_ptr<Reading> reading, checkpoint::Stamp stamp, std::shared_ptr<const checkpoint::Checkpoint> whole)
      : reading_(std::move(reading)), stamp_(std::move(stamp)), checkpoint_(std::move(whole)) {}
  ~Step() override { reading_->end("nobody here keeps it"); }
  const checkpoint::Stamp& stamp() const override { return stamp_; }
  bool is_kept() const override { return !reading_->has_ended(); }
  const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint() const override { return checkpoint_; }
  const proto::LiveState& state() const override { return reading_->live(); }
  int64_t version() const { return reading_->live().version(); }
  void end(const std::string& why) const { reading_->end(why); }

 private:
  const std::shared_ptr<Reading> reading_;
  const checkpoint::Stamp stamp_;
  const std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
};

}  // namespace

// Words to the controller go one at a time, so that what it knows of the steps that are kept is never older than its copies.
struct LiveRun::State {
  explicit State(LiveOptions given) : options(std::move(given)) {}

  absl::StatusOr<proto::LiveState> ask(const std::string& job, bool wants, int64_t after_step);
  absl::StatusOr<std::shared_ptr<const LiveStep>> take(proto::LiveState&& live);
  std::shared_ptr<const Step> known(int64_t version) const;
  void keep_word();

  const LiveOptions options;
  const uint64_t reader = random_number();
  std::mutex asking;         // held during a call
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable ending;
  bool over = false;
  std::map<std::string, std::vector<std::weak_ptr<const Step>>> steps;  // by job
  std::thread thread;
};

std::shared_ptr<const Step> LiveRun::State::known(int64_t version) const {
  const std::lock_guard lock(mutex);
  for (const auto& [job, of_job] : steps) {
    for (const auto& one : of_job) {
      if (const auto step = one.lock(); step && step->version() == version && step->is_kept()) return step;
    }
  }
  return nullptr;
}

absl::StatusOr<proto::LiveState> LiveRun::State::ask(const std::string& job, bool wants, int64_t after_step) {
  CtlRequest request{.kind = CtlRequest::Kind::kLive,
                     .job = job,
                     .reader = reader,
                     .wants = wants,
                     .optimizer = options.optimizer,
                     .fleeting = options.fleeting,
                     .after_step = after_step,
                     .digest_bytes = options.digest_bytes};
  std::vector<std::shared_ptr<const Step>> held;
  {
    const std::lock_guard lock(mutex);
    for (auto& [name, of_job] : steps) {
      std::erase_if(of_job, [](const auto& one) { return one.expired(); });
      for (const auto& one : of_job) {
        if (auto step = one.lock(); step != nullptr) held.push_back(std::move(step));
      }
    }
  }
  for (const auto& step : held) request.keeps.push_back(step->version());
  SCALAI_ASSIGN_OR_RETURN(const std::string text, ask_controller(options.target, request));
  proto::LiveState live;
  if (!live.ParseFromString(text)) return failed("the controller's answer is no state of a job");
  for (const int64_t gone : live.gone()) {
    for (const auto& step : held) {
      if (step->version() == gone) step->end("the controller has not heard of this reader for too long, or is another");
    }
  }
  return live;
}

absl::StatusOr<std::shared_ptr<const LiveStep>> LiveRun::State::take(proto::LiveState&& live) {
  if (std::shared_ptr<const Step> step = known(live.version())) return std::shared_ptr<const LiveStep>(std::move(step));
  const std::string place = fmt::format("{}: job {}, step {}", options.place, live.name(), live.step());
  const checkpoint::Stamp stamp{live.name(), live.step()};
  const std::string model = live.model(), id = fmt::format("live-{:x}", live.version());
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<Reading> reading, Reading::open(std::move(live), options, reader));
  SCALAI_ASSIGN_OR_RETURN(auto whole,
                          checkpoint::Checkpoint::of_held({.place = place,
                                                           .collection = reading->collection(),
                                                           .tensors = reading->tensors(),
                                                           .stamp = stamp,
                                                           .model = model,
                                                           .id = id,
                                                           .read = [reading](TensorId tensor, const tensor::Box& owned,
                                                                             int64_t offset, std::span<std::byte> dst) {
                                                             return reading->read(tensor, owned, offset, dst);
                                                           }}));
  const auto step = std::make_shared<const Step>(reading, stamp, std::move(whole));
  const std::lock_guard lock(mutex);
  steps[stamp.job].push_back(step);
  return std::shared_ptr<const LiveStep>(step);
}

void LiveRun::State::keep_word() {
  std::unique_lock lock(mutex);
  bool kept = false;  // at the last word
  while (!ending.wait_for(lock, std::chrono::duration<double>(options.word_s), [&] { return over; })) {
    std::string job;  // any will do: a word is of all steps
    bool any = false;
    for (const auto& [name, of_job] : steps) {
      job = name;
      any = any || std::any_of(of_job.begin(), of_job.end(), [](const auto& one) { return !one.expired(); });
    }
    if (!std::exchange(kept, any) && !any) continue;  // else a last one, that nothing is kept
    lock.unlock();
    {
      const std::lock_guard alone(asking);
      (void)ask(job, false, -1);  // a controller that is gone is told by reads
    }
    lock.lock();
  }
}

LiveRun::LiveRun(LiveOptions options) : state_(std::make_shared<State>(std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->keep_word(); });
}

LiveRun::~LiveRun() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->ending.notify_all();
  state_->thread.join();
  const std::lock_guard alone(state_->asking);
  for (const auto& [job, of_job] : state_->steps) {
    for (const auto& one : of_job) {
      if (const auto step = one.lock()) step->end("its LiveRun is gone");
    }
  }
  if (state_->steps.empty()) return;
  const std::string job = state_->steps.begin()->first;
  state_->steps.clear();
  (void)state_->ask(job, false, -1);  // which keeps nothing from now on
}

absl::StatusOr<std::shared_ptr<const LiveStep>> LiveRun::newest(const std::string& job, int64_t after_step) {
  const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(state_->options.patience_s));
  const std::lock_guard alone(state_->asking);
  for (;;) {
    SCALAI_ASSIGN_OR_RETURN(proto::LiveState live, state_->ask(job, true, after_step));
    if (live.ready()) return state_->take(std::move(live));
    if (Clock::now() >= until)
      return absl::DeadlineExceededError(
          fmt::format("{}: the job was at no step{} for {} s: it changes, waits for GPUs, or its steps take longer",
                      state_->options.place, after_step < 0 ? "" : fmt::format(" after {}", after_step),
                      state_->options.patience_s));
  }
}

}  // namespace scalai::executor
