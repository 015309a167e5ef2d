#pragma once
// NCCL, opened at run time, so the same executable starts on a node without it. The only place that converts NCCL's
// result codes to a Status.
//
// An opened library stays mapped until the process ends, because NCCL leaves threads and CUDA's exit handlers behind.
// So the table is a value that may be copied and may outlive the NcclLibrary. Any thread.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/nccl/nccl_api.h"

namespace scalai::executor::nccl {

class NcclLibrary {
 public:
  // The first version with non-blocking communicators (their configuration came with 2.14).
  static constexpr int kOldestVersion = 21400;

  // Opens the file at `path`, or libnccl.so.2 from the loader (LD_LIBRARY_PATH, ldconfig's cache, then
  // /usr/local/cuda/lib64 and lib). NotFound (exit code 4), with what to do: no such library, a missing function, or an
  // older version.
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

// NCCL's version number as text: 22707 is "2.27.7", and 2708 (before 2.9) is "2.7.8".
std::string nccl_version_text(int code);

// The Status of `result` after the operation `what`: "ncclSend to rank 3: remote process exited … (NCCL's last
// message)".
//   OK                  success
//   Unavailable         a peer is gone, or the network or the system failed
//   FailedPrecondition  NCCL refuses the call as such
//   Aborted             all else, including CUDA's errors
// NCCL's last message is per process, so after errors of several communicators it may belong to another one. CHECK: not
// "in progress".
absl::Status nccl_status(const NcclApi& api, NcclResult result, std::string_view what, NcclComm* comm = nullptr);

}  // namespace scalai::executor::nccl
