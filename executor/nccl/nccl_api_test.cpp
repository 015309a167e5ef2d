// Holds nccl_api.h against NCCL's own header, where there is one: nothing to run, it compiles or it does not.

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "executor/nccl/nccl_api.h"

namespace scalai::executor::nccl {
namespace {

#define SCALAI_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SCALAI_SAME(NcclResult::kSuccess, ncclSuccess);
SCALAI_SAME(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError);
SCALAI_SAME(NcclResult::kSystemError, ncclSystemError);
SCALAI_SAME(NcclResult::kInternalError, ncclInternalError);
SCALAI_SAME(NcclResult::kInvalidArgument, ncclInvalidArgument);
SCALAI_SAME(NcclResult::kInvalidUsage, ncclInvalidUsage);
SCALAI_SAME(NcclResult::kRemoteError, ncclRemoteError);
SCALAI_SAME(NcclResult::kInProgress, ncclInProgress);
SCALAI_SAME(NcclDataType::kInt8, ncclInt8);
SCALAI_SAME(NcclDataType::kUint8, ncclUint8);
static_assert(sizeof(NcclResult) == sizeof(ncclResult_t) && sizeof(NcclDataType) == sizeof(ncclDataType_t));

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && alignof(NcclUniqueId) == alignof(ncclUniqueId));
static_assert(std::is_trivially_copyable_v<NcclUniqueId>);  // it is passed by value

// Ours is a prefix of theirs, and our filler is where theirs begins to be newer.
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
constexpr NcclConfig kOurs;
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, unused) == offsetof(ncclConfig_t, blocking) + sizeof(int));
static_assert(sizeof(NcclConfig) == 24 && sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(kOurs.magic == kTheirs.magic && kOurs.unused == NCCL_CONFIG_UNDEF_INT);
static_assert(kOurs.version == NCCL_VERSION(2, 14, 0) && kOurs.version <= kTheirs.version);

// Functions: the same, with each of NCCL's types in the place of ours.
template <class Theirs>
struct Ours {
  using Type = Theirs;
};
#define SCALAI_MAPS(theirs, ours) \
  template <>                     \
  struct Ours<theirs> {           \
    using Type = ours;            \
  }
SCALAI_MAPS(ncclResult_t, NcclResult);
SCALAI_MAPS(ncclResult_t*, NcclResult*);
SCALAI_MAPS(ncclDataType_t, NcclDataType);
SCALAI_MAPS(ncclUniqueId, NcclUniqueId);
SCALAI_MAPS(ncclUniqueId*, NcclUniqueId*);
SCALAI_MAPS(ncclConfig_t*, NcclConfig*);
SCALAI_MAPS(ncclComm_t, NcclComm*);
SCALAI_MAPS(ncclComm_t*, NcclComm**);
SCALAI_MAPS(cudaStream_t, void*);

template <class Function>
struct Translated;
template <class Result, class... Arguments>
struct Translated<Result (*)(Arguments...)> {
  using Type = typename Ours<Result>::Type (*)(typename Ours<Arguments>::Type...);
};
template <class Ours, class Theirs>
constexpr bool same(Ours NcclApi::*, Theirs*) {
  return std::is_same_v<Ours, typename Translated<Theirs*>::Type>;
}

static_assert(same(&NcclApi::get_version, &ncclGetVersion));
static_assert(same(&NcclApi::get_unique_id, &ncclGetUniqueId));
static_assert(same(&NcclApi::comm_init_rank_config, &ncclCommInitRankConfig));
static_assert(same(&NcclApi::comm_get_async_error, &ncclCommGetAsyncError));
static_assert(same(&NcclApi::group_start, &ncclGroupStart));
static_assert(same(&NcclApi::group_end, &ncclGroupEnd));
static_assert(same(&NcclApi::send, &ncclSend));
static_assert(same(&NcclApi::recv, &ncclRecv));
static_assert(same(&NcclApi::broadcast, &ncclBroadcast));
static_assert(same(&NcclApi::comm_finalize, &ncclCommFinalize));
static_assert(same(&NcclApi::comm_destroy, &ncclCommDestroy));
static_assert(same(&NcclApi::comm_abort, &ncclCommAbort));
static_assert(same(&NcclApi::get_error_string, &ncclGetErrorString));
static_assert(same(&NcclApi::get_last_error, &ncclGetLastError));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(same(&NcclApi::comm_shrink, &ncclCommShrink));
SCALAI_SAME(kNcclShrinkDefault, NCCL_SHRINK_DEFAULT);
#endif
// Theirs take `const ncclComm_t`, a constant pointer to what may change; for a caller that is the same.
static_assert(same(&NcclApi::comm_count, &ncclCommCount));
static_assert(same(&NcclApi::comm_user_rank, &ncclCommUserRank));

}  // namespace
}  // namespace scalai::executor::nccl
