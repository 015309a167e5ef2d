#pragma once
// The part of NCCL's C interface in use, as a table of function pointers: the build needs neither nccl.h nor CUDA nor
// the library, and a fake can replace it. Numbers, sizes and offsets are NCCL's; nccl_api_test.cpp compares them with
// nccl.h if there is one.
//
// The configuration is that of NCCL 2.14, the first with `blocking`. Later libraries copy min(size, their own size)
// bytes over their defaults and reset the fields unknown to the stated version, so it works for all of them
// (`parseCommConfig` in NCCL's src/init.cc). Plain data; any thread.

#include <array>
#include <climits>
#include <cstddef>

namespace scalai::executor::nccl {

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

enum class NcclDataType : int { kInt8 = 0, kUint8 = 1 };  // state travels as bytes

// Meeting point of the ranks of a communicator. One process creates it; the control plane carries it to the others.
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
  // Null in older libraries: comm_shrink came with 2.27, get_last_error with 2.13.
  NcclResult (*comm_shrink)(NcclComm* comm, int* excluded, int excluded_count, NcclComm** child, NcclConfig* config,
                            int flags) = nullptr;
  const char* (*get_last_error)(NcclComm* comm) = nullptr;
};

}  // namespace scalai::executor::nccl
