#pragma once
// The texts of ptc/store/naming/families/*.textproto and of namings/, compiled in (CMake writes the source file).

#include <span>
#include <string_view>

namespace scalai::store::internal {

struct BuiltInText {
  std::string_view name;  // of the file, which is that of the family or naming
  std::string_view text;
};
std::span<const BuiltInText> built_in_families();
std::span<const BuiltInText> shared_naming_texts();
std::string_view named_configs_text();  // of models.json

}  // namespace scalai::store::internal
