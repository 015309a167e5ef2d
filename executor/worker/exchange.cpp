#include "executor/worker/exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::executor::worker {

absl::StatusOr<std::string> Exchange::make_unique_id() const {
  SCALAI_ASSIGN_OR_RETURN(const nccl::NcclUniqueId id, nccl::make_unique_id(options_.api));
  return nccl::bytes_of(id);
}

bool Exchange::joined(const std::map<DeviceId, Places::Gpu>& gpus) const {
  return gpus == gpus_ && !own_.empty() &&
         std::all_of(own_.begin(), own_.end(), [](const Own& one) { return one.channel->communicator().healthy(); });
}

absl::Status Exchange::join(const std::map<DeviceId, Places::Gpu>& gpus, HostId own, const std::string& unique_id,
                            double timeout_s) {
  SCALAI_ASSIGN_OR_RETURN(const nccl::NcclUniqueId id, nccl::unique_id_of(unique_id));
  own_.clear();
  gpus_ = gpus;
  ranks_.clear();
  for (const auto& [device, gpu] : gpus) ranks_[gpu];
  int next = 0;
  for (auto& [gpu, rank] : ranks_) rank = next++;
  std::vector<int> own_ranks;
  std::vector<Own> mine;
  int offset = 0;  // of a device among this worker's
  std::vector<int> numbers;
  for (const auto& [device, gpu] : gpus) {
    if (gpu.host != own) continue;
    const int number = offset++;
    const int rank = ranks_.at(gpu);
    if (std::find(own_ranks.begin(), own_ranks.end(), rank) != own_ranks.end()) continue;
    own_ranks.push_back(rank);
    numbers.push_back(number);
    mine.push_back({rank, device, nullptr});
  }
  if (mine.empty()) return absl::OkStatus();
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<nccl::Deadline::duration>(std::chrono::duration<double>(timeout_s));
  const auto set_device = [&](int n) { return options_.backend->make_current(numbers[static_cast<size_t>(n)]); };
  SCALAI_ASSIGN_OR_RETURN(
      std::vector<nccl::Communicator> communicators,
      nccl::Communicator::join_several(options_.api, {.id = id, .size = static_cast<int>(ranks_.size())}, own_ranks,
                                       set_device, until));
  for (size_t i = 0; i < mine.size(); ++i) {
    exchange::ChannelOptions channel = options_.channel;
    channel.peers_live = [this] { return !peers_live_ || peers_live_(); };
    SCALAI_ASSIGN_OR_RETURN(mine[i].channel,
                            exchange::Channel::create(*options_.backend, numbers[i],
                                                      std::make_shared<nccl::Communicator>(std::move(communicators[i])),
                                                      std::move(channel)));
  }
  own_ = std::move(mine);
  return absl::OkStatus();
}

bool Exchange::carries(DeviceId a, DeviceId b) const {
  const auto first = gpus_.find(a), second = gpus_.find(b);
  return first != gpus_.end() && second != gpus_.end() && first->second.host != second->second.host;
}

absl::Status Exchange::reserve(const std::map<DeviceId, size_t>& messages) {
  std::map<int, size_t> wanted;
  for (const auto& [device, count] : messages) wanted[rank_of(device)] += count;
  // Messages of devices that share GPUs become one a peer and direction (by_rank).
  const size_t most = 2 * (ranks_.size() - 1);
  for (Own& one : own_) SCALAI_RETURN_IF_ERROR(one.channel->reserve(std::min(wanted[one.rank], most)));
  return absl::OkStatus();
}

// One message a peer, its devices' one after the other: in the order of (source, destination), as the peer does it.
std::vector<exchange::Traffic> Exchange::by_rank(std::vector<DeviceMessage>& messages, int rank, bool sending) const {
  std::sort(messages.begin(), messages.end(), [](const DeviceMessage& a, const DeviceMessage& b) {
    return std::pair(a.src, a.dst) < std::pair(b.src, b.dst);
  });
  std::map<int, std::vector<exchange::WireBox>> boxes;
  for (DeviceMessage& message : messages) {
    if (rank_of(sending ? message.src : message.dst) != rank) continue;
    std::vector<exchange::WireBox>& list = boxes[rank_of(sending ? message.dst : message.src)];
    std::move(message.boxes.begin(), message.boxes.end(), std::back_inserter(list));
  }
  std::vector<exchange::Traffic> traffic;
  for (auto& [peer, list] : boxes) traffic.push_back({peer, std::move(list)});
  return traffic;
}

absl::Status Exchange::run(std::vector<DeviceMessage> sends, std::vector<DeviceMessage> receives,
                           const std::function<bool()>& peers_live) {
  if (own_.empty() && !(sends.empty() && receives.empty()))
    return absl::UnavailableError("this worker's GPUs are not joined with the others'");
  peers_live_ = peers_live;
  std::vector<absl::Status> done(own_.size());
  std::vector<std::vector<exchange::Traffic>> out(own_.size()), in(own_.size());
  for (size_t i = 0; i < own_.size(); ++i) {
    out[i] = by_rank(sends, own_[i].rank, true);
    in[i] = by_rank(receives, own_[i].rank, false);
  }
  const auto serve = [&](size_t i) {
    done[i] = own_[i].channel->run(out[i], in[i]);
    if (!done[i].ok()) abort();  // the others wait for peers that wait for this one
  };
  const absl::Status begun = run_concurrently(own_.size(), serve);
  if (!begun.ok()) abort();
  peers_live_ = nullptr;
  SCALAI_RETURN_IF_ERROR(begun);
  for (const absl::Status& status : done) SCALAI_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

void Exchange::abort() {
  for (Own& one : own_) one.channel->abort();
}

}  // namespace scalai::executor::worker
