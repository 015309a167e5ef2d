#pragma once
// For tests: the real program on checkpoints in a folder of the test.

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class CommandTest : public FolderTest {
 protected:
  // Words with {} for the folder of the test.
  Outcome scalai(std::string words) const {
    for (size_t at = words.find("{}"); at != std::string::npos; at = words.find("{}")) words.replace(at, 2, folder_);
    const std::string command =
        fmt::format("{}/bin/scalai {} > {}/stdout 2> {}/stderr", SCALAI_BINARY_DIR, words, folder_, folder_);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path("stdout")), text_of(path("stderr"))};
  }
};

}  // namespace scalai::store
