#include "executor/live/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "executor/live/holders.h"
#include "executor/live/live_answer.h"
#include "executor/rpc/process.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::executor::live {

using plan::Location;

namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;    // that are fetched at a time
constexpr int64_t kMostOrdered = int64_t{1} << 24;   // blocks, of 64 B each: 1 GiB for a state of 16 TiB
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
  if (const absl::Status checked = check_live(*made->live_, file.collection); !checked.ok())
    return invalid(fmt::format("{}: {}", options.place, message_of(checked)));
  made->collection_ = std::move(file.collection);
  SCALAI_ASSIGN_OR_RETURN(const state::StateVersion version, state::StateVersion::from_wire(made->live_->version()));
  made->key_ = {made->live_->job(), version};
  made->backend_ = device::make_host_backend();
  // One more host, without devices: this process.
  std::vector<int> gpus(made->live_->gpus_of_host().begin(), made->live_->gpus_of_host().end());
  gpus.push_back(0);
  made->places_ = std::make_shared<worker::Places>(worker::Places::Options{.host = HostId(std::ssize(gpus) - 1),
                                                                           .segments = {.capacity = kSegmentBytes},
                                                                           .backend = made->backend_.get(),
                                                                           .transport = options.transport});
  SCALAI_RETURN_IF_ERROR(made->places_->setup(gpus));
  std::vector<proto::Peer> workers(made->live_->peers().begin(), made->live_->peers().end());
  for (proto::Peer& worker : workers) {
    const auto all = std::exchange(*worker.mutable_places(), {});
    for (const proto::WorkerPlace& place : all) {
      const auto parsed = worker::parse_place(place.place());
      const bool device = parsed && parsed->kind == Location::Kind::kDevice;
      if (!parsed || (device && place.fd() < 0)) continue;
      if (device) made->mapped_.insert(*parsed);
      *worker.add_places() = place;
    }
  }
  SCALAI_RETURN_IF_ERROR(made->places_->peers(workers, made->live_->force_network()));
  SCALAI_RETURN_IF_ERROR(made->find_holders());
  if (options.others != nullptr && made->block_count_ <= kMostOrdered) made->find_order();
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
  std::shared_ptr<worker::Places> places;  // goes without the lock, or with the last read
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
    here[HostId(peer.host())] = !live_->force_network() && peer.host_name() == rpc::machine_name();
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
  for (const auto& [box, hosts] : found) {
    Part& part = parts_[box];
    part.tensor = box.first;
    part.box = box.second;
    part.number = std::ssize(parts_);
    part.first_block = block_count_;
    part.bytes = bytes_of(box.first, box.second);
    block_count_ += (part.bytes + kBlockBytes - 1) / kBlockBytes;
    in_order_.push_back(&part);
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

// Of a read: blocks of its part, and those of others that follow.
class Reading::BlockSource final : public Blocks::Source {
 public:
  BlockSource(Reading& reading, const Part& part) : reading_(reading), part_(part) {}

  // Orders: through this part, or through whole tensors, since who reads one reads the next of its kind soon, if any.
  Step step(int order, int64_t number, int64_t steps) const override {
    if (!reading_.is_shared(part_)) return {};
    const auto& whole = reading_.whole_order_;
    int64_t to = number + steps;
    if (order == 1 && whole.empty()) return {};  // too many blocks for that
    if (order == 1) {
      const int64_t place = reading_.whole_place_[static_cast<size_t>(number)] + steps;
      if (place < 0 || place >= std::ssize(whole)) return {};
      to = whole[static_cast<size_t>(place)];
    }
    const Part* const part = reading_.part_of(to);
    if (part == nullptr || !reading_.is_shared(*part)) return {};
    if (order == 0 && part != &part_) return {};
    const auto kind = [&](const Part& one) {
      return reading_.collection_.tensors[static_cast<size_t>(one.tensor.value)].kind;
    };
    if (kind(*part) != kind(part_)) return {};
    return {to, std::min(kBlockBytes, part->bytes - (to - part->first_block) * kBlockBytes)};
  }
  void expect(std::span<const int64_t> numbers, std::span<const int64_t> bytes) override {
    sources_.clear();
    if (!reading_.is_shared(part_) || reading_.has_ended()) return;
    const OtherReaders::Wanted wanted{.job = reading_.live_->name(),
                                      .version = reading_.live_->version(),
                                      .blocks = {numbers.begin(), numbers.end()},
                                      .bytes = {bytes.begin(), bytes.end()},
                                      .dropped = reading_.blocks_->take_dropped()};
    auto sources = reading_.options_.others->ask(wanted);
    if (!sources.ok()) {
      reading_.blocks_->untake_dropped(wanted.dropped);
      return;
    }
    sources->resize(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) sources_[numbers[i]] = std::move((*sources)[i]);
  }
  absl::StatusOr<Blocks::From> fetch(int64_t number, std::span<std::byte> dst) override {
    if (reading_.has_ended()) return reading_.gone();
    const auto told = sources_.find(number);
    if (told != sources_.end() && reading_.options_.others->read(reading_.live_->version(), number, told->second, dst))
      return Blocks::From::kOtherReader;
    const Part* const from = reading_.part_of(number);
    SCALAI_RETURN_IF_ERROR(reading_.fetch(*from, (number - from->first_block) * kBlockBytes, dst));
    return Blocks::From::kHolder;
  }

 private:
  Reading& reading_;
  const Part& part_;
  std::map<int64_t, OtherReaders::Sources> sources_;  // of expected blocks
};

// By the first element of each block in its tensor, row after row; tensors of a kind by name, as in files of views.
void Reading::find_order() {
  struct Place {
    model::StateKind kind;
    std::string_view tensor;
    int64_t element = 0, number = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(block_count_));
  for (const Part* const part : in_order_) {
    const collection::LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(part->tensor.value)];
    const auto strides = tensor.shape.strides();
    const int64_t elements_of_block = kBlockBytes / tensor::size_of(tensor.dtype);
    for (int64_t block = 0; block * kBlockBytes < part->bytes; ++block) {
      int64_t rest = block * elements_of_block, inner = part->box.volume(), element = 0;
      for (int dim = 0; dim < part->box.rank; ++dim) {
        const auto d = static_cast<size_t>(dim);
        inner /= part->box.extent(dim);
        element += (part->box.lo[d] + rest / inner) * strides[d];
        rest %= inner;
      }
      places.push_back({tensor.kind, tensor.name, element, part->first_block + block});
    }
  }
  std::sort(places.begin(), places.end());
  whole_place_.resize(places.size());
  for (const Place& place : places) {
    whole_place_[static_cast<size_t>(place.number)] = std::ssize(whole_order_);
    whole_order_.push_back(place.number);
  }
}

// Null: there is no such block.
const Reading::Part* Reading::part_of(int64_t block) const {
  const auto after = std::upper_bound(in_order_.begin(), in_order_.end(), block,
                                      [](int64_t number, const Part* part) { return number < part->first_block; });
  if (after == in_order_.begin()) return nullptr;
  const Part* const part = *std::prev(after);
  return (block - part->first_block) * kBlockBytes < part->bytes ? part : nullptr;
}

// Long reads of this machine's memory need no copy between. All others come in blocks: a view may want every hundredth
// element.
absl::Status Reading::read(TensorId tensor, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst) {
  if (has_ended()) return gone();
  const auto found = parts_.find({tensor, owned});
  if (found == parts_.end()) return absl::NotFoundError("no living host had this part when the step was copied");
  const Part& part = found->second;
  const int64_t size = tensor::size_of(collection_.tensors[static_cast<size_t>(tensor.value)].dtype);
  const bool whole = offset % size == 0 && std::ssize(dst) % size == 0;
  if (part.is_here() && whole && std::ssize(dst) >= kBlockBytes / 4) return fetch(part, offset, dst);
  BlockSource source(*this, part);
  return blocks_->read(part.first_block, part.bytes, offset, dst, source);
}

int64_t Reading::bytes_of(TensorId tensor, const tensor::Box& box) const {
  return box.volume() * tensor::size_of(collection_.tensors[static_cast<size_t>(tensor.value)].dtype);
}

absl::Status Reading::fetch(const Part& from, int64_t offset, std::span<std::byte> dst) {
  const absl::Status read = ask_holders(
      from.holders.size(),
      [&](size_t holder) {
        absl::Status got = fetch_from(from, from.holders[holder], offset, dst);
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
absl::Status Reading::fetch_from(const Part& from, const Holder& holder, int64_t offset, std::span<std::byte> dst) {
  const auto is_copied = [&] {
    const std::lock_guard lock(mutex_);
    return copied_.contains({from.number, holder.host});
  };
  absl::Status shown;
  if (holder.device && !is_copied()) {
    shown = fetch_at(*holder.device, from.tensor, from.box, offset, dst);
    if (shown.ok()) return shown;
  }
  const absl::Status copied = fetch_at(Location::host_memory(holder.host), from.tensor, from.box, offset, dst);
  if (!copied.ok()) return absl::IsNotFound(copied) && !shown.ok() ? shown : copied;
  const std::lock_guard lock(mutex_);
  if (holder.device) copied_.emplace(from.number, holder.host);
  return absl::OkStatus();
}

absl::Status Reading::fetch_at(const Location& place, TensorId tensor, const tensor::Box& owned, int64_t offset,
                               std::span<std::byte> dst) {
  const tensor::DType dtype = collection_.tensors[static_cast<size_t>(tensor.value)].dtype;
  const int64_t size = tensor::size_of(dtype);
  std::shared_ptr<worker::Places> places;
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

}  // namespace scalai::executor::live
