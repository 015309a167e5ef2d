#include "tests/tidy/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scalai::tidy {
namespace {

using ::testing::ElementsAre;

TEST(UnusedFunctions, AreThoseThatAreOnlyDeclaredAndDefined) {
  const File header{"a/x.h",
                    "int used();\nstd::vector<int> gone(int a);\nstruct S {\n  void cut() const;\n  T* kept();\n"
                    "  static int own() { return kept()->size(); }\n};\n"};
  const File source{"a/x.cpp",
                    "int used() { return 1; }  // gone\nstd::vector<int> gone(int a) {}\nvoid S::cut() const {}\n"
                    "int b = 2 * used() + S::own();\n"};
  std::vector<std::string> found;
  for (const Finding& finding : unused_functions({header, source})) found.push_back(finding.str());
  EXPECT_THAT(found, ElementsAre("a/x.h:4: nobody calls cut", "a/x.h:2: nobody calls gone"));
}

TEST(UnknownNames, AreFilesAndIdentifiersThatAreGone) {
  const File readme{"a/README.md",
                    "`make_plan(input)` and `Plan::gone`, `a b`, `--option`\n\n| file | contents |\n|---|---|\n"
                    "| `x`, `deep/y*` | `Plan` |\n| `z.h` | `made_plan`, `nobody` |\n"};
  const std::vector<File> files = {readme, {"a/x.cpp", "Plan make_plan();"}, {"a/deep/yes.h", ""}};
  std::vector<std::string> found;
  for (const Finding& finding : unknown_names(files)) found.push_back(finding.str());
  EXPECT_THAT(found, ElementsAre("a/README.md:1: Plan::gone is nowhere", "a/README.md:6: z.h is nowhere",
                                 "a/README.md:6: made_plan is nowhere"));
}

TEST(ForeignNamespaces, AreNoFolderOfTheFile) {
  const std::vector<File> files = {
      {"ptc/plan/a.h", "namespace scalai::cost {\nclass Cost;\n}\n\nnamespace scalai::plan {\nint a();\n}\n"},
      {"ptc/plan/internal/b.cpp", "namespace scalai::plan::internal {\n}\n"},
      {"ptc/plan/c.cpp", "#include \"d.h\"\n\nnamespace scalai::plan::c {\n}\nnamespace scalai::cost {\nint c();\n}\n"},
      {"ptc/plan/d.h", "namespace scalai {\nint d();\n}\n"},
      {"ptc/base/e.h", "namespace scalai {\nint e();\n}\n"},
      {"executor/rpc/g.cpp",
       "namespace scalai::executor::rpc::internal {\n}\nnamespace scalai::executor {\nint g();\n}\n"},
      {"executor/cuda/kernels/h.h", "namespace scalai::executor::cuda::kernels {\nint h();\n}\n"},
      {"executor/cuda/kernels/i.h", "namespace scalai::executor::kernels {\nint i();\n}\n"},
      {"tests/f.cpp", "namespace scalai::plan {\n}\n"}};
  std::vector<std::string> found;
  for (const Finding& finding : foreign_namespaces(files)) found.push_back(finding.str());
  EXPECT_THAT(found,
              ElementsAre("ptc/plan/c.cpp:5: scalai::cost is no namespace of this folder",
                          "ptc/plan/d.h:1: scalai is no namespace of this folder",
                          "executor/rpc/g.cpp:3: scalai::executor is no namespace of this folder",
                          "executor/cuda/kernels/i.h:1: scalai::executor::kernels is no namespace of this folder"));
}

}  // namespace
}  // namespace scalai::tidy
