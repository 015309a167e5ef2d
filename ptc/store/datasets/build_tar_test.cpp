#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/internal/tar.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using test::pax_record;
using test::tar_end;
using test::tar_header;
using test::tar_member;
using testing::ElementsAre;
using testing::HasSubstr;

class Tar : public testing::Test {
 protected:
  absl::StatusOr<BuildSummary> build(const std::vector<std::string>& contents) const {
    BuildRequest request{.format = Format::kTar, .out = folder_.path("index")};
    for (const std::string& bytes : contents) {
      request.files.push_back(folder_.write("t" + std::to_string(request.files.size()), bytes));
    }
    return build_index(request);
  }
  // Of an archive whose members are these, with its end.
  std::vector<Extent> extents(const std::vector<std::string>& archives) const {
    std::vector<std::string> contents;
    for (const std::string& members : archives) contents.push_back(members + tar_end());
    const auto built = build(contents);
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok()) return {};
    const auto index = Index::open(folder_.path("index")).value();
    EXPECT_TRUE(index->verify().ok()) << index->verify();
    std::vector<Extent> extents;
    for (int64_t i = 0; i < index->documents(); ++i) extents.push_back(index->document(i).value());
    return extents;
  }
  std::string refusal(const std::string& bytes) const {
    std::filesystem::remove(folder_.path("index"));
    const auto built = build({bytes});
    EXPECT_FALSE(built.ok());
    EXPECT_EQ(exit_code_of(built.status()), 3);
    EXPECT_THAT(message_of(built.status()), HasSubstr(folder_.path("t0: ")));
    EXPECT_EQ(folder_.names().size(), 1u) << "nothing is left beside the data file";
    return message_of(built.status());
  }
  test::TempFolder folder_;
};

TEST_F(Tar, ASampleIsTheMembersOfAKey) {
  EXPECT_THAT(extents({tar_member("d/a.jpg", std::string(600, 'x')) + tar_member("d/a.cls", "1") +
                           tar_member("b.seg.png", "") + tar_member("b.txt", "b"),
                       tar_member("c.d/a.x", "1")}),
              ElementsAre(Extent{0, 0, 2560}, Extent{0, 2560, 1536}, Extent{1, 0, 1024}));
}

// It would be inside the sample's range of bytes.
TEST_F(Tar, WhatBelongsToNoSampleMayNotLieInsideOne) {
  const std::string inside = tar_member("a.x", "1") + tar_member("README", "") + tar_member("a.y", "2") + tar_end();
  EXPECT_THAT(refusal(inside), HasSubstr("byte 1024: a member that belongs to no sample lies between those of sample"));
}

TEST_F(Tar, WhatBelongsToNoSampleIsLeftOut) {
  const std::string directory = tar_header("d/", 0, '5');
  const auto built =
      build({directory + tar_member("README", "x") + tar_member("d/a.x", "1") + tar_member("d/a.y", "2") + directory +
             tar_member("d/.hidden", "x") + tar_member("end", "") + tar_end()});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->documents, 1);
  EXPECT_EQ(built->left_out, 5);
  EXPECT_EQ(Index::open(folder_.path("index")).value()->document(0).value(), (Extent{0, 1536, 2048}));
}

TEST_F(Tar, LongNamesOfEveryKind) {
  const std::string path = std::string(120, 'd') + "/" + std::string(150, 'k');
  const std::string pax =
      tar_member("PaxHeaders/x", pax_record("mtime", "1.5") + pax_record("path", path + ".p"), 'x') +
      tar_member("short.p", "1");
  const std::string gnu =
      tar_member("././@LongLink", path + ".g" + std::string(1, '\0'), 'L') + tar_member("cut", "22");
  const std::string ustar = tar_header(std::string(90, 'k') + ".u", 1, '0', std::string(120, 'd')) + test::padded("3");
  const std::string ustar2 = tar_header(std::string(90, 'k') + ".v", 1, '0', std::string(119, 'd')) + test::padded("3");
  EXPECT_THAT(extents({pax + gnu + ustar + ustar2}),
              ElementsAre(Extent{0, 0, 4096}, Extent{0, 4096, 1024}, Extent{0, 5120, 1024}))
      << "pax and gnu say one key, of which each has its extension";
}

TEST_F(Tar, GlobalHeadersBelongToNoMember) {
  const std::string global = tar_member("pax_global_header", pax_record("comment", "0123"), 'g');
  EXPECT_THAT(extents({global + tar_member("a.x", "1")}), ElementsAre(Extent{0, 1024, 1024}));
  EXPECT_THAT(refusal(tar_member("g", pax_record("path", "x"), 'g') + tar_member("a.x", "") + tar_end()),
              HasSubstr("a global pax header sets \"path\""));
}

TEST_F(Tar, SizesInPaxAndBase256) {
  const std::string pax = tar_member("p", pax_record("size", "3"), 'x') + tar_header("a.x", 0) + test::padded("abc");
  std::string header = tar_header("b.x", 0);
  test::put(header, 124, std::string("\x80\0\0\0\0\0\0\0\0\0\2\1", 12));
  const std::string base256 = test::summed(header) + test::padded(std::string(513, 'x'));
  EXPECT_THAT(extents({pax + base256}), ElementsAre(Extent{0, 0, 2048}, Extent{0, 2048, 1536}));
}

TEST_F(Tar, MembersOfAKeyMustBeNeighbours) {
  const std::string message = refusal(tar_member("a.x", "") + tar_member("b.x", "") + tar_member("c.x", "") +
                                      tar_member("a.y", "") + tar_end());
  EXPECT_THAT(message, HasSubstr("t0: byte 1536: sample \"a\" was there before, in"));
  EXPECT_THAT(message, HasSubstr("at byte 0"));
  const auto built =
      build({tar_member("a.x", "") + tar_end(), tar_member("z.x", "") + tar_end(), tar_member("a.x", "") + tar_end()});
  EXPECT_THAT(message_of(built.status()),
              HasSubstr("t2: byte 0: sample \"a\" was there before, in " + folder_.path("t0")));
}

TEST_F(Tar, AMemberTwiceInASampleIsRefused) {
  EXPECT_THAT(refusal(tar_member("a.x", "") + tar_member("a.y", "") + tar_member("a.x", "") + tar_end()),
              HasSubstr("t0: byte 1024: sample \"a\" has two members \"a.x\""));
}

TEST_F(Tar, MalformedArchivesAreRefused) {
  const std::string good = tar_member("a.x", std::string(700, 'x'));
  EXPECT_THAT(refusal(""), HasSubstr("the file ends without a block of zeros"));
  EXPECT_THAT(refusal(good), HasSubstr("the file ends without a block of zeros"));
  EXPECT_THAT(refusal(good.substr(0, 300)), HasSubstr("was cut inside it"));
  EXPECT_THAT(refusal(good.substr(0, 1000)), HasSubstr("member \"a.x\": the file was cut inside its 700 bytes"));
  EXPECT_THAT(refusal(good + tar_end() + good + tar_end()), HasSubstr("more follows after byte"));
  EXPECT_THAT(refusal(std::string(512, 'z') + tar_end()), HasSubstr("its checksum does not fit"));
  EXPECT_THAT(refusal(std::string("\x1f\x8b", 2) + std::string(1000, 'z')), HasSubstr("compressed"));
  std::string flipped = good;
  flipped[0] = 'b';
  EXPECT_THAT(refusal(flipped + tar_end()), HasSubstr("its checksum does not fit"));
  for (const char type : {'1', '2', '3', '6', 'S', 'K', 'D', '9'}) {
    EXPECT_THAT(refusal(tar_member("l.x", "", type) + tar_end()),
                HasSubstr("is a link, device, sparse or unknown file"))
        << type;
  }
  std::string size = tar_header("a.x", 0);
  test::put(size, 124, "0000000009x");
  EXPECT_THAT(refusal(test::summed(size) + tar_end()), HasSubstr("its size is no number"));
  test::put(size, 124, std::string(12, '\xff'));
  EXPECT_THAT(refusal(test::summed(size) + tar_end()), HasSubstr("its size is no number"));
  EXPECT_THAT(refusal(tar_member("README", "") + tar_end()), HasSubstr("there is no document"));
}

TEST_F(Tar, MalformedExtensionsAreRefused) {
  const std::string next = tar_member("a.x", "") + tar_end();
  for (const std::string records :
       {"5 a=b\n", "99 path=x\n", "path=x\n", "7 path\n", "6 a=bc", "0 \n", "1\n", "-9 path=x\n"}) {
    EXPECT_THAT(refusal(tar_member("p", records, 'x') + next),
                testing::AnyOf(HasSubstr("damaged"), HasSubstr("without \"=\"")))
        << records;
  }
  EXPECT_THAT(refusal(tar_member("p", pax_record("size", "12x"), 'x') + next), HasSubstr("a pax size"));
  EXPECT_THAT(refusal(tar_member("p", pax_record("size", "-1"), 'x') + next), HasSubstr("a pax size"));
  EXPECT_THAT(refusal(tar_member("p", pax_record("size", "9223372036854775807"), 'x') + next), HasSubstr("was cut"));
  EXPECT_THAT(refusal(tar_member("p", pax_record("GNU.sparse.size", "1"), 'x') + next), HasSubstr("sparse"));
  EXPECT_THAT(refusal(tar_member("p", pax_record("path", "x"), 'x') + tar_end()), HasSubstr("does not follow"));
  EXPECT_THAT(refusal(tar_member("L", std::string(70'000, 'x'), 'L') + next), HasSubstr("too large"));
  EXPECT_THAT(refusal(tar_header("L", 600, 'L')), HasSubstr("was cut inside its data"));
}

TEST(SampleKey, IsThePathUpToTheFirstDotOfItsLastComponent) {
  std::string_view extension;
  EXPECT_EQ(sample_key("a/b.c/d.e.f", &extension), "a/b.c/d");
  EXPECT_EQ(extension, "e.f");
  EXPECT_EQ(sample_key("d."), "d");
  EXPECT_EQ(sample_key("./x.y"), "./x");
  EXPECT_EQ(sample_key("a.b/c"), std::nullopt);
  EXPECT_EQ(sample_key("a/.c"), std::nullopt);
  EXPECT_EQ(sample_key(".c.d"), std::nullopt);
  EXPECT_EQ(sample_key(""), std::nullopt);
}

}  // namespace
}  // namespace scalai::datasets
