#include "executor/rpc/token.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

using ::testing::HasSubstr;

class TokenTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unlink(file_.c_str());
    ::unsetenv(kTokenVariable);
  }
  const std::string file_ = ::testing::TempDir() + fmt::format("token-{}", ::getpid());
};

TEST_F(TokenTest, EachIsNewAndGood) {
  const std::string first = make_token().value();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_TRUE(check_token(first).ok());
  EXPECT_NE(first, make_token().value());
}

TEST_F(TokenTest, AFileIsForItsOwnerOnly) {
  const std::string token = make_token().value();
  ASSERT_TRUE(write_file(file_, "somebody else's").ok());
  ASSERT_TRUE(write_token(file_, token).ok());
  struct stat info {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(read_token(file_).value(), token);
  ASSERT_EQ(::chmod(file_.c_str(), 0640), 0);
  const absl::Status status = read_token(file_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("chmod 600"));
}

TEST_F(TokenTest, AnotherUsersFileIsNoSecret) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  ASSERT_TRUE(write_token(file_, make_token().value()).ok());
  ASSERT_EQ(::chown(file_.c_str(), 65534, 65534), 0);
  const absl::Status status = read_token(file_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("belongs to user 65534"));
}

TEST_F(TokenTest, TheVariableIsUsedWithoutAFile) {
  EXPECT_TRUE(absl::IsNotFound(read_token("").status()));
  ::setenv(kTokenVariable, "from-the-environment", 1);
  EXPECT_EQ(read_token("").value(), "from-the-environment");
  EXPECT_TRUE(absl::IsNotFound(read_token(file_).status())) << "a named file that is absent is an error";
}

TEST_F(TokenTest, BadOnesAreRefusedWithoutShowingThem) {
  ::setenv(kTokenVariable, "tiny-secret", 1);
  const absl::Status status = read_token("").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(message_of(status), HasSubstr("SCALAI_TOKEN: a token has 16 to 512 characters, not 11"));
  EXPECT_EQ(message_of(status).find("tiny"), std::string::npos);
  EXPECT_FALSE(check_token("has a blank in its middle").ok());
  EXPECT_FALSE(check_token("has-a-line-end-in-it\n").ok());
  EXPECT_FALSE(check_token(std::string(513, 'x')).ok());
}

}  // namespace
}  // namespace scalai::executor::rpc
