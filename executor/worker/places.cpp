#include "executor/worker/places.h"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <shared_mutex>
#include <thread>

#include "executor/rpc/process.h"
#include "executor/state/copy.h"
#include "executor/transport/rows.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::worker {

using device::BoxCopy;
using state::PeerSegment;
using state::Piece;
using state::Store;
using state::Target;
using state::VersionKey;
using tensor::Box;
using tensor::DType;

namespace {

constexpr int kHastyTries =
    10;  // of a read that the owner's changes to other things disturb; then with a pause before each
constexpr int kMostDevicesOfHost = 1024;
constexpr double kFetchTimeout_s = 60;
constexpr int64_t kFetchBytes = int64_t{8} << 20;

std::optional<int32_t> number_in(std::string_view text) {
  int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

absl::Status not_held(const Location& place, const VersionKey& key, TensorId tensor, const Box& box) {
  return absl::NotFoundError(
      fmt::format("{} does not hold tensor {} {} of {}", place.str(), tensor.value, box.str(), key.str()));
}

absl::Status add_copies(const Location& place, const VersionKey& key, TensorId tensor, const Box& box,
                        std::span<const Piece> found, const std::byte* base, const Target& dst,
                        std::vector<BoxCopy>& batch) {
  if (!state::cover(found, box)) return not_held(place, key, tensor, box);
  for (const Piece& piece : found) {
    if (!convertible(piece.dtype, dst.dtype))
      return invalid(fmt::format("{} holds tensor {} as {}, which is not cast to {}", place.str(), tensor.value,
                                 tensor::name_of(piece.dtype), tensor::name_of(dst.dtype)));
    batch.push_back({piece.part, piece.source(base), dst});
  }
  return absl::OkStatus();
}

absl::Status unchanged(const Store& store, const Location& place, const VersionKey& key, TensorId tensor,
                       const Box& box, const std::vector<Piece>& before) {
  if (store.find(key, tensor, box) == before) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{} changed while it was read", place.str()));
}

// The first part of a box that is worth a request of its own: at most so many elements, at least a row.
Box first_part(const Box& box, int64_t elements) {
  Box part = box;
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank) && part.volume() > elements; ++dim) {
    const int64_t row = part.volume() / part.extent(static_cast<int>(dim));
    part.hi[dim] = part.lo[dim] + std::max<int64_t>(1, elements / row);
  }
  return part;
}

}  // namespace

void set_box(const Box& box, TensorId tensor, DType dtype, proto::TensorBox& out) {
  out.set_tensor(tensor.value);
  out.set_dtype(static_cast<int>(dtype));
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    out.add_lo(box.lo[dim]);
    out.add_hi(box.hi[dim]);
  }
}

absl::StatusOr<Box> box_of(const proto::TensorBox& in) {
  if (in.lo_size() != in.hi_size() || in.lo_size() > tensor::kMaxRank)
    return invalid(fmt::format("a box of {} and {} bounds", in.lo_size(), in.hi_size()));
  Box box;
  box.rank = static_cast<int8_t>(in.lo_size());
  int64_t elements = std::numeric_limits<int16_t>::max();  // room for the size of an element, and more
  for (int dim = 0; dim < box.rank; ++dim) {
    const int64_t lo = in.lo(dim), hi = in.hi(dim);
    if (lo < 0 || hi < lo || __builtin_mul_overflow(elements, std::max<int64_t>(1, hi - lo), &elements))
      return invalid(fmt::format("a box with the bounds {} to {} in dimension {}", lo, hi, dim));
    box.lo[static_cast<size_t>(dim)] = lo;
    box.hi[static_cast<size_t>(dim)] = hi;
  }
  return box;
}

absl::StatusOr<DType> dtype_of(const proto::TensorBox& box) {
  if (box.dtype() < 0 || box.dtype() > static_cast<int>(DType::kU64))
    return invalid(fmt::format("there is no element type {}", box.dtype()));
  return static_cast<DType>(box.dtype());
}

std::optional<Location> parse_place(std::string_view text) {
  if (text == "storage") return Location::storage();
  const bool memory = text.ends_with(".mem");
  if (memory) text.remove_suffix(4);
  if (text.size() < 2 || text.front() != (memory ? 'h' : 'g')) return std::nullopt;
  const std::optional<int32_t> number = number_in(text.substr(1));
  if (!number) return std::nullopt;
  return memory ? Location::host_memory(HostId(*number)) : Location::device(DeviceId(*number));
}

absl::Status Places::setup(const std::vector<int>& gpus_of_host) {
  const bool sane = std::all_of(gpus_of_host.begin(), gpus_of_host.end(),
                                [](int gpus) { return gpus >= 0 && gpus <= kMostDevicesOfHost; });
  if (!sane || host_.value < 0 || static_cast<size_t>(host_.value) >= gpus_of_host.size())
    return invalid(fmt::format("a cluster of {} hosts that host {} is not in, or with impossible numbers of devices",
                               gpus_of_host.size(), host_.value));
  host_of_device_.clear();
  hosts_ = static_cast<int32_t>(gpus_of_host.size());
  devices_.clear();
  first_device_ = 0;
  for (const HostId host : hosts_here_) {
    if (host == host_) break;
    if (static_cast<size_t>(host.value) < gpus_of_host.size())
      first_device_ += gpus_of_host[static_cast<size_t>(host.value)];
  }
  for (size_t host = 0; host < gpus_of_host.size(); ++host) {
    for (int i = 0; i < gpus_of_host[host]; ++i) {
      const DeviceId device(static_cast<int64_t>(host_of_device_.size()));
      host_of_device_.push_back(HostId(static_cast<int64_t>(host)));
      if (HostId(static_cast<int64_t>(host)) == host_) devices_.push_back(device);
    }
  }
  std::vector<Location> wanted = {Location::host_memory(host_)};
  for (const DeviceId device : devices_) wanted.push_back(Location::device(device));
  for (const Location& place : wanted) {
    if (own(place) == nullptr) SCALAI_RETURN_IF_ERROR(fail(place));
  }
  return absl::OkStatus();
}

absl::Status Places::fail(const Location& place) {
  state::SegmentOptions options = segments_;
  options.name = place.str();
  std::shared_ptr<Store> store;
  if (place.kind == Location::Kind::kDevice) {
    options.limit = std::min(options.limit, device_limit_);
    const auto device = std::find(devices_.begin(), devices_.end(), DeviceId(place.index)) - devices_.begin();
    SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<state::Memory> memory,
                            backend_.memory_of_device(first_device_ + static_cast<int>(device), options));
    store = std::make_shared<Store>(std::move(memory));
  } else {
    SCALAI_ASSIGN_OR_RETURN(store, Store::create(options));
  }
  locals_->put(place, store);
  {
    const std::lock_guard lock(own_mutex_);
    std::swap(own_[place], store);
  }
  // An answer under way may keep the old one as long as its asker waits, but not the memory.
  for (const VersionKey& key : store == nullptr ? std::vector<VersionKey>() : store->versions()) store->drop(key);
  return absl::OkStatus();
}

Places::~Places() {
  const std::unique_lock alone(locals_->in_use());  // nobody of this process reads what goes
  for (const auto& [place, store] : own_) locals_->remove(place, store.get());
  own_.clear();
}

absl::Status Places::peers(const std::vector<proto::Peer>& workers, bool force_network) {
  std::map<Location, std::shared_ptr<Remote>> remote;
  std::set<HostId> networked;
  std::map<DeviceId, Gpu> gpus;
  for (const proto::Peer& worker : workers) {
    const HostId host(worker.host());
    const auto& places = worker.places();
    const bool here = !force_network && (worker.host_name().empty() || worker.host_name() == rpc::machine_name());
    const auto mapped = [&](const proto::WorkerPlace& one) {
      const std::optional<Location> place = parse_place(one.place());
      return here && (one.fd() >= 0 || (place && locals_->find(*place) != nullptr));
    };
    const bool gpus_only = here && std::all_of(places.begin(), places.end(), [&](const proto::WorkerPlace& one) {
                             return mapped(one) || one.gpu() > 0;
                           });
    const bool all_mapped = std::all_of(places.begin(), places.end(), mapped);
    if (host != host_ && !all_mapped) {
      if (transport_ != nullptr) {
        SCALAI_RETURN_IF_ERROR(transport_->connect(host, worker.transport_address()));
        networked.insert(host);
      } else if (!gpus_only) {
        return missing("this worker was built or started without UCX: it reaches no other machine");
      }
    }
    for (const proto::WorkerPlace& one : places) {
      const std::optional<Location> place = parse_place(one.place());
      if (!place) return invalid(fmt::format("worker {} names a place \"{}\"", worker.host(), one.place()));
      if (one.gpu() > 0 && place->kind == Location::Kind::kDevice) gpus[DeviceId(place->index)] = {host, one.gpu() - 1};
      if (host == host_ || !mapped(one) || one.fd() < 0) continue;
      auto entry = std::make_shared<Remote>();
      entry->address = {.pid = static_cast<int32_t>(one.pid()), .fd = one.fd()};
      std::from_chars(one.address().data(), one.address().data() + one.address().size(), entry->address.token);
      const auto known = remote_.find(*place);
      const bool same = known != remote_.end() && known->second->address == entry->address;
      remote[*place] = same ? known->second : std::move(entry);
    }
  }
  remote_ = std::move(remote);
  networked_ = std::move(networked);
  gpus_ = std::move(gpus);
  const std::lock_guard lock(departed_mutex_);
  departed_ = false;
  named_.clear();
  for (const proto::Peer& worker : workers) named_.insert(HostId(worker.host()));
  return absl::OkStatus();
}

std::vector<proto::WorkerPlace> Places::addresses() const {
  std::vector<proto::WorkerPlace> list;
  const std::lock_guard lock(own_mutex_);
  for (const auto& [place, store] : own_) {
    const state::SegmentAddress address = store->address();
    proto::WorkerPlace& one = list.emplace_back();
    one.set_place(place.str());
    one.set_pid(::getpid());
    one.set_fd(address.fd);
    one.set_address(std::to_string(address.token));
    if (place.kind == Location::Kind::kDevice) one.set_gpu(gpu_of(DeviceId(place.index)) + 1);
  }
  return list;
}

int Places::gpu_of(DeviceId device) const {
  const auto number = std::find(devices_.begin(), devices_.end(), device) - devices_.begin();
  return backend_.gpu_of_device(first_device_ + static_cast<int>(number));
}

bool Places::in_cluster(const Location& place) const {
  if (place.kind == Location::Kind::kStorage || place.index < 0) return false;
  const bool memory = place.kind == Location::Kind::kHostMemory;
  return static_cast<size_t>(place.index) < (memory ? static_cast<size_t>(hosts_) : host_of_device_.size());
}

HostId Places::host_of(const Location& place) const {
  SCALAI_CHECK(in_cluster(place), place.str());
  if (place.kind == Location::Kind::kHostMemory) return HostId(place.index);
  return host_of_device_[static_cast<size_t>(place.index)];
}

std::shared_ptr<Store> Places::shared(const Location& place) const {
  const std::lock_guard lock(own_mutex_);
  const auto found = own_.find(place);
  return found == own_.end() ? nullptr : found->second;
}

Store* Places::own(const Location& place) const { return shared(place).get(); }

std::vector<Store*> Places::stores() const {
  std::vector<Store*> list;
  const std::lock_guard lock(own_mutex_);
  for (const auto& [place, store] : own_) list.push_back(store.get());
  return list;
}

absl::Status Places::read(const Location& place, const VersionKey& key, TensorId tensor, const Box& box,
                          const Target& dst) {
  std::vector<BoxCopy> batch;
  SCALAI_RETURN_IF_ERROR(gather(place, key, tensor, box, dst, batch));
  return backend_.copy(batch);
}

absl::Status Places::gather(const Location& place, const VersionKey& key, TensorId tensor, const Box& box,
                            const Target& dst, std::vector<BoxCopy>& batch) {
  std::shared_ptr<const Store> store = shared(place);
  if (store == nullptr && in_process(place)) store = locals_->find(place);
  if (store != nullptr) {
    const std::vector<Piece> found = store->find(key, tensor, box);
    return add_copies(place, key, tensor, box, found, store->base(), dst, batch);
  }
  const auto remote = remote_.find(place);
  if (remote != remote_.end()) return read_segment(place, *remote->second, key, tensor, box, dst);
  return read_network(place, key, tensor, box, dst);
}

absl::StatusOr<PeerSegment*> Places::opened(Remote& remote) {
  const std::lock_guard lock(remote.mutex);
  if (remote.segment == nullptr) {
    SCALAI_ASSIGN_OR_RETURN(PeerSegment opened, PeerSegment::open(remote.address));
    remote.segment = std::make_unique<PeerSegment>(std::move(opened));
  }
  return remote.segment.get();
}

// Workers of one process may be told to read each other as if they were far away.
bool Places::in_process(const Location& place) const {
  return in_cluster(place) && !networked_.contains(host_of(place));
}

bool Places::shares_gpu(DeviceId device) const {
  const auto own = gpus_.find(device);
  return own != gpus_.end() && std::any_of(gpus_.begin(), gpus_.end(), [&](const auto& entry) {
           const HostId host = entry.second.host;
           const bool here =
               host == own->second.host || std::find(hosts_here_.begin(), hosts_here_.end(), host) != hosts_here_.end();
           return here && entry.first != device && entry.second.number == own->second.number;
         });
}

void Places::note_departed(HostId host) {
  const std::lock_guard lock(departed_mutex_);
  departed_ = departed_ || named_.contains(host);
}

void Places::note_superseded() {
  const std::lock_guard lock(departed_mutex_);
  departed_ = true;
}

bool Places::neighbours_live() const {
  {
    const std::lock_guard lock(departed_mutex_);
    if (departed_) return false;
  }
  return std::all_of(remote_.begin(), remote_.end(), [](const auto& entry) {
    const absl::StatusOr<PeerSegment*> segment = opened(*entry.second);
    return segment.ok() && (*segment)->alive();
  });
}

absl::Status Places::read_segment(const Location& place, Remote& remote, const VersionKey& key, TensorId tensor,
                                  const Box& box, const Target& dst) {
  SCALAI_ASSIGN_OR_RETURN(const PeerSegment* const open, opened(remote));
  const PeerSegment& segment = *open;
  const transport::Deadline until =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<transport::Deadline::duration>(std::chrono::duration<double>(disturbed_s_));
  for (int tries = 0; tries < kHastyTries || std::chrono::steady_clock::now() < until; ++tries) {
    if (!segment.alive()) return absl::UnavailableError(fmt::format("the worker that had {} is gone", place.str()));
    if (tries >= kHastyTries) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const uint64_t epoch = segment.epoch();
    std::shared_ptr<const state::Directory> directory;
    {
      const std::lock_guard lock(remote.mutex);
      if (remote.directory_epoch == epoch) directory = remote.directory;
    }
    std::vector<Piece> found;
    if (directory != nullptr) found = directory->find(key, tensor, box);
    if (directory == nullptr || !state::cover(found, box)) {
      SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, segment.directory());
      SCALAI_ASSIGN_OR_RETURN(state::Directory parsed, state::Directory::parse(bytes, segment.capacity()));
      const std::lock_guard lock(remote.mutex);
      directory = remote.directory = std::make_shared<const state::Directory>(std::move(parsed));
      remote.directory_epoch = epoch;
      found = directory->find(key, tensor, box);
    }
    std::vector<BoxCopy> batch;
    SCALAI_RETURN_IF_ERROR(add_copies(place, key, tensor, box, found, segment.base(), dst, batch));
    SCALAI_RETURN_IF_ERROR(backend_.copy(batch));
    if (segment.still_valid(epoch)) return absl::OkStatus();
  }
  return absl::UnavailableError(fmt::format("{} changes too often to be read", place.str()));
}

absl::Status Places::read_network(const Location& place, const VersionKey& key, TensorId tensor, const Box& box,
                                  const Target& dst) {
  if (!in_cluster(place)) return absl::NotFoundError(fmt::format("{} is not a place of this cluster", place.str()));
  const HostId host = host_of(place);
  if (!networked_.contains(host) && place.kind == Location::Kind::kDevice && gpus_.contains(DeviceId(place.index)))
    return missing(fmt::format("{} is on a GPU of another process: --transport=nccl, or ucx, reaches it", place.str()));
  if (!networked_.contains(host)) return absl::UnavailableError(fmt::format("no address of {} is known", place.str()));
  const int64_t elements = std::max<int64_t>(1, kFetchBytes / tensor::size_of(dst.dtype));
  std::vector<Box> left = {box};
  std::vector<std::byte> packed;
  while (!left.empty()) {
    const Box whole = left.back();
    left.pop_back();
    const Box part = first_part(whole, elements);
    if (part != whole) {
      for (const Box& rest : subtract(whole, part)) left.push_back(rest);
    }
    proto::FetchRequest request;
    request.set_place(place.str());
    request.set_job(key.job);
    request.set_version(key.version.wire());
    set_box(part, tensor, dst.dtype, *request.mutable_box());
    SCALAI_RETURN_IF_ERROR(fetch_part(host, request.SerializeAsString(), part, dst, packed));
  }
  return absl::OkStatus();
}

absl::Status Places::fetch_part(HostId host, const std::string& request, const Box& part, const Target& dst,
                                std::vector<std::byte>& packed) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration_cast<transport::Deadline::duration>(
                                                               std::chrono::duration<double>(kFetchTimeout_s));
  // Host memory beside GPUs is packed, too: an address does not say where it is.
  if (backend_.in_host_memory() && !part.empty() &&
      transport::rows_by(state::row_bytes(part, dst.box, dst.dtype)) != transport::Rows::kPacked)
    return transport_->fetch(host, request, state::rows_of(part, dst), deadline);
  packed.resize(static_cast<size_t>(state::packed_bytes(part, dst.dtype)));
  SCALAI_RETURN_IF_ERROR(transport_->fetch(host, request, std::span<std::byte>(packed), deadline));
  const BoxCopy unpack{part, {part, dst.dtype, packed.data()}, dst};
  return backend_.copy({&unpack, 1});
}

bool Places::reaches(const Location& place) const {
  return place.kind == Location::Kind::kHostMemory || backend_.in_host_memory();
}

absl::StatusOr<transport::Payload> Places::answer(std::string_view bytes) const {
  proto::FetchRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return invalid("a peer sent a malformed request");
  const std::optional<Location> place = parse_place(request.place());
  const std::shared_ptr<Store> store = place ? shared(*place) : nullptr;
  if (store == nullptr) return absl::NotFoundError(fmt::format("{} is not a place of this worker", request.place()));
  SCALAI_ASSIGN_OR_RETURN(const Box box, box_of(request.box()));
  SCALAI_ASSIGN_OR_RETURN(const DType dtype, dtype_of(request.box()));
  SCALAI_ASSIGN_OR_RETURN(const state::StateVersion version, state::StateVersion::from_wire(request.version()));
  const VersionKey key{request.job(), version};
  const TensorId tensor(request.box().tensor());
  const std::vector<Piece> found = store->find(key, tensor, box);
  if (!state::cover(found, box)) return not_held(*place, key, tensor, box);  // before memory is taken for it
  if (found.size() == 1 && found.front().dtype == dtype && !box.empty() && reaches(*place)) {
    const state::Source array = found.front().source(store->base());
    const transport::Rows how = transport::rows_by(state::row_bytes(box, array.box, dtype));
    if (how != transport::Rows::kPacked) {
      return transport::Payload::rows(
          state::rows_of(box, array), store, how,
          [store, key, tensor, box, found, at = *place] { return unchanged(*store, at, key, tensor, box, found); });
    }
  }
  std::string packed(static_cast<size_t>(state::packed_bytes(box, dtype)), '\0');
  const Target out{box, dtype, reinterpret_cast<std::byte*>(packed.data())};
  std::vector<BoxCopy> batch;
  SCALAI_RETURN_IF_ERROR(add_copies(*place, key, tensor, box, found, store->base(), out, batch));
  SCALAI_RETURN_IF_ERROR(backend_.copy(batch));
  SCALAI_RETURN_IF_ERROR(unchanged(*store, *place, key, tensor, box, found));
  return transport::Payload::owned(std::move(packed));
}

}  // namespace scalai::executor::worker
