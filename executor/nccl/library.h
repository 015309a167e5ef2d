#pragma once
// NCCL, opened while the program runs: the same executable starts on a node that has none. This is also the one place
// where NCCL's result codes become a Status.
//
// A library that was opened stays mapped until the process ends, because NCCL leaves threads and exit handlers of CUDA
// behind; so the table is a value that may be copied and kept without regard to the NcclLibrary. Any thread.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/nccl/nccl_api.h"

namespace scalai::executor {

class NcclLibrary {
 public:
  // The oldest with non-blocking communicators (their configuration came with 2.14).
  static constexpr int kOldestVersion = 21400;

  // Opens the file at `path`, or what the loader finds as libnccl.so.2 (LD_LIBRARY_PATH, ldconfig's cache, and then
  // /usr/local/cuda/lib64 and lib). Missing (exit code 4), with what to do: no such library, one without a function
  // that we need, or one that is too old.
  static absl::StatusOr<NcclLibrary> open(const std::string& path = "");

  const NcclApi& api() const { return api_; }
  int version_code() const { return version_; }      // 22707
  std::string version() const;                       // "2.27.7"
  const std::string& path() const { return path_; }  // the file that was loaded
  bool can_shrink() const { return api_.comm_shrink != nullptr; }

 private:
  NcclApi api_;
  int version_ = 0;
  std::string path_;
};

// NCCL's version number as people write it: 22707 is "2.27.7", and 2708 (before 2.9) is "2.7.8".
std::string nccl_version_text(int code);

// What `result` means after `what` was tried: "ncclSend to rank 3: remote process exited … (NCCL's last message)".
//   OK                  success
//   Unavailable         a peer is gone, or the network or the system failed
//   FailedPrecondition  NCCL refuses the call as such
//   failed()            the rest, CUDA's errors among them
// The last message is that of the process, so after errors of several communicators it may be another's. In progress is
// not an outcome (CHECK).
absl::Status nccl_status(const NcclApi& api, NcclResult result, std::string_view what, NcclComm* comm = nullptr);

}  // namespace scalai::executor
