#pragma once
// The texts of ptc/cost/step/software/*.textproto, compiled in (CMake writes the source file).

#include <span>
#include <string_view>

namespace scalai::step::internal {

struct BuiltInText {
  std::string_view name, text;
};
std::span<const BuiltInText> built_in_software();

}  // namespace scalai::step::internal
