#pragma once
// The texts of labs/near/annotations/*.textproto, compiled in (CMake writes the source file).

#include <span>
#include <string_view>

namespace scalai::near::internal {

struct BuiltInAnnotation {
  std::string_view name;  // of the file
  std::string_view text;
};
std::span<const BuiltInAnnotation> built_in_annotations();

}  // namespace scalai::near::internal
