#include "tests/tidy/tidy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/tidy/documents.h"
#include "tests/tidy/names.h"
#include "tests/tidy/tables.h"

namespace scalai::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kFunctionLines = 80;
constexpr int kFileLines = 480;
constexpr int kLineCharacters = 120;

std::string report(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += "  " + finding.str() + "\n";
  return text;
}

#define EXPECT_NO_FINDINGS(expression)                                             \
  do {                                                                             \
    const std::vector<Finding> found = (expression);                               \
    EXPECT_TRUE(found.empty()) << found.size() << " findings:\n" << report(found); \
  } while (false)

// --- the tree --------------------------------------------------------------------------------------------------------

class Tree : public ::testing::Test {
 protected:
  static const std::vector<File>& files() {
    static const std::vector<File> read = read_tree(SCALAI_SOURCE_DIR);
    return read;
  }
};

TEST_F(Tree, IsRead) {
  const auto has = [](const std::string& path) {
    return std::any_of(files().begin(), files().end(), [&](const File& file) { return file.path == path; });
  };
  for (const char* path :
       {"CMakeLists.txt", "dev", "results/tenplex/run", "ptc/base/status.h", "tests/tidy/tidy_test.cpp"}) {
    EXPECT_TRUE(has(path)) << path;
  }
}

TEST_F(Tree, IncludesGoDown) { EXPECT_NO_FINDINGS(include_direction(files(), folder_rules(), library_rules())); }

TEST_F(Tree, TheCoreDoesWithoutLabs) { EXPECT_NO_FINDINGS(labs_in_core(files())); }

TEST_F(Tree, FunctionsAreShort) {
  EXPECT_NO_FINDINGS(long_functions(files(), kFunctionLines, long_function_exceptions()));
  const FunctionStatistics statistics = function_statistics(files());
  EXPECT_GT(statistics.functions, 100);
  fmt::print(stderr, "{} functions, {:.1f} lines on average, median {}\n", statistics.functions, statistics.mean_lines,
             statistics.median_lines);
}

TEST_F(Tree, FilesAreShort) { EXPECT_NO_FINDINGS(long_files(files(), kFileLines)); }
TEST_F(Tree, ClassesHaveOneSource) { EXPECT_NO_FINDINGS(scattered_classes(files(), scattered_exceptions())); }
TEST_F(Tree, LinesAreNarrow) { EXPECT_NO_FINDINGS(wide_lines(files(), kLineCharacters)); }
TEST_F(Tree, HasNoUnusedFunctions) { EXPECT_NO_FINDINGS(unused_functions(files())); }
TEST_F(Tree, NamespacesAreFolders) { EXPECT_NO_FINDINGS(foreign_namespaces(files())); }
TEST_F(Tree, ReadmesNameWhatIsThere) { EXPECT_NO_FINDINGS(unknown_names(files())); }
TEST_F(Tree, HasNoBannedWords) { EXPECT_NO_FINDINGS(banned_words(files(), words())); }
TEST_F(Tree, FoldersHaveReadmes) { EXPECT_NO_FINDINGS(missing_readmes(files())); }
TEST_F(Tree, SourcesHaveTests) { EXPECT_NO_FINDINGS(untested_sources(files(), untested_exceptions())); }
TEST_F(Tree, PromisesHaveTests) { EXPECT_NO_FINDINGS(unknown_tests(files(), "docs/security.md")); }
TEST_F(Tree, RetriesAreListedWithTheirTests) {
  EXPECT_NO_FINDINGS(unlisted_retries(files(), "docs/retries.md"));
  EXPECT_NO_FINDINGS(unknown_tests(files(), "docs/retries.md"));
}
TEST_F(Tree, ScenariosAskAndAreListed) { EXPECT_NO_FINDINGS(unindexed_scenarios(files())); }
TEST_F(Tree, ResultsAreListed) { EXPECT_NO_FINDINGS(unindexed_results(files())); }

// --- each rule can fail ----------------------------------------------------------------------------------------------

std::vector<std::string> paths_of(const std::vector<Finding>& findings) {
  std::vector<std::string> paths;
  for (const Finding& finding : findings) paths.push_back(finding.path);
  return paths;
}

std::vector<Finding> direction(const std::string& path, const std::string& text) {
  return include_direction({{path, text}}, folder_rules(), library_rules());
}

TEST(IncludeDirection, AllowsWhatLiesBelow) {
  EXPECT_NO_FINDINGS(
      direction("ptc/plan/a.h", "#include \"ptc/base/b.h\"\n#include \"ptc/state/tensor/c.h\"\n#include <map>\n"));
  EXPECT_NO_FINDINGS(direction("ptc/plan/internal/a.cpp", "#include \"ptc/proto/plan.pb.h\"\n"));
  EXPECT_NO_FINDINGS(direction("sim/a.cpp", "#include <simgrid/s4u.hpp>\n#include \"ptc/run/policy/b.h\"\n"));
  EXPECT_NO_FINDINGS(direction("sim/jobs/a.cpp", "#include \"sim/internal/b.h\"\n"));
  EXPECT_NO_FINDINGS(direction("apps/a.cpp", "#include \"sim/b.h\"\n#include \"vfs/c.h\"\n"));
}

TEST(LabsInCore, RefusesThemOutsideOfLabsAndTests) {
  const std::string text = "#include \"ptc/base/b.h\"\n#include \"labs/near/a.h\"\n";
  for (const char* path :
       {"apps/a.cpp", "apps/scalai_main.cpp", "ptc/plan/a.h", "python/module/a.cpp", "labsome/a.cpp"}) {
    const auto found = labs_in_core({{path, text}});
    ASSERT_EQ(found.size(), 1U) << path;
    EXPECT_EQ(found[0].str(), std::string(path) +
                                  ":2: the core may not include labs/near/a.h; a lab registers itself "
                                  "(labs/README.md)");
  }
  EXPECT_NO_FINDINGS(labs_in_core({{"labs/bounds/a.cpp", text}, {"tests/fuzz/a_fuzz.cpp", text}}));
  EXPECT_NO_FINDINGS(labs_in_core({{"apps/a.cpp", "// #include \"labs/near/a.h\"\n#include \"ptc/labs/a.h\"\n"}}));
}

TEST(IncludeDirection, RefusesUpAndSideways) {
  const auto up = direction("ptc/state/tensor/a.h", "\n#include \"ptc/plan/b.h\"\n");
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].str(),
            "ptc/state/tensor/a.h:2: ptc/state/tensor may not include ptc/plan (ptc/plan/b.h); it may use ptc/base, "
            "and what these "
            "may use");
  EXPECT_EQ(direction("sim/a.cpp", "#include \"executor/worker/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("vfs/a.cpp", "#include \"sim/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/run/control/a.cpp", "#include \"sim/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/store/datasets/a.cpp", "#include \"ptc/state/tensor/b.h\"\n").size(), 1u);
}

TEST(IncludeDirection, TestsMayUseMore) {
  const std::string engine = "#include \"sim/jobs/engine.h\"\n";
  EXPECT_NO_FINDINGS(direction("ptc/run/policy/policies/a_test.cpp", engine));
  EXPECT_NO_FINDINGS(direction("ptc/run/policy/policies/testing/a.h", engine));
  EXPECT_EQ(direction("ptc/run/policy/policies/a.cpp", engine).size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a_test.cpp", engine).size(), 1u);
}

TEST(IncludeDirection, KeepsInternalHeadersIn) {
  const std::string internal = "#include \"ptc/plan/internal/drafts.h\"\n";
  EXPECT_NO_FINDINGS(direction("ptc/plan/a.cpp", internal));
  const auto findings = direction("ptc/cost/change/a.cpp", internal);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].str(), "ptc/cost/change/a.cpp:1: ptc/plan/internal/drafts.h is internal to ptc/plan");
}

TEST(IncludeDirection, KeepsLibrariesBehindTheirAdapter) {
  EXPECT_EQ(direction("sim/a.h", "#include <simgrid/s4u.hpp>\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.cpp", "#include <simgrid/s4u.hpp>\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.h", "#include \"ptc/proto/plan.pb.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.h", "#include \"nlohmann/json.hpp\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/proto/a.h", "#include <google/protobuf/message.h>\n").size(), 1u);
  EXPECT_EQ(direction("apps/a.cpp", "#include <boost/program_options.hpp>\n").size(), 1u);
}

TEST(IncludeDirection, WantsARowForEachFolder) {
  const auto findings = direction("ptc/newcomer/a.h", "");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].str(), HasSubstr("no row"));
}

std::string function_of_lines(int lines) {
  std::string text = "int f() {\n";
  for (int i = 2; i < lines; ++i) text += "  g();  // }\n";
  return text + "}\n";
}

TEST(LongFunctions, CountsAndKnowsExceptions) {
  const File at_limit{"ptc/a.cpp", function_of_lines(kFunctionLines)};
  const File above{"ptc/b.cpp", "\n" + function_of_lines(kFunctionLines + 1)};
  const auto findings = long_functions({at_limit, above}, kFunctionLines, {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].str(), "ptc/b.cpp:2: f has 81 lines, 80 are allowed");
  EXPECT_NO_FINDINGS(long_functions({above}, kFunctionLines, {{"ptc/b.cpp:f", "a table"}}));
}

TEST(FunctionStatisticsOf, MeanAndMedian) {
  const FunctionStatistics statistics =
      function_statistics({{"a.cpp", function_of_lines(3) + function_of_lines(5)}, {"b.h", function_of_lines(10)}});
  EXPECT_EQ(statistics.functions, 3);
  EXPECT_DOUBLE_EQ(statistics.mean_lines, 6);
  EXPECT_EQ(statistics.median_lines, 5);
}

TEST(LongFiles, CountsLines) {
  const File at_limit{"a.h", std::string(kFileLines, '\n')};
  const File above{"b.h", std::string(kFileLines + 1, '\n')};
  const File document{"c.md", std::string(kFileLines + 1, '\n')};
  EXPECT_THAT(paths_of(long_files({at_limit, above, document}, kFileLines)), ElementsAre("b.h"));
}

TEST(ScatteredClasses, AreNamedOnceWithTheOtherSource) {
  const std::string local = "class Reader {\n  int read();\n};\nint Reader::read() { return 1; }\n";
  const std::vector<File> files = {
      {"a/x.cpp", "X::X() : i_(1) {}\nint X::Part::one() { return 1; }\nint free() { return 1; }\n" + local},
      {"a/internal/x_more.cpp", "int X::f() const { return 1; }\nint X::g() { return 1; }\n" + local},
      {"a/y.cpp", "int X::Part::two() { return 1; }\n"},
      {"b/x.cpp", "int X::f() { return 1; }\nint scalai::g() { return 1; }\n"},
      {"b/y.cpp", "int scalai::h() { return 1; }\n"}};
  const auto findings = scattered_classes(files, {{"a:X::Part", "why"}});
  ASSERT_EQ(findings.size(), 1u) << report(findings);
  EXPECT_EQ(findings[0].str(), "a/internal/x_more.cpp:1: a/x.cpp defines X, too");
  EXPECT_THAT(paths_of(scattered_classes(files, {{"a:X", "why"}, {"a:X::Part", "why"}, {"b:X", "why"}})),
              ElementsAre("b:X"));
}

TEST(WideLines, CountCharactersOutsideOfLiterals) {
  const std::string full(kLineCharacters, 'x'), mark = "…";
  const File at_limit{"a.cpp", "//" + full.substr(3) + mark + "\nf(\"" + full + "\");\n"};
  const File code{"b.cpp", "\n" + full + "x\n"}, comment{"c.h", "// " + full + "\n"}, text{"d.md", full + full};
  EXPECT_THAT(paths_of(wide_lines({at_limit, code, comment, text}, kLineCharacters)), ElementsAre("b.cpp", "c.h"));
}

TEST(BannedWords, FindsEachWordWhereItCounts) {
  for (const BannedWord& banned : words()) {
    SCOPED_TRACE(banned.word);
    EXPECT_EQ(banned_words({{"ptc/plan/a.cpp", "\n" + banned.word + ";\n"}}, {banned}).size(), 1u);
    const auto in_comment = banned_words({{"ptc/plan/a.cpp", "// " + banned.word + "\n"}}, {banned});
    EXPECT_EQ(in_comment.size(), banned.where == Where::kText ? 1u : 0u);
    for (const std::string& allowed : banned.allowed_in) {
      EXPECT_NO_FINDINGS(banned_words({{allowed + "a.cpp", banned.word}}, {banned}));
    }
  }
}

TEST(BannedWords, LooksForWholeWords) {
  EXPECT_NO_FINDINGS(banned_words(
      {{"ptc/plan/a.cpp", "mktemp a" + std::string(6, 'X') + " std::fprintf(stderr, 0); fputs(x, stderr);"}}, words()));
}

TEST(MissingReadmes, NamesTheFolder) {
  EXPECT_THAT(
      paths_of(missing_readmes({{"a/x.h", ""}, {"a/README.md", ""}, {"a/internal/y.cpp", ""}, {"b/z.proto", ""}})),
      ElementsAre("b"));
  EXPECT_THAT(paths_of(missing_readmes({{"a/README.md", "| `b/` | … |"}, {"a/b/x.h", ""}, {"a/c/x.h", ""}})),
              ElementsAre("a/c"));
}

TEST(UntestedSources, AcceptsTestsBesideAndIncludedHeaders) {
  EXPECT_NO_FINDINGS(untested_sources({{"a/x.cpp", ""},
                                       {"a/x_test.cpp", "#include \"a/z.h\"\n#include \"a/internal/w.h\"\n"},
                                       {"a/x_part.cpp", ""},
                                       {"a/z.cpp", ""},
                                       {"a/w.cpp", ""},
                                       {"a/internal/x.cpp", ""},
                                       {"a/m_main.cpp", ""},
                                       {"a/c_command.cpp", ""},
                                       {"a/b_bench.cpp", ""},
                                       {"a/f_fuzz.cpp", ""}},
                                      {}));
}

TEST(UntestedSources, NamesTheRestAndStaleExceptions) {
  const std::vector<File> files = {{"a/x.cpp", ""}, {"a/y.cpp", ""}, {"b/x_test.cpp", "#include \"a/y.h\"\n"}};
  EXPECT_THAT(paths_of(untested_sources(files, {})), ElementsAre("a/x.cpp", "a/y.cpp"));
  EXPECT_THAT(paths_of(untested_sources(files, {{"a/x.cpp", "why"}, {"a/gone.cpp", "why"}})),
              ElementsAre("a/gone.cpp", "a/y.cpp"));
}

}  // namespace
}  // namespace scalai::tidy
