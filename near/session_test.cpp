#include "near/session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ptc/base/status.h"

namespace scalai::near {
namespace session_test {

using ::testing::HasSubstr;

// A host that lists one file.
absl::Status listed(const std::string& name) {
  std::string path = ::testing::TempDir() + "session-XXXXXX";
  const FileDescriptor file(::mkstemp(path.data()));
  EXPECT_TRUE(send(file.get(), Answer(Hello{.version = kProtocol, .threads = 1})).ok());
  EXPECT_TRUE(send(file.get(), Answer(Listed{.files = {{name, 1, true}}, .problem = ""})).ok());
  const Launch launch{.words = {"sh", "-c", "cat " + path + "; cat > /dev/null"}, .program = "x"};
  const auto session = Session::start({.name = "h", .folder = "/x"}, launch);
  EXPECT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->list().status();
  ::unlink(path.c_str());
  return status;
}

TEST(Session, NamesOfAHostLieBelowItsFolder) {
  EXPECT_TRUE(listed("a/b..c").ok());
  for (const std::string& name :
       {std::string("/etc/x"), std::string("../x"), std::string("a/../../x"), std::string(), std::string("a\0b", 3)})
    EXPECT_THAT(message_of(listed(name)), HasSubstr("h: lists \"")) << name;
}

}  // namespace session_test
}  // namespace scalai::near
