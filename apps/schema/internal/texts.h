#pragma once
// Files that the program has inside itself: the schemas that people write by, and the pages that say what words mean.

#include <string_view>
#include <vector>

namespace scalai::apps {

struct BuiltInText {
  std::string_view path;  // in the source tree
  std::string_view text;
};
const std::vector<BuiltInText>& built_in_texts();
// "" if there is no such file.
std::string_view built_in_text(std::string_view path);

// A serialised google.protobuf.FileDescriptorSet of scenario.proto and what it imports, with source locations.
std::string_view scenario_descriptors();

}  // namespace scalai::apps
