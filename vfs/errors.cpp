#include "vfs/errors.h"

#include <cerrno>

namespace scalai::vfs {

int errno_of_find(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange: return ENOENT;
    case absl::StatusCode::kPermissionDenied: return EACCES;
    case absl::StatusCode::kResourceExhausted: return ENOMEM;
    case absl::StatusCode::kFailedPrecondition: return ESTALE;
    default: return EIO;
  }
}

int errno_of_read(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound: return ENOENT;
    case absl::StatusCode::kPermissionDenied: return EACCES;
    case absl::StatusCode::kFailedPrecondition: return ESTALE;
    default: return EIO;
  }
}

}  // namespace scalai::vfs
