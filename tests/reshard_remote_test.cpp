// `scalai checkpoint` with a source on a web server that changes meanwhile.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/store/views/testing/test_model.h"
#include "tests/checkpoint_command.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::store {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = int64_t{12} << 20;

// A file of one tensor whose bytes are all the same.
std::string file_of(char byte, const std::string& scratch) {
  const std::string bytes(kBytes, byte);
  const absl::Status written = write_safetensors(
      scratch, {{"w", tensor::DType::kU8, {3, kBytes / 3}}}, {},
      [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> { return bytes_of(bytes); });
  SCALAI_CHECK(written.ok(), message_of(written));
  return text_of(scratch);
}

class ReshardRemote : public CommandTest {
 protected:
  ReshardRemote()
      : old_(file_of('a', path("old.safetensors"))), server_(old_, ""), new_(file_of('b', path("new.safetensors"))) {
    serve(-1);
  }
  // The file is another one from the answer on that has this byte of it; -1: it stays.
  void serve(int64_t change_at) {
    server_.set_faults([this, change_at](const vfs::TestServer::Request& request) {
      if (change_at >= 0 && request.first <= change_at && request.last >= change_at) server_.set_file(new_, "");
      return vfs::TestServer::Fault{.status = request.path == "/m.safetensors" ? 0 : 404};
    });
  }
  Outcome reshard(const std::string& more = "") const {
    return scalai(
        fmt::format("checkpoint reshard {} {{}}/out --to=logical --threads=1 {}", server_.url("/m.safetensors"), more));
  }
  std::string result() const { return text_of(path("out/model.safetensors")); }

  const std::string old_;
  vfs::TestServer server_;
  const std::string new_;
};

TEST_F(ReshardRemote, AFileThatChangesMeanwhileIsNotPublished) {
  serve(kBytes / 2);
  const Outcome mixed = reshard();
  EXPECT_EQ(mixed.code, 3);
  EXPECT_THAT(mixed.err, HasSubstr("was changed while in use: bytes"));
  EXPECT_THAT(mixed.err, HasSubstr("neither ETag nor Last-Modified"));
  for (const char* left : {"out", "out.partial", "out.partial.journal"})
    EXPECT_FALSE(std::filesystem::exists(path(left))) << left;
}

TEST_F(ReshardRemote, AFileThatStaysIsReadTwiceOrTrusted) {
  const Outcome done = reshard();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("what is read is read twice"));
  EXPECT_TRUE(result().substr(result().size() - kBytes) == std::string(kBytes, 'a'));
  const size_t twice = server_.requests().size();
  const Outcome trusted = reshard("--trust-source --force");
  ASSERT_EQ(trusted.code, 0) << trusted.err;
  EXPECT_THAT(trusted.out, HasSubstr("it is taken for unchanged"));
  EXPECT_LT(server_.requests().size() - twice, twice);
}

TEST_F(ReshardRemote, StatisticsAreOfOneFileToo) {
  const std::string stats = fmt::format("checkpoint stats {}", server_.url("/m.safetensors"));
  EXPECT_EQ(scalai(stats).code, 0);
  serve(kBytes / 2);
  const Outcome mixed = scalai(stats);
  EXPECT_EQ(mixed.code, 3);
  EXPECT_THAT(mixed.err, HasSubstr("was changed while in use"));
}

TEST_F(ReshardRemote, PartsNeedAVersion) {
  const Outcome refused = reshard("--part=1/2");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--part: the server tells no version of the source"));
}

}  // namespace
}  // namespace scalai::store
