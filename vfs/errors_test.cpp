#include "vfs/errors.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

TEST(Errors, OfNamesThatAreLookedFor) {
  EXPECT_EQ(errno_of_find(missing("")), ENOENT);
  EXPECT_EQ(errno_of_find(invalid("tp3 does not divide 8 heads")), ENOENT);
  EXPECT_EQ(errno_of_find(absl::PermissionDeniedError("")), EACCES);
  EXPECT_EQ(errno_of_find(failed("read failed")), EIO);
  EXPECT_EQ(errno_of_find(absl::ResourceExhaustedError("")), ENOMEM);
  EXPECT_EQ(errno_of_find(absl::InternalError("")), EIO);
}

TEST(Errors, OfReading) {
  EXPECT_EQ(errno_of_read(missing("a.bin: no such file")), ENOENT);
  EXPECT_EQ(errno_of_read(absl::PermissionDeniedError("")), EACCES);
  EXPECT_EQ(errno_of_read(invalid("a.bin: was cut")), EIO);
  EXPECT_EQ(errno_of_read(failed("")), EIO);
  EXPECT_EQ(errno_of_read(absl::UnavailableError("")), EIO);
}

}  // namespace
}  // namespace scalai::vfs
