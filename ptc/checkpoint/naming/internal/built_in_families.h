#pragma once
// The texts of ptc/checkpoint/naming/families/*.textproto, compiled in (CMake writes the source file).

#include <span>
#include <string_view>

namespace scalai::checkpoint::internal {

struct BuiltInFamily {
  std::string_view name;  // of the file, which is that of the family
  std::string_view text;
};
std::span<const BuiltInFamily> built_in_families();

}  // namespace scalai::checkpoint::internal
