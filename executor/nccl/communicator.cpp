#include "executor/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/nccl/internal/communicator_state.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::executor::nccl {

using internal::CommunicatorState;
using internal::PollPause;
using States = std::vector<std::unique_ptr<CommunicatorState>>;

namespace {

bool accepted(NcclResult result) { return result == NcclResult::kSuccess || result == NcclResult::kInProgress; }

// What went wrong first, when both an operation of a group and the group's end failed.
NcclResult first_of(NcclResult first, NcclResult second) { return accepted(first) ? second : first; }

// All of them in one group, because each one's joining waits for the others'.
absl::Status start_joining(const States& states, const Communicator::Membership& membership,
                           const Communicator::SetDevice& set_device) {
  const NcclApi& api = states.front()->api();
  SCALAI_RETURN_IF_ERROR(nccl_status(api, api.group_start(), "ncclGroupStart"));
  absl::Status problem;
  NcclResult result = NcclResult::kSuccess;
  for (size_t n = 0; n < states.size() && problem.ok() && accepted(result); ++n) {
    if (set_device != nullptr) problem = set_device(static_cast<int>(n));
    if (!problem.ok()) break;
    NcclConfig config;
    result = api.comm_init_rank_config(states[n]->slot(), membership.size, membership.id, states[n]->rank(), &config);
  }
  // Whatever happened, the thread may not stay inside a group.
  result = first_of(result, api.group_end());
  if (!problem.ok() || accepted(result)) return problem;
  return nccl_status(api, result, fmt::format("joining a communicator of {}", membership.size));
}

// Looks at all of them in turn: one that fails is not waited for behind another that cannot succeed without it.
absl::Status wait_joined(const States& states, Deadline deadline, const std::stop_token& stop) {
  constexpr const char* kWhat = "joining the communicator";
  std::vector<CommunicatorState*> open;
  for (const auto& state : states) open.push_back(state.get());
  for (PollPause pause;; open.back()->pause(pause.next())) {
    absl::Status problem;
    const auto settled = [&](CommunicatorState* state) {
      const absl::StatusOr<bool> done = state->look(kWhat);
      problem.Update(done.status());
      return done.ok() && *done;
    };
    open.erase(std::remove_if(open.begin(), open.end(), settled), open.end());
    if (!problem.ok() || open.empty()) return problem;
    SCALAI_RETURN_IF_ERROR(open.back()->still_time(kWhat, deadline, stop));
  }
}

// NCCL's own view; a difference is a mistake of ours in the interface.
void check_place(CommunicatorState& state) {
  int rank = -1, size = -1;
  const absl::Status status = state.start("ncclCommUserRank", [&](NcclComm* comm) {
    return first_of(state.api().comm_user_rank(comm, &rank), state.api().comm_count(comm, &size));
  });
  if (status.ok()) SCALAI_CHECK(rank == state.rank() && size == state.size(), fmt::format("{} of {}", rank, size));
}

}  // namespace

absl::StatusOr<NcclUniqueId> make_unique_id(const NcclApi& api) {
  NcclUniqueId id;
  SCALAI_RETURN_IF_ERROR(nccl_status(api, api.get_unique_id(&id), "ncclGetUniqueId"));
  return id;
}

std::string bytes_of(const NcclUniqueId& id) { return std::string(id.bytes.data(), id.bytes.size()); }

absl::StatusOr<NcclUniqueId> unique_id_of(std::string_view bytes) {
  NcclUniqueId id;
  if (bytes.size() != id.bytes.size()) {
    return invalid(fmt::format("a unique id of NCCL has {} bytes, not {}", id.bytes.size(), bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

absl::StatusOr<Communicator> Communicator::join(const NcclApi& api, const Membership& membership, Deadline deadline,
                                                const std::stop_token& stop) {
  const std::vector<int> ranks = {membership.rank};
  SCALAI_ASSIGN_OR_RETURN(std::vector<Communicator> joined,
                          join_several(api, membership, ranks, nullptr, deadline, stop));
  return std::move(joined.front());
}

absl::StatusOr<std::vector<Communicator>> Communicator::join_several(const NcclApi& api, const Membership& membership,
                                                                     std::span<const int> ranks,
                                                                     const SetDevice& set_device, Deadline deadline,
                                                                     const std::stop_token& stop) {
  States states;
  for (const int rank : ranks) {
    SCALAI_CHECK(rank >= 0 && rank < membership.size, fmt::format("rank {} of {}", rank, membership.size));
    states.push_back(std::make_unique<CommunicatorState>(api));
    states.back()->set_place(rank, membership.size);
  }
  if (states.empty()) return std::vector<Communicator>();
  absl::Status status = start_joining(states, membership, set_device);
  if (status.ok()) status = wait_joined(states, deadline, stop);
  if (!status.ok()) {
    for (const auto& state : states) (void)state->end(status);
    return status;
  }
  std::vector<Communicator> joined;
  for (auto& state : states) {
    check_place(*state);
    joined.push_back(Communicator(std::move(state)));
  }
  return joined;
}

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}

Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  leave();
  state_ = std::move(other.state_);
  group_ = std::move(other.group_);
  in_group_ = other.in_group_;
  posted_ = other.posted_;
  return *this;
}

Communicator::~Communicator() { leave(); }

void Communicator::leave() {
  if (state_ == nullptr || !state_->healthy()) return;
  absl::Status status;
  if (posted_) {
    status = absl::CancelledError("left while a group was on its way");
  } else {
    status = state_->start("ncclCommFinalize", state_->api().comm_finalize);
    if (status.ok()) status = state_->wait("leaving", std::chrono::steady_clock::now() + kLeaveTime);
  }
  if (status.ok()) {
    state_->destroy();
  } else {
    (void)state_->end(status);
  }
}

int Communicator::rank() const { return state_->rank(); }
int Communicator::size() const { return state_->size(); }

absl::Status Communicator::start_group() {
  SCALAI_RETURN_IF_ERROR(state_->status());
  SCALAI_CHECK(!in_group_ && !posted_, "the group before has not ended");
  in_group_ = true;
  group_.clear();
  return absl::OkStatus();
}

absl::Status Communicator::send(int peer, const void* from, size_t bytes, void* stream) {
  return add({Operation::Kind::kSend, peer, from, nullptr, bytes, stream});
}

absl::Status Communicator::receive(int peer, void* into, size_t bytes, void* stream) {
  return add({Operation::Kind::kReceive, peer, nullptr, into, bytes, stream});
}

absl::Status Communicator::broadcast(int root, const void* from, void* into, size_t bytes, void* stream) {
  return add({Operation::Kind::kBroadcast, root, from, into, bytes, stream});
}

absl::Status Communicator::add(const Operation& operation) {
  SCALAI_RETURN_IF_ERROR(state_->status());
  SCALAI_CHECK(in_group_, "an operation outside of a group");
  SCALAI_CHECK(operation.peer >= 0 && operation.peer < size(), fmt::format("peer {} of {}", operation.peer, size()));
  if (operation.bytes > 0) group_.push_back(operation);
  return absl::OkStatus();
}

absl::Status Communicator::end_group(Deadline deadline) {
  SCALAI_RETURN_IF_ERROR(post_group());
  return wait_posted(deadline);
}

absl::Status Communicator::post_group() {
  SCALAI_RETURN_IF_ERROR(state_->status());
  SCALAI_CHECK(std::exchange(in_group_, false), "no group was started");
  if (group_.empty()) return absl::OkStatus();
  const absl::Status status = state_->start("a group", [this](NcclComm* comm) { return issue(comm); });
  group_.clear();
  if (!status.ok()) return ended_by(status);
  posted_ = true;
  return absl::OkStatus();
}

NcclResult Communicator::issue(NcclComm* comm) const {
  const NcclApi& api = state_->api();
  NcclResult result = api.group_start();
  if (!accepted(result)) return result;
  for (const Operation& op : group_) {
    switch (op.kind) {
      case Operation::Kind::kSend:
        result = api.send(op.from, op.bytes, NcclDataType::kUint8, op.peer, comm, op.stream);
        break;
      case Operation::Kind::kReceive:
        result = api.recv(op.into, op.bytes, NcclDataType::kUint8, op.peer, comm, op.stream);
        break;
      case Operation::Kind::kBroadcast:
        result = api.broadcast(op.from, op.into, op.bytes, NcclDataType::kUint8, op.peer, comm, op.stream);
        break;
    }
    if (!accepted(result)) break;
  }
  return first_of(result, api.group_end());
}

absl::Status Communicator::wait_posted(Deadline deadline) {
  if (!posted_) return state_->status();
  const absl::Status status = state_->wait("a group", deadline);
  if (!status.ok()) return ended_by(status);
  posted_ = false;
  return absl::OkStatus();
}

absl::Status Communicator::watch(const std::function<absl::StatusOr<bool>()>& done, Deadline deadline) {
  SCALAI_RETURN_IF_ERROR(state_->status());
  for (PollPause pause;; state_->pause(pause.next())) {
    // First `done`: an abort lets kernels go, so that an event behind them passes with half of the data.
    const absl::StatusOr<bool> ready = done();
    if (!ready.ok()) return ended_by(ready.status());
    const absl::StatusOr<bool> looked = state_->look("operations on their streams");
    if (!looked.ok()) return ended_by(looked.status());
    if (*ready) return absl::OkStatus();
    const absl::Status time = state_->still_time("operations on their streams", deadline);
    if (!time.ok()) return ended_by(time);
  }
}

absl::StatusOr<Communicator> Communicator::shrink(std::span<const int> excluded, Deadline deadline) {
  SCALAI_RETURN_IF_ERROR(state_->status());
  SCALAI_CHECK(!in_group_ && !posted_ && !excluded.empty());
  const NcclApi& api = state_->api();
  if (api.comm_shrink == nullptr) {
    return absl::UnimplementedError("this NCCL has no ncclCommShrink (2.27 has it): join a new communicator");
  }
  std::vector<int> gone(excluded.begin(), excluded.end());
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  const auto before_own = std::lower_bound(gone.begin(), gone.end(), rank());
  SCALAI_CHECK(gone.front() >= 0 && gone.back() < size() && !std::binary_search(gone.begin(), gone.end(), rank()));

  auto child = std::make_unique<CommunicatorState>(api);
  child->set_place(rank() - static_cast<int>(before_own - gone.begin()), size() - static_cast<int>(gone.size()));
  // No configuration: it is like this one, non-blocking.
  SCALAI_RETURN_IF_ERROR(state_->start("ncclCommShrink", [&](NcclComm* comm) {
    return api.comm_shrink(comm, gone.data(), static_cast<int>(gone.size()), child->slot(), nullptr,
                           kNcclShrinkDefault);
  }));
  // NCCL fills the slot when this one reports success, and from then on the new one speaks for itself.
  absl::Status status = state_->wait("shrinking the communicator", deadline);
  if (!status.ok()) {
    status = ended_by(status);
  } else {
    status = child->wait("shrinking the communicator", deadline);
  }
  if (!status.ok()) return child->end(status);
  check_place(*child);
  return Communicator(std::move(child));
}

absl::Status Communicator::ended_by(const absl::Status& status) { return state_->end(status); }

void Communicator::abort() {
  (void)state_->end(absl::CancelledError(fmt::format("rank {} of {}: aborted", rank(), size())));
}

bool Communicator::healthy() const { return state_->healthy(); }
absl::Status Communicator::status() const { return state_->status(); }

}  // namespace scalai::executor::nccl
