// What `scalai validate` says about broken files, held against golden texts: each NAME.textproto or NAME.json in
// tests/golden/diagnostics has a NAME.expected with the exact stderr and the exit code in the last line. Run with
// UPDATE_GOLDEN=1 to write the texts anew.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(SCALAI_SOURCE_DIR) / "tests/golden/diagnostics";
const fs::path kProgram = fs::path(SCALAI_BINARY_DIR) / "bin/scalai";
constexpr const char* kMissingFile = "missing_file.textproto";  // has an .expected only

std::vector<std::string> inputs() {
  std::vector<std::string> names = {kMissingFile};
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".textproto" || extension == ".json") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Stderr of the program, run in the golden folder so that messages name the bare file, and "exit N".
std::string validate(const std::string& name) {
  const std::string command =
      "cd '" + kFolder.string() + "' && '" + kProgram.string() + "' validate '" + name + "' 2>&1 >/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = pclose(pipe);
  const std::string code = WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "by signal";
  return output + "exit " + code + "\n";
}

class BrokenFile : public testing::TestWithParam<std::string> {};

TEST_P(BrokenFile, SaysExactlyThis) {
  ASSERT_TRUE(fs::exists(kProgram)) << kProgram << " is not built";
  const fs::path expected = kFolder / fs::path(GetParam()).replace_extension(".expected");
  const std::string said = validate(GetParam());
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(expected, std::ios::binary) << said;
  ASSERT_TRUE(fs::exists(expected)) << "no " << expected << "; write it with UPDATE_GOLDEN=1";
  EXPECT_EQ(said, read_all(expected)) << "if this is meant, run again with UPDATE_GOLDEN=1";
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, BrokenFile, testing::ValuesIn(inputs()), test_name);

// Every golden text belongs to an input, and broken inputs never pass.
TEST(BrokenFiles, AreCompleteAndRefused) {
  const std::vector<std::string> names = inputs();
  EXPECT_GE(names.size(), 28U);
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".expected") continue;
    const std::string stem = entry.path().stem().string();
    const bool owned =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return fs::path(name).stem() == stem; });
    EXPECT_TRUE(owned) << entry.path() << " has no input";
    const std::string text = read_all(entry.path());
    EXPECT_TRUE(text.ends_with("exit 3\n") || text.ends_with("exit 4\n")) << entry.path();
  }
}

}  // namespace
