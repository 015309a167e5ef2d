// NCCL's C functions over host memory, for tests: README.md of this folder says what they do. Assembler labels give
// them NCCL's names, so that the code keeps ours; labelled so, they need no C linkage.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "executor/nccl/testing/fake_nccl_rank.h"

#define SCALAI_EXPORT(name) __asm__(name) __attribute__((visibility("default")))

namespace scalai::executor::nccl::fake {
namespace {

constexpr int kVersion = 22707;
constexpr const char* kIdMark = "scalai-fake-nccl-";

// A communicator as NCCL's users hold it.
struct Handle {
  std::unique_ptr<FakeCommunicator> communicator;
  int groups = 0;             // that were posted
  int shrinks = 0;            // that were begun
  int hang_at = 0;            // the group that never ends; 0 = none
  NcclComm* child = nullptr;  // being made by a shrink
  NcclComm** child_slot = nullptr;
};

// All that exist: a call on one that was given back is a bug of the caller, and ends the process.
struct Registry {
  std::mutex mutex;
  std::map<const NcclComm*, std::shared_ptr<Handle>> handles;
  std::string last_error;
};
Registry& registry() {
  static auto* const all = new Registry();  // outlives the threads that use it at exit
  return *all;
}

NcclComm* enlist(std::shared_ptr<Handle> handle) {
  const std::scoped_lock lock(registry().mutex);
  auto* const comm = reinterpret_cast<NcclComm*>(handle.get());
  registry().handles[comm] = std::move(handle);
  return comm;
}

std::shared_ptr<Handle> find(const NcclComm* comm, bool take = false) {
  const std::scoped_lock lock(registry().mutex);
  const auto found = registry().handles.find(comm);
  if (found == registry().handles.end()) {
    constexpr char kText[] = "fake NCCL: use of a communicator that does not exist\n";
    (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
    std::abort();
  }
  std::shared_ptr<Handle> handle = found->second;
  if (take) registry().handles.erase(found);
  return handle;
}

NcclResult refuse(NcclResult result, const std::string& why) {
  const std::scoped_lock lock(registry().mutex);
  registry().last_error = why;
  return result;
}

int number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

std::shared_ptr<Handle> make_handle(const std::string& name, int rank, int size) {
  auto handle = std::make_shared<Handle>();
  handle->hang_at = number_in_environment("SCALAI_FAKE_NCCL_HANG_AFTER");
  handle->communicator = std::make_unique<FakeCommunicator>(name, rank, size);
  return handle;
}

// --- groups: a thread's own ------------------------------------------------------------------------------------------

struct Group {
  int depth = 0;
  NcclResult error = NcclResult::kSuccess;
  std::vector<std::pair<NcclComm*, std::vector<Operation>>> operations;
};
thread_local Group group;

NcclResult post_all() {
  NcclResult result = group.error;
  for (auto& [comm, operations] : group.operations) {
    if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) break;
    const std::shared_ptr<Handle> handle = find(comm);
    const bool hangs = ++handle->groups == handle->hang_at;
    result = handle->communicator->post(std::move(operations), hangs);
    if (result != NcclResult::kInProgress) refuse(result, handle->communicator->problem());
  }
  group = {};
  return result;
}

// The outermost end posts.
NcclResult end_group() { return --group.depth > 0 ? NcclResult::kSuccess : post_all(); }

NcclResult add(NcclComm* comm, const std::vector<Operation>& operations) {
  ++group.depth;
  auto mine = std::find_if(group.operations.begin(), group.operations.end(),
                           [&](const auto& entry) { return entry.first == comm; });
  if (mine == group.operations.end()) mine = group.operations.insert(mine, {comm, {}});
  mine->second.insert(mine->second.end(), operations.begin(), operations.end());
  return end_group();
}

bool is_bytes(NcclDataType type) { return type == NcclDataType::kInt8 || type == NcclDataType::kUint8; }

NcclResult add_checked(NcclComm* comm, NcclDataType type, int peer, const std::vector<Operation>& operations) {
  const int size = find(comm)->communicator->size();
  if (is_bytes(type) && peer >= 0 && peer < size) return add(comm, operations);
  return group.error = refuse(NcclResult::kInvalidArgument, "a peer that is no rank, or no bytes");
}

}  // namespace

// --- the interface ---------------------------------------------------------------------------------------------------

NcclResult get_version(int* version) SCALAI_EXPORT("ncclGetVersion");
NcclResult get_version(int* version) {
  *version = kVersion;
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(NcclUniqueId* id) SCALAI_EXPORT("ncclGetUniqueId");
NcclResult get_unique_id(NcclUniqueId* id) {
  // A name, not data: it has to differ between processes and runs, so no seed decides it.
  std::random_device device;
  *id = {};
  std::snprintf(id->bytes.data(), id->bytes.size(), "%s%d-%08x%08x", kIdMark, ::getpid(), device(), device());
  return NcclResult::kSuccess;
}

NcclResult init_rank(NcclComm** comm, int size, NcclUniqueId id, int rank, NcclConfig* config)
    SCALAI_EXPORT("ncclCommInitRankConfig");
NcclResult init_rank(NcclComm** comm, int size, NcclUniqueId id, int rank, NcclConfig* config) {
  *comm = nullptr;
  const bool known = std::strncmp(id.bytes.data(), kIdMark, std::strlen(kIdMark)) == 0 && id.bytes.back() == 0;
  if (!known) return refuse(NcclResult::kInvalidArgument, "not a unique id of this library");
  if (config == nullptr || config->magic != 0xcafebeef || config->size != 24 || config->version != 21400) {
    return refuse(NcclResult::kInvalidArgument, "not a configuration of 2.14");
  }
  if (config->blocking != 0) return refuse(NcclResult::kInvalidArgument, "the fake is non-blocking only");
  if (size < 1 || rank < 0 || rank >= size) return refuse(NcclResult::kInvalidArgument, "no such rank");
  *comm = enlist(make_handle(id.bytes.data(), rank, size));
  return NcclResult::kInProgress;
}

NcclResult get_async_error(NcclComm* comm, NcclResult* error) SCALAI_EXPORT("ncclCommGetAsyncError");
NcclResult get_async_error(NcclComm* comm, NcclResult* error) {
  const std::shared_ptr<Handle> handle = find(comm);
  *error = handle->communicator->state();
  if (*error == NcclResult::kSuccess && handle->child != nullptr) {
    *error = find(handle->child)->communicator->state();
    if (*error != NcclResult::kInProgress) {
      *handle->child_slot = handle->child;
      handle->child = nullptr;
    }
  }
  if (*error != NcclResult::kSuccess && *error != NcclResult::kInProgress) {
    refuse(*error, handle->communicator->problem());
  }
  return NcclResult::kSuccess;
}

NcclResult group_start() SCALAI_EXPORT("ncclGroupStart");
NcclResult group_start() {
  ++group.depth;
  return NcclResult::kSuccess;
}

NcclResult group_end() SCALAI_EXPORT("ncclGroupEnd");
NcclResult group_end() {
  if (group.depth == 0) return refuse(NcclResult::kInvalidUsage, "ncclGroupEnd outside of a group");
  return end_group();
}

NcclResult send(const void* from, size_t count, NcclDataType type, int peer, NcclComm* comm, void* stream)
    SCALAI_EXPORT("ncclSend");
NcclResult send(const void* from, size_t count, NcclDataType type, int peer, NcclComm* comm, void*) {
  return add_checked(comm, type, peer,
                     {{true, Kind::kMessage, peer, static_cast<const std::byte*>(from), nullptr, count}});
}

NcclResult recv(void* into, size_t count, NcclDataType type, int peer, NcclComm* comm, void* stream)
    SCALAI_EXPORT("ncclRecv");
NcclResult recv(void* into, size_t count, NcclDataType type, int peer, NcclComm* comm, void*) {
  return add_checked(comm, type, peer, {{false, Kind::kMessage, peer, nullptr, static_cast<std::byte*>(into), count}});
}

NcclResult broadcast(const void* from, void* into, size_t count, NcclDataType type, int root, NcclComm* comm,
                     void* stream) SCALAI_EXPORT("ncclBroadcast");
NcclResult broadcast(const void* from, void* into, size_t count, NcclDataType type, int root, NcclComm* comm, void*) {
  const FakeCommunicator& communicator = *find(comm)->communicator;
  std::vector<Operation> operations;
  if (communicator.rank() != root) {
    operations = {{false, Kind::kBroadcast, root, nullptr, static_cast<std::byte*>(into), count}};
  } else {
    if (into != from) std::memmove(into, from, count);
    for (int peer = 0; peer < communicator.size(); ++peer) {
      if (peer == root) continue;
      operations.push_back({true, Kind::kBroadcast, peer, static_cast<const std::byte*>(from), nullptr, count});
    }
  }
  return add_checked(comm, type, root, operations);
}

NcclResult finalize(NcclComm* comm) SCALAI_EXPORT("ncclCommFinalize");
NcclResult finalize(NcclComm* comm) { return find(comm)->communicator->finalize(); }

NcclResult destroy(NcclComm* comm) SCALAI_EXPORT("ncclCommDestroy");
NcclResult destroy(NcclComm* comm) {
  find(comm, true);
  return NcclResult::kSuccess;
}

NcclResult abort(NcclComm* comm) SCALAI_EXPORT("ncclCommAbort");
NcclResult abort(NcclComm* comm) {
  const std::shared_ptr<Handle> handle = find(comm, true);
  if (handle->child != nullptr) find(handle->child, true);
  return NcclResult::kSuccess;
}

NcclResult shrink(NcclComm* comm, int* excluded, int count, NcclComm** child, NcclConfig* config, int flags)
    SCALAI_EXPORT("ncclCommShrink");
NcclResult shrink(NcclComm* comm, int* excluded, int count, NcclComm** child, NcclConfig* config, int flags) {
  if (std::getenv("SCALAI_FAKE_NCCL_NO_SHRINK") != nullptr) {
    return refuse(NcclResult::kInvalidUsage, "SCALAI_FAKE_NCCL_NO_SHRINK is set");
  }
  const std::shared_ptr<Handle> handle = find(comm);
  const FakeCommunicator& parent = *handle->communicator;
  if (parent.state() != NcclResult::kSuccess || handle->child != nullptr) {
    return refuse(NcclResult::kInvalidArgument, "the communicator is not ready");
  }
  std::vector<int> gone(excluded, excluded + count);
  std::sort(gone.begin(), gone.end());
  if (config != nullptr || flags != 0 || gone.empty() || std::binary_search(gone.begin(), gone.end(), parent.rank())) {
    return refuse(NcclResult::kInvalidArgument, "excluded ranks: none, or this one");
  }
  std::string name = parent.name() + "/" + std::to_string(++handle->shrinks);
  for (const int rank : gone) name += "-" + std::to_string(rank);
  const auto before = std::lower_bound(gone.begin(), gone.end(), parent.rank()) - gone.begin();
  *child = nullptr;
  handle->child = enlist(make_handle(name, parent.rank() - static_cast<int>(before), parent.size() - count));
  handle->child_slot = child;
  return NcclResult::kInProgress;
}

NcclResult comm_count(NcclComm* comm, int* size) SCALAI_EXPORT("ncclCommCount");
NcclResult comm_count(NcclComm* comm, int* size) {
  *size = find(comm)->communicator->size();
  return NcclResult::kSuccess;
}

NcclResult comm_user_rank(NcclComm* comm, int* rank) SCALAI_EXPORT("ncclCommUserRank");
NcclResult comm_user_rank(NcclComm* comm, int* rank) {
  *rank = find(comm)->communicator->rank();
  return NcclResult::kSuccess;
}

const char* get_error_string(NcclResult result) SCALAI_EXPORT("ncclGetErrorString");
const char* get_error_string(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess: return "no error";
    case NcclResult::kUnhandledCudaError: return "CUDA failed";
    case NcclResult::kSystemError: return "the system failed";
    case NcclResult::kInternalError: return "internal error";
    case NcclResult::kInvalidArgument: return "invalid argument";
    case NcclResult::kInvalidUsage: return "invalid usage";
    case NcclResult::kRemoteError: return "a remote process failed";
    case NcclResult::kInProgress: return "in progress";
  }
  return "unknown result";
}

const char* get_last_error(NcclComm* comm) SCALAI_EXPORT("ncclGetLastError");
const char* get_last_error(NcclComm*) {
  thread_local std::string text;
  const std::scoped_lock lock(registry().mutex);
  text = registry().last_error;
  return text.c_str();
}

}  // namespace scalai::executor::nccl::fake
