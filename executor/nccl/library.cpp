#include "executor/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::executor::nccl {
namespace {

constexpr const char* kAdvice =
    "install NCCL 2.14 or later (the package libnccl2), or put the folder of libnccl.so.2 into LD_LIBRARY_PATH";
// Where CUDA's installers put it without telling the loader.
constexpr std::array<const char*, 3> kUsualPlaces = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                                     "/usr/local/cuda/lib/libnccl.so.2"};

struct Handle {
  void* library = nullptr;
  ~Handle() {
    if (library != nullptr) dlclose(library);
  }
};

absl::Status open_file(const std::string& path, Handle& handle) {
  handle.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle.library != nullptr) return absl::OkStatus();
  const char* why = dlerror();
  return missing(fmt::format("NCCL cannot be loaded: {}; {}", why != nullptr ? why : path.c_str(), kAdvice));
}

absl::Status open_usual(Handle& handle) {
  absl::Status first;
  for (const char* place : kUsualPlaces) {
    const absl::Status status = open_file(place, handle);
    if (status.ok()) return status;
    first.Update(status);
  }
  return first;
}

template <class Function>
bool find(const Handle& handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle.library, name));
  return function != nullptr;
}

// The names of what we need and it has not.
std::vector<std::string> fill_table(const Handle& handle, NcclApi& api) {
  std::vector<std::string> absent;
  const auto need = [&](const char* name, auto& function) {
    if (!find(handle, name, function)) absent.emplace_back(name);
  };
  need("ncclGetVersion", api.get_version);
  need("ncclGetUniqueId", api.get_unique_id);
  need("ncclCommInitRankConfig", api.comm_init_rank_config);
  need("ncclCommGetAsyncError", api.comm_get_async_error);
  need("ncclGroupStart", api.group_start);
  need("ncclGroupEnd", api.group_end);
  need("ncclSend", api.send);
  need("ncclRecv", api.recv);
  need("ncclBroadcast", api.broadcast);
  need("ncclCommFinalize", api.comm_finalize);
  need("ncclCommDestroy", api.comm_destroy);
  need("ncclCommAbort", api.comm_abort);
  need("ncclCommCount", api.comm_count);
  need("ncclCommUserRank", api.comm_user_rank);
  need("ncclGetErrorString", api.get_error_string);
  find(handle, "ncclCommShrink", api.comm_shrink);
  find(handle, "ncclGetLastError", api.get_last_error);
  return absent;
}

std::string file_of(const NcclApi& api, const std::string& otherwise) {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(api.get_version), &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : otherwise;
}

absl::Status with_code(NcclResult result, const std::string& message) {
  switch (result) {
    case NcclResult::kSystemError:
    case NcclResult::kRemoteError: return absl::UnavailableError(message);
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage: return absl::FailedPreconditionError(message);
    default: return failed(message);
  }
}

}  // namespace

absl::StatusOr<NcclLibrary> NcclLibrary::open(const std::string& path) {
  Handle handle;
  SCALAI_RETURN_IF_ERROR(path.empty() ? open_usual(handle) : open_file(path, handle));
  NcclLibrary library;
  const std::vector<std::string> absent = fill_table(handle, library.api_);
  library.path_ = library.api_.get_version != nullptr ? file_of(library.api_, path) : path;
  if (!absent.empty()) {
    return missing(
        fmt::format("{} is no NCCL that serves: it has no {}; {}", library.path_, fmt::join(absent, ", "), kAdvice));
  }
  const NcclResult result = library.api_.get_version(&library.version_);
  SCALAI_RETURN_IF_ERROR(nccl_status(library.api_, result, "ncclGetVersion"));
  if (library.version_ < kOldestVersion) {
    return missing(fmt::format("{} is NCCL {}, too old; {}", library.path_, library.version(), kAdvice));
  }
  handle.library = nullptr;  // from here on it stays, see the header
  return library;
}

std::string NcclLibrary::version() const { return nccl_version_text(version_); }

std::string nccl_version_text(int code) {
  const int major = code < 10'000 ? code / 1'000 : code / 10'000;
  return fmt::format("{}.{}.{}", major, code / 100 % (code < 10'000 ? 10 : 100), code % 100);
}

absl::Status nccl_status(const NcclApi& api, NcclResult result, std::string_view what, NcclComm* comm) {
  SCALAI_CHECK(result != NcclResult::kInProgress);
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  const char* meaning = api.get_error_string(result);
  std::string message = fmt::format("{}: {}", what, meaning != nullptr ? meaning : "unknown error");
  const char* detail = api.get_last_error != nullptr ? api.get_last_error(comm) : nullptr;
  if (detail != nullptr && *detail != '\0') message += fmt::format(" ({})", detail);
  return with_code(result, message);
}

}  // namespace scalai::executor::nccl
