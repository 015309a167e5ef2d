// Two libraries for the tests of loading: one that is too old, and, with SCALAI_HOLLOW, one in which a function is
// absent. Only the version can be asked for.

namespace scalai::executor::nccl::fake {

constexpr int kVersion = 21212;

int get_version(int* version) __asm__("ncclGetVersion") __attribute__((visibility("default")));
int get_version(int* version) {
  *version = kVersion;
  return 0;
}

#define SCALAI_STUB(number, name)                                           \
  int stub_##number() __asm__(name) __attribute__((visibility("default"))); \
  int stub_##number() { return 3; }                                         \
  static_assert(true)

SCALAI_STUB(1, "ncclGetUniqueId");
SCALAI_STUB(2, "ncclCommInitRankConfig");
SCALAI_STUB(3, "ncclCommGetAsyncError");
SCALAI_STUB(4, "ncclGroupStart");
SCALAI_STUB(5, "ncclGroupEnd");
SCALAI_STUB(6, "ncclSend");
SCALAI_STUB(7, "ncclRecv");
SCALAI_STUB(8, "ncclBroadcast");
#ifndef SCALAI_HOLLOW
SCALAI_STUB(9, "ncclCommFinalize");
#endif
SCALAI_STUB(10, "ncclCommDestroy");
SCALAI_STUB(11, "ncclCommAbort");
SCALAI_STUB(12, "ncclCommCount");
SCALAI_STUB(13, "ncclCommUserRank");
SCALAI_STUB(14, "ncclGetErrorString");

}  // namespace scalai::executor::nccl::fake
