// `scalai data index` and `scalai fs` with data on a web server.

#include <gmock/gmock.h>

#include "tests/fs_end_to_end.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

std::string records(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{:08}", i);
  return text;
}

class FsRemoteTest : public FsEndToEnd {
 protected:
  Outcome index(const std::string& url) const {
    return scalai(fmt::format("data index --kind=fixed --record-bytes=8 {} --out={}", url, path("far.index")));
  }
  std::string options() const {
    return fmt::format("--dataset={} --allow-outside --global-batch=60 --no-shuffle --cache-dir={}", path("far.index"),
                       path("cache"));
  }
};

TEST_F(FsRemoteTest, RanksReadTheirShareOverHttp) {
  const vfs::TestServer server(records(300'000), "\"one\"");
  const Outcome indexed = index(server.url());
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  EXPECT_THAT(indexed.out, HasSubstr("300000 documents"));
  const Outcome refused = mount("m", fmt::format("--dataset={} --global-batch=60", path("far.index")));
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("names data outside of its folder: http://127.0.0.1"));
  const Outcome mounted = mount("m", options());
  ASSERT_EQ(mounted.code, 0) << mounted.err << log_of("m");
  const std::string shard = read_all(path("m/dataset/dp4/step-10/rank_02/shard_00000.bin"));
  ASSERT_EQ(shard.size(), 8192u * 8);
  for (size_t k = 0; k < 8192; ++k) {
    const int64_t expected = 600 + static_cast<int64_t>(k / 15) * 60 + 30 + static_cast<int64_t>(k % 15);
    ASSERT_EQ(shard.substr(k * 8, 8), fmt::format("{:08}", expected)) << k;
  }
  EXPECT_FALSE(fs::is_empty(path("cache")));
}

TEST_F(FsRemoteTest, AFileThatHasChangedOnTheServerIsRefused) {
  vfs::TestServer server(records(3000), "\"one\"");
  ASSERT_EQ(index(server.url()).code, 0);
  server.set_file(records(3001), "\"two\"");
  const Outcome mounted = mount("m", options());
  EXPECT_EQ(mounted.code, 3) << mounted.err;
  EXPECT_THAT(mounted.err, HasSubstr("127.0.0.1"));
  EXPECT_FALSE(is_mounted("m"));
}

TEST_F(FsRemoteTest, AServerWithoutVersionsIsShownOnlyIfItIsTrusted) {
  const vfs::TestServer server(records(3000), "");
  ASSERT_EQ(index(server.url()).code, 0);
  const Outcome refused = mount("m", options());
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the server tells no version, neither ETag nor Last-Modified"));
  EXPECT_THAT(refused.err, HasSubstr("--trust-source"));
  EXPECT_FALSE(is_mounted("m"));
  const Outcome trusted = mount("m", options() + " --trust-source");
  EXPECT_EQ(trusted.code, 0) << trusted.err;
}

}  // namespace
}  // namespace scalai::testing
