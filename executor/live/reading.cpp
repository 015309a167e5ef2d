#include "executor/live/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "executor/live/holders.h"
#include "executor/rpc/process.h"
#include "executor/rpc/worker_place.h"
#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"
#include "ptc/collection/rank_parts.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;    // that are fetched at a time
constexpr int64_t kSegmentBytes = int64_t{1} << 20;  // of this process's own place, which stays empty

}  // namespace

Reading::Reading(proto::LiveState&& live, Options options)
    : options_(std::move(options)),
      live_(std::make_unique<const proto::LiveState>(std::move(live))),
      blocks_(std::make_shared<Blocks>(options_.kept_bytes, kBlockBytes)) {}

absl::StatusOr<std::shared_ptr<Reading>> Reading::open(proto::LiveState&& live, Options given) {
  std::shared_ptr<Reading> made(new Reading(std::move(live), std::move(given)));
  const Options& options = made->options_;
  SCALAI_ASSIGN_OR_RETURN(
      collection::CollectionFile file,
      collection::parse_collection(made->live_->collection(), options.place, collection::FileRole::kPlanned));
  made->collection_ = std::move(file.collection);
  SCALAI_ASSIGN_OR_RETURN(const StateVersion version, StateVersion::from_wire(made->live_->version()));
  made->key_ = {made->live_->job(), version};
  made->backend_ = make_host_backend();
  // One more host, without devices: this process.
  std::vector<int> gpus(made->live_->gpus_of_host().begin(), made->live_->gpus_of_host().end());
  gpus.push_back(0);
  made->places_ = std::make_shared<Places>(Places::Options{.host = HostId(std::ssize(gpus) - 1),
                                                           .segments = {.capacity = kSegmentBytes},
                                                           .backend = made->backend_.get(),
                                                           .transport = options.transport});
  SCALAI_RETURN_IF_ERROR(made->places_->setup(gpus));
  std::vector<WorkerJoined> workers;
  for (const proto::Peer& peer : made->live_->peers()) {
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
  SCALAI_RETURN_IF_ERROR(made->places_->peers(workers, made->live_->force_network()));
  SCALAI_RETURN_IF_ERROR(made->find_holders());
  if (options.served != nullptr) options.served->add(made->live_->version(), made->blocks_);
  return made;
}

Reading::~Reading() { end("its reader is gone"); }

std::vector<TensorId> Reading::tensors() const {
  std::vector<TensorId> ids;
  for (const int32_t id : live_->tensors()) ids.emplace_back(id);
  return ids;
}

absl::Status Reading::gone() const {
  return absl::FailedPreconditionError(
      fmt::format("step {} of job {} is no longer kept: {}", live_->step(), live_->name(), why_ended()));
}

void Reading::end(const std::string& why) {
  std::shared_ptr<Places> places;  // goes without the lock, or with the last read
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) return;
    ended_ = why;
    places.swap(places_);
  }
  if (options_.served != nullptr) options_.served->remove(live_->version(), blocks_.get());
  blocks_->clear();
}

// Hosts of this machine come first; of the others each reader begins at another one, so that none has all readers.
absl::Status Reading::find_holders() {
  std::map<HostId, bool> here;
  for (const proto::Peer& peer : live_->peers())
    here[HostId(peer.host())] = !live_->force_network() && peer.host_name() == machine_name();
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
  uint64_t turn = options_.reader;
  int64_t blocks = 0;
  for (const auto& [box, hosts] : found) {
    Part& part = parts_[box];
    part.number = std::ssize(parts_);
    part.first_block = blocks;
    blocks += (bytes_of(box.first, box.second) + kBlockBytes - 1) / kBlockBytes;
    for (const auto& [host, devices] : hosts) {
      Holder& holder = part.holders.emplace_back(Holder{host, std::nullopt, here.at(host)});
      if (!devices.empty()) holder.device = devices[turn % devices.size()];
    }
    std::vector<Holder>& order = part.holders;
    std::rotate(order.begin(), order.begin() + static_cast<int64_t>(turn++ % order.size()), order.end());
    std::stable_partition(order.begin(), order.end(), [](const Holder& one) { return one.here; });
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
  if (part.is_here() && whole && std::ssize(dst) >= kBlockBytes / 4) return fetch(part, tensor, owned, offset, dst);
  const bool shared = options_.others != nullptr && !part.is_here();
  return blocks_->read(
      part.first_block, bytes_of(tensor, owned), offset, dst,
      [&](int64_t begin, std::span<std::byte> block) -> absl::StatusOr<Blocks::From> {
        if (has_ended()) return gone();
        const int64_t number = part.first_block + begin / kBlockBytes;
        if (shared && options_.others->read({live_->name(), live_->version(), number}, blocks_->take_dropped(), block))
          return Blocks::From::kOtherReader;
        SCALAI_RETURN_IF_ERROR(fetch(part, tensor, owned, begin, block));
        return Blocks::From::kHolder;
      });
}

int64_t Reading::bytes_of(TensorId tensor, const tensor::Box& box) const {
  return box.volume() * tensor::size_of(collection_.tensors[static_cast<size_t>(tensor.value)].dtype);
}

absl::Status Reading::fetch(const Part& from, TensorId tensor, const tensor::Box& owned, int64_t offset,
                            std::span<std::byte> dst) {
  const absl::Status read = ask_holders(
      from.holders.size(),
      [&](size_t holder) {
        absl::Status got = fetch_from(from, from.holders[holder], tensor, owned, offset, dst);
        ReadBytes& bytes = *options_.bytes;
        if (got.ok()) (from.holders[holder].here ? bytes.from_memory : bytes.from_workers) += std::ssize(dst);
        return got;
      },
      [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
  if (read.ok()) return read;
  if (has_ended()) return gone();
  return absl::Status(read.code(),
                      fmt::format("step {} of job {}: {}", live_->step(), live_->name(), message_of(read)));
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
  std::shared_ptr<Places> places;
  {
    const std::lock_guard lock(mutex_);
    places = places_;
  }
  if (places == nullptr) return gone();
  return for_each_box_of_range(owned, offset / size, (offset + std::ssize(dst)) / size, [&](const tensor::Box& box) {
    const absl::Status read = places->read(place, key_, tensor, box, {box, dtype, dst.data()});
    dst = dst.subspan(static_cast<size_t>(box.volume() * size));
    return read;
  });
}

}  // namespace scalai::executor
