#pragma once
// The part of NCCL's C interface that we call, as a table of function pointers, so that nothing here needs nccl.h, CUDA
// or the library when it is built, and a fake can stand in. Numbers, sizes and offsets are NCCL's; nccl_api_test.cpp
// compares them with nccl.h where there is one.
//
// The configuration is that of NCCL 2.14, the first with `blocking`. Later libraries copy min(size, their own size)
// bytes over their defaults and reset what the stated version did not know, so it serves them all (`parseCommConfig` in
// NCCL's src/init.cc). Plain data: any thread.

#include <array>
#include <climits>
#include <cstddef>

namespace scalai::executor {

struct NcclComm;  // opaque; owned by NCCL

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class NcclDataType : int { kInt8 = 0, kUint8 = 1 };  // we send bytes

// Says where the ranks of a communicator meet. Made by one process, carried to the others by the control plane.
struct NcclUniqueId {
  std::array<char, 128> bytes{};
  friend bool operator==(const NcclUniqueId&, const NcclUniqueId&) = default;
};

struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  // of the layout, not of the library
  int blocking = 0;
  int unused = INT_MIN;  // padding in 2.14; later a field that our version resets, and this is its "not set"
};

inline constexpr int kNcclShrinkDefault = 0;  // the parent is healthy and idle

// A stream is a cudaStream_t.
struct NcclApi {
  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*comm_init_rank_config)(NcclComm** comm, int size, NcclUniqueId id, int rank,
                                      NcclConfig* config) = nullptr;
  NcclResult (*comm_get_async_error)(NcclComm* comm, NcclResult* error) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*send)(const void* from, size_t count, NcclDataType type, int peer, NcclComm* comm,
                     void* stream) = nullptr;
  NcclResult (*recv)(void* into, size_t count, NcclDataType type, int peer, NcclComm* comm, void* stream) = nullptr;
  NcclResult (*broadcast)(const void* from, void* into, size_t count, NcclDataType type, int root, NcclComm* comm,
                          void* stream) = nullptr;
  NcclResult (*comm_finalize)(NcclComm* comm) = nullptr;
  NcclResult (*comm_destroy)(NcclComm* comm) = nullptr;
  NcclResult (*comm_abort)(NcclComm* comm) = nullptr;
  NcclResult (*comm_count)(NcclComm* comm, int* size) = nullptr;
  NcclResult (*comm_user_rank)(NcclComm* comm, int* rank) = nullptr;
  const char* (*get_error_string)(NcclResult result) = nullptr;
  // Null where the library is older: 2.27 has the first, 2.13 the second.
  NcclResult (*comm_shrink)(NcclComm* comm, int* excluded, int excluded_count, NcclComm** child, NcclConfig* config,
                            int flags) = nullptr;
  const char* (*get_last_error)(NcclComm* comm) = nullptr;
};

}  // namespace scalai::executor
