#include "ptc/store/datasets/data_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;

// Bytes at an address, that can be exchanged.
class Remote final : public ByteSource {
 public:
  Remote(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
    return absl::OkStatus();
  }

 private:
  std::string name_, bytes_;
};

// Three files of ten-byte records, 4 each.
class Files : public testing::Test {
 protected:
  Files() {
    for (const char* name : {"a", "b", "c"}) {
      paths_.push_back(folder_.write(name, std::string(40, name[0])));
    }
    EXPECT_TRUE(build(paths_, open_file_source).ok());
    index_ = Index::open(folder_.path("index")).value();
  }
  absl::StatusOr<BuildSummary> build(const std::vector<std::string>& files, const SourceOpener& opener) const {
    return build_index(
        {.format = Format::kFixed, .files = files, .out = folder_.path("index"), .record_bytes = 10, .opener = opener});
  }
  SourceOpener counting() {
    return [this](const std::string& location) {
      ++opened_;
      return open_file_source(location);
    };
  }

  // Empty, or what is wrong with an index in folder/sub of these files.
  std::string outside(const std::vector<std::string>& files, const SourceOpener& opener = open_file_source) {
    const std::string out = folder_.path("sub/index");
    EXPECT_TRUE(
        build_index({.format = Format::kFixed, .files = files, .out = out, .record_bytes = 10, .opener = opener}).ok());
    const std::string message = message_of(check_inside(*Index::open(out).value()));
    const std::string before = out + ": names data outside of its folder: ";
    return message.substr(message.empty() ? 0 : before.size());
  }

  test::TempFolder folder_;
  std::vector<std::string> paths_;
  std::shared_ptr<const Index> index_;
  std::atomic<int> opened_ = 0;
};

TEST_F(Files, OutsideOfTheFolderOfTheIndex) {
  namespace fs = std::filesystem;
  EXPECT_TRUE(check_inside(*index_).ok());
  fs::create_directories(folder_.path("sub/deep"));
  fs::copy_file(paths_[0], folder_.path("sub/deep/a"));
  fs::create_symlink("a", folder_.path("sub/deep/inside"));
  fs::create_symlink(paths_[1], folder_.path("sub/link"));
  EXPECT_EQ(outside({folder_.path("sub/deep/a"), folder_.path("sub/deep/inside")}), "");
  EXPECT_EQ(outside({folder_.path("sub/../b")}), folder_.path("b"));
  EXPECT_EQ(outside({folder_.path("sub/deep/a"), folder_.path("sub/link"), paths_[2]}),
            folder_.path("sub/link") + ", " + paths_[2]);
  const auto remote = [](const std::string& location) {
    return std::make_shared<Remote>(location, std::string(40, 'r'));
  };
  EXPECT_EQ(outside({"https://host/a?key=secret"}, remote), "https://host/a");
}

TEST_F(Files, AreOpenedOnceAndRead) {
  const DataFiles files(index_, counting());
  std::string bytes(10, '?');
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(files.read(index_->document(i).value(), std::as_writable_bytes(std::span(bytes))).ok());
    EXPECT_EQ(bytes, std::string(10, static_cast<char>('a' + i / 4)));
  }
  EXPECT_EQ(opened_, 3);
}

TEST_F(Files, TheLeastRecentlyUsedIsLetGoAndStaysUsable) {
  const DataFiles files(index_, counting(), 2);
  const ByteSourcePtr a = files.source(0).value();
  (void)files.source(1);
  (void)files.source(0);
  (void)files.source(2);  // instead of 1
  EXPECT_EQ(opened_, 3);
  EXPECT_EQ(files.source(0).value(), a);
  EXPECT_EQ(opened_, 3);
  (void)files.source(1);
  EXPECT_EQ(opened_, 4);
  (void)files.source(0);
  EXPECT_EQ(opened_, 4) << "2 was the one let go";
  std::string byte(1, '?');
  EXPECT_TRUE(a->read(0, std::as_writable_bytes(std::span(byte))).ok());
}

TEST_F(Files, ThreadsGetTheSameBytes) {
  const DataFiles files(index_, counting(), 1);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string bytes(10, '?');
      for (int i = 0; i < 300; ++i) {
        const int document = (i * 5 + t) % 12;
        const bool read = files.read(index_->document(document).value(), std::as_writable_bytes(std::span(bytes))).ok();
        if (!read || bytes != std::string(10, static_cast<char>('a' + document / 4))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Files, AChangedOneIsRefusedByName) {
  folder_.write("b", std::string(30, 'b'));
  const auto cut = DataFiles(index_, open_file_source).source(1);
  EXPECT_THAT(message_of(cut.status()), HasSubstr(paths_[1] + ": has 30 bytes and had 40 when it was indexed"));
  EXPECT_EQ(exit_code_of(cut.status()), 3);
  folder_.write("b", std::string(40, 'B'));
  const auto written = DataFiles(index_, open_file_source).source(1);
  EXPECT_THAT(message_of(written.status()), HasSubstr("was written since it was indexed"));
  std::filesystem::remove(paths_[1]);
  EXPECT_EQ(exit_code_of(DataFiles(index_, open_file_source).source(1).status()), 4);
  EXPECT_TRUE(DataFiles(index_, open_file_source).source(0).ok());
}

// Rewritten, and its time put back.
TEST_F(Files, OneWithOtherEdgesIsRefusedWhateverItsTime) {
  struct stat before {};
  ASSERT_EQ(::stat(paths_[1].c_str(), &before), 0);
  folder_.write("b", std::string(40, 'B'));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, paths_[1].c_str(), times, 0), 0);
  const auto source = DataFiles(index_, open_file_source).source(1);
  EXPECT_THAT(message_of(source.status()), HasSubstr(paths_[1] + ": begins or ends otherwise"));
}

TEST_F(Files, OneThatIsChangedWhileOpenIsRefused) {
  const DataFiles files(index_, open_file_source);
  std::string bytes(10, '?');
  const auto read = [&] { return files.read(index_->document(5).value(), std::as_writable_bytes(std::span(bytes))); };
  ASSERT_TRUE(read().ok());
  std::filesystem::resize_file(paths_[1], 20);
  EXPECT_THAT(message_of(read()), HasSubstr(paths_[1] + ": was cut to 20"));
}

TEST_F(Files, RemoteOnesAreKnownByTheirEdges) {
  std::string bytes(300'000, 'x');
  const SourceOpener opener = [&](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
    return std::make_shared<Remote>(location, bytes);
  };
  ASSERT_TRUE(build({"https://host/data"}, opener).ok());
  const auto index = Index::open(folder_.path("index")).value();
  EXPECT_EQ(index->files()[0].location, "https://host/data");
  EXPECT_EQ(index->files()[0].modified_ns, 0);
  EXPECT_TRUE(DataFiles(index, opener).source(0).ok());
  for (const size_t at : {size_t{0}, bytes.size() - 1}) {
    bytes[at] = 'y';
    const auto source = DataFiles(index, opener).source(0);
    EXPECT_THAT(message_of(source.status()), HasSubstr("https://host/data: begins or ends otherwise")) << at;
    bytes[at] = 'x';
  }
}

// A folder with index and data files is moved, the working folder is another one.
TEST_F(Files, RelativeLocationsAreThoseOfTheIndex) {
  const test::TempFolder elsewhere;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(folder_.path("sub"));
  folder_.write("sub/r", test::record_bytes("one") + test::record_bytes("three"));
  folder_.write("s", test::record_bytes("seven77"));
  std::filesystem::current_path(folder_.path());
  const auto built = build_index({.format = Format::kTfRecord, .files = {"sub/r", "./s"}, .out = "sub/x.index"});
  const auto nearby = Index::open("sub/x.index");
  std::filesystem::current_path(before);
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_TRUE(nearby.ok()) << nearby.status();
  EXPECT_EQ((*nearby)->files()[0].location, "sub/r");
  EXPECT_EQ((*nearby)->files()[1].location, "s");
  for (const char* name : {"sub", "s"}) std::filesystem::rename(folder_.path(name), elsewhere.path(name));
  const auto index = Index::open(elsewhere.path("sub/x.index")).value();
  EXPECT_EQ(index->files()[1].location, elsewhere.path("s"));
  EXPECT_TRUE(index->verify().ok()) << index->verify();
  EXPECT_EQ(index->document(1).value(), (Extent{0, 19, 21}));
  EXPECT_EQ(index->document(2).value(), (Extent{1, 0, 23}));
  const DataFiles files(index, open_file_source);
  EXPECT_TRUE(files.source(0).ok()) << files.source(0).status();
  EXPECT_TRUE(files.source(1).ok()) << files.source(1).status();
}

TEST_F(Files, AddressesWithAPasswordAreNotIndexed) {
  const auto built = build({"http://bob:SECRET@host/data?key=SECRET"}, open_file_source);
  EXPECT_THAT(message_of(built.status()), HasSubstr("http://host/data: an address with a user or password"));
  EXPECT_THAT(message_of(built.status()), testing::Not(HasSubstr("SECRET")));
}

TEST(ShownLocation, HasNoSecrets) {
  EXPECT_EQ(shown_location("http://bob:p@ss@host:80/a@b?key=x#y"), "http://host:80/a@b");
  EXPECT_EQ(shown_location("https://host?key=x@y"), "https://host");
  EXPECT_EQ(shown_location("a@b?c"), "a@b?c");
  EXPECT_FALSE(has_user_info("http://host/a@b"));
  EXPECT_FALSE(has_user_info("http://host?x@y"));
  EXPECT_TRUE(has_user_info("http://bob@host"));
}

TEST(IsLocal, TellsPathsFromAddresses) {
  EXPECT_TRUE(is_local("/a/b"));
  EXPECT_TRUE(is_local("a:b"));
  EXPECT_FALSE(is_local("http://a/b"));
}

TEST(Edges, OfShortAndEmptyFilesToo) {
  const auto edges = [](const std::string& bytes) { return edges_of(Remote("x", bytes)).value(); };
  EXPECT_EQ(edges("").size(), 32u);
  EXPECT_NE(edges("ab"), edges("ba"));
  std::string middle(200'000, 'x');
  const std::string before = edges(middle);
  middle[100'000] = 'y';
  EXPECT_EQ(edges(middle), before) << "the middle is told by size and time only";
  middle[65'535] = 'y';
  EXPECT_NE(edges(middle), before);
}

}  // namespace
}  // namespace scalai::datasets
