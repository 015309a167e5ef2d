#include "tests/tidy/source_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

TEST(CodeOnly, BlanksCommentsAndKeepsLines) {
  EXPECT_EQ(code_only("a // b\nc /* d\ne */ f"), "a     \nc     \n     f");
}

TEST(CodeOnly, BlanksLiteralsWithEscapes) {
  EXPECT_EQ(code_only(R"(f("a\"}", '}', '\''))"), R"(f("    ", ' ', '  '))");
}

TEST(CodeOnly, KnowsRawLiteralsAndDigitSeparators) {
  EXPECT_EQ(code_only("x = R\"t(\" } )\" )t\"; y"), "x = R\"           \"; y");
  EXPECT_EQ(code_only("int n = 1'000'000; {"), "int n = 1'000'000; {");
}

TEST(CodeOnly, KeepsTheLength) {
  for (const std::string text : {"\"", "'", "/*", "//", "R\"(", "\"\\", "\"open\n}"}) {
    EXPECT_EQ(code_only(text).size(), text.size()) << text;
  }
}

TEST(IncludesOf, SkipsThoseInComments) {
  const auto includes =
      includes_of("#include <a/b.h>\n// #include \"no.h\"\n  # include \"c.h\"  // why\n/*\n#include <d>\n*/");
  ASSERT_EQ(includes.size(), 2u);
  EXPECT_EQ(includes[0].path, "a/b.h");
  EXPECT_EQ(includes[1].path, "c.h");
  EXPECT_EQ(includes[1].line, 3);
}

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> names;
  for (const Function& function : functions_of(text)) names.push_back(function.name);
  return names;
}

TEST(FunctionsOf, CountsFromSignatureToClosingBrace) {
  const auto functions = functions_of("namespace a {\n\nint f(int x,\n      int y) {\n  return x;\n}\n}\n");
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].name, "f");
  EXPECT_EQ(functions[0].line, 3);
  EXPECT_EQ(functions[0].lines, 4);
}

TEST(FunctionsOf, FindsMembersConstructorsAndOperators) {
  EXPECT_THAT(
      names_of("class A : public B<int(int)> {\n public:\n  explicit A(int x) : x_{x}, y_(2), z_{} { g(); }\n"
               "  ~A() {}\n  bool operator==(const A&) const { return true; }\n  int size() const { return 1; }\n"
               " private:\n  int x_{3}; std::map<int, int> y_ = {{1, 2}};\n};\n"),
      ElementsAre("A", "~A", "operator==", "size"));
}

TEST(FunctionsOf, FindsQualifiedTemplatedAndTrailing) {
  EXPECT_THAT(names_of("template <typename T>\nstd::vector<T> a::B::f(T t = {}) {}\n"
                       "auto g() -> std::vector<int> { return {}; }\n[[noreturn]] void h() {}\n"),
              ElementsAre("a::B::f", "g", "h"));
}

TEST(FunctionsOf, TreatsTestsAsFunctions) {
  EXPECT_THAT(names_of("TEST(Box, Shape) { EXPECT_TRUE([] { return true; }()); }\nTEST_F(Fix, Two) {}\n"),
              ElementsAre("TEST(Box, Shape)", "TEST_F(Fix, Two)"));
}

TEST(FunctionsOf, IsNotFooledByValuesMacrosAndText) {
  EXPECT_THAT(names_of("#define M(x) \\\n  do {  \\\n  } while (false)\nconst int kA[] = {f(1), 2};\n"
                       "enum class E { kA, kB };\nstruct S { int a = 0; };\nint declared(int x = int{3});\n"
                       "const char* s = \"void f() {\";  // void g() {\n"),
              IsEmpty());
}

TEST(FunctionsOf, CountsLambdasAndLocalClassesWithTheirFunction) {
  EXPECT_THAT(functions_of(
                  "void f() {\n  struct L {\n    int g() { return 1; }\n  };\n  if (x) {\n    h([] { k(); });\n  }\n}\n"
                  "void z() {}\n"),
              ElementsAre(Field(&Function::lines, 8), Field(&Function::name, "z")));
}

}  // namespace
}  // namespace scalai::tidy
