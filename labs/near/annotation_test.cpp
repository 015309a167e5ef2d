#include "labs/near/annotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"

namespace scalai::near {
namespace annotation_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Use use_of(const std::string& text, bool first = true, bool byte_locale = true) {
  const auto pipeline = parse_pipeline(text, {});
  EXPECT_TRUE(pipeline.ok()) << text;
  return Annotations::built_in().use_of(pipeline->front(), {.first = first, .byte_locale = byte_locale});
}

TEST(UseOf, FindsInputFilesAmongOptionsAndOperands) {
  const Use use = use_of("grep -vi -e x a --max-count=3 b c");
  EXPECT_EQ(use.why_local, "");
  EXPECT_THAT(use.inputs, ElementsAre("a", "b", "c"));
  EXPECT_THAT(use.other_words, ElementsAre("grep", "-vi", "-e", "x", "--max-count=3"));
  EXPECT_THAT(use_of("grep -e x -- -c a").inputs, ElementsAre("-c", "a"));
  EXPECT_EQ(use.implied, "-H");
  const Use pattern = use_of("grep -m 5 x a");
  EXPECT_THAT(pattern.inputs, ElementsAre("a"));
  EXPECT_EQ(pattern.implied, "");
  EXPECT_THAT(pattern.words_for({"p", "q"}), ElementsAre("grep", "-m", "5", "x", "p", "q"));
  EXPECT_THAT(use_of("sort -k2 -t, a").inputs, ElementsAre("a"));
  EXPECT_THAT(use_of("sort -t , -k 2 a").inputs, ElementsAre("a"));
}

TEST(UseOf, WordsThatMayMeanSomethingElseRunLocally) {
  for (const char* text : {"sha256sum a b -- -b", "grep x a -- -c"})
    EXPECT_THAT(use_of(text).why_local, HasSubstr("makes what follows operands")) << text;
  ::setenv("POSIXLY_CORRECT", "1", 1);
  EXPECT_THAT(use_of("cat a -u").why_local, HasSubstr("makes what follows operands"));
  ::unsetenv("POSIXLY_CORRECT");
  EXPECT_EQ(use_of("cut -d , -f 2 a").why_local, "");
  EXPECT_THAT(use_of("cut -d '\n' -f 2 a").why_local, HasSubstr("the end of a line in -d of cut"));
  for (const char* text : {"/usr/bin/cat a", "./cat a"})
    EXPECT_THAT(use_of(text).why_local, HasSubstr("no annotation of")) << text;
}

TEST(UseOf, NamesInFrontOfLinesAreThoseOfAllFiles) {
  EXPECT_THAT(use_of("grep x a b").words_for({"a"}), ElementsAre("grep", "-H", "x", "a"));
  EXPECT_THAT(use_of("grep -h x a b").words_for({"a"}), ElementsAre("grep", "-h", "x", "a"));
  EXPECT_FALSE(use_of("grep x a b").same_on_stdin);
  EXPECT_FALSE(use_of("grep -H x a").same_on_stdin);
  EXPECT_TRUE(use_of("grep x a").same_on_stdin);
}

// Nothing is guessed: an option that is not in the annotation keeps the command here.
TEST(UseOf, WhatIsNotKnownRunsLocally) {
  EXPECT_EQ(use_of("nosuch a").why_local, "no annotation of nosuch");
  for (const char* text : {"grep -r x a",
                           "grep -A1 x a",
                           "grep --colour x a",
                           "grep --max x a",
                           "sort -c a",
                           "sort -o b a",
                           "sort -z a",
                           "wc --total=never a",
                           "wc -L a",
                           "head -n -5 a",
                           "head -n 5k a",
                           "head -5x a",
                           "head -n",
                           "tail -n +3 a",
                           "tail -f a",
                           "uniq a b",
                           "uniq -d a",
                           "cat -",
                           "grep x",
                           "grep",
                           "cat",
                           "jq .a",
                           "sort --unique=x a",
                           "jq input a",
                           "jq -n . a",
                           "tr a b",
                           "cut -z a",
                           "cat --nosuch a",
                           "python3 -c x",
                           "python3 nosuch.py a"}) {
    EXPECT_NE(use_of(text).why_local, "") << text;
  }
  EXPECT_EQ(use_of("cat a", false).why_local, "cat reads files, not the command before it");
}

TEST(UseOf, OptionsChangeMerges) {
  EXPECT_EQ(use_of("grep x", false).by_record, Merge::kConcatenate);
  EXPECT_EQ(use_of("grep -c x", false).by_record, Merge::kSum);
  EXPECT_EQ(use_of("grep -n x", false).by_record, Merge::kNotSplit);
  EXPECT_EQ(use_of("grep -cm 1 x", false).by_record, Merge::kNotSplit);
  EXPECT_EQ(use_of("cat -n a").by_file, Merge::kNotSplit);
  EXPECT_EQ(use_of("cat -A a").by_file, Merge::kConcatenate);
  EXPECT_EQ(use_of("cat -E a b").by_file, Merge::kNotSplit);
  EXPECT_EQ(use_of("wc", false).by_record, Merge::kSum);
  EXPECT_EQ(use_of("wc", false).columns, 3);
  EXPECT_EQ(use_of("wc -lw --lines", false).columns, 2);
  EXPECT_EQ(use_of("uniq", false).by_record, Merge::kAgain);
  EXPECT_EQ(use_of("uniq -c", false).by_record, Merge::kCounted);
  EXPECT_EQ(use_of("uniq -c", false, false).by_record, Merge::kNotSplit);  // a locale may take others for equal
  EXPECT_TRUE(use_of("sort -S1M a").byte_order);
  EXPECT_FALSE(use_of("sort -r a").byte_order);
  EXPECT_FALSE(use_of("sort a", true, false).byte_order);
  EXPECT_EQ(use_of("tr -s a", false).by_record, Merge::kNotSplit);
  EXPECT_EQ(use_of("head -5", false).by_record, Merge::kAgain);
}

class OwnAnnotations : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-near-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  std::string folder_;
};

TEST_F(OwnAnnotations, ComeBeforeTheBuiltInOnes) {
  write("x.textproto",
        "schema_version: 1 commands: [\"cat\", \"mine\"] by_file: CONCATENATE options { names: \"-q\" }");
  write("notes.txt", "not read");
  Annotations annotations = Annotations::built_in();
  ASSERT_TRUE(annotations.load(folder_).ok());
  EXPECT_EQ(annotations.use_of({{"mine", "-q", "a"}}, {}).why_local, "");
  EXPECT_NE(annotations.use_of({{"cat", "-u", "a"}}, {}).why_local, "");
  EXPECT_EQ(annotations.use_of({{"grep", "x", "a"}}, {}).why_local, "");
}

TEST_F(OwnAnnotations, AllProblemsOfAllFilesAreSaid) {
  write("a.textproto",
        "schema_version: 2 commands: \"a/b\" leading: -1 last_good_status: 200 options { number: true } nosuch: 1");
  write("b.textproto",
        "schema_version: 1 commands: \"b\" options { names: [\"x\", \"-y\", \"-y\"] } by_file: SUM by_record: COLUMNS");
  write("c.textproto",
        "schema_version: 1 commands: \"c\" no_files: true by_file: SORTED for_several: \"H\" script: true");
  write("d.textproto", "schema_version: 1 commands: \"d\"");
  write("e.textproto", "schema_version: 1 commands: \"d\" share: -1");
  Annotations annotations = Annotations::built_in();
  const absl::Status status = annotations.load(folder_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* text :
       {"schema version 2 is not known here", "names a path", "unknown field", "is not between 0 and 125",
        "only a value is a number", "\"x\" is no name of an option", "option -y is given twice",
        "merges outputs of streams only", "COLUMNS merges lines with names of files", "has no input files",
        "\"H\" is no name of an option", "a script says itself", "is negative"})
    EXPECT_THAT(message_of(status), HasSubstr(text));
  EXPECT_NE(annotations.use_of({{"d", "x"}}, {}).why_local, "") << "nothing was added";
  EXPECT_EQ(annotations.load(folder_ + "/nosuch").code(), absl::StatusCode::kNotFound);
}

TEST_F(OwnAnnotations, AScriptDeclaresItself) {
  const std::string script =
      write("s.py", "#!/usr/bin/python3\n# scalai-near: by_file: CONCATENATE\n# scalai-near: share: 0.5\nprint(1)\n");
  const Use use = Annotations::built_in().use_of({{"python3", script, "a", "b"}}, {});
  EXPECT_EQ(use.why_local, "");
  EXPECT_EQ(use.script, script);
  EXPECT_THAT(use.inputs, ElementsAre("a", "b"));
  EXPECT_THAT(use.words_for({"b"}), ElementsAre("python3", script, "b"));
  const std::string silent = write("t.py", "print(1)\n"),
                    wrong = write("u.py", "# scalai-near: commands: \"x\" nosuch: 2\n");
  EXPECT_THAT(Annotations::built_in().use_of({{"python3", silent, "a"}}, {}).why_local,
              HasSubstr("does not declare itself"));
  const Use refused = Annotations::built_in().use_of({{"python3", wrong, "a"}}, {});
  EXPECT_THAT(refused.wrong, HasSubstr("a script declares itself only"));
  EXPECT_NE(refused.why_local, "");
}

TEST(Annotations, ADozenAreBuiltIn) {
  const std::vector<std::string> commands = Annotations::built_in().commands();
  for (const char* name :
       {"cat", "grep", "wc", "head", "tail", "sort", "uniq", "cut", "tr", "sha256sum", "md5sum", "jq", "python3"})
    EXPECT_NE(std::find(commands.begin(), commands.end(), name), commands.end()) << name;
}

}  // namespace annotation_test
}  // namespace scalai::near
