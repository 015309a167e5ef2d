#pragma once
// A family file while it is read. Each part reports what is wrong to `source` and builds what it can, so that the parts
// after it find problems of their own.

#include <optional>
#include <string>
#include <vector>

#include "ptc/proto/source.h"
#include "ptc/store/naming/internal/family_rules.h"

namespace scalai::proto {
class FamilyFile;
}  // namespace scalai::proto

namespace scalai::store::internal {

struct FamilyBuilder {
  const proto::FamilyFile& message;
  proto::Source& source;
  FamilyRules rules;
  std::vector<std::string> size_names;  // as far as they are described
  std::vector<std::string> flag_names;  // of switches, then of layer sets
};

// Nothing when there is a problem, which then is reported.
std::optional<Expression> build_expression(FamilyBuilder& builder, const std::string& path, const std::string& text);
std::optional<NameTemplate> build_template(FamilyBuilder& builder, const std::string& path, const std::string& text,
                                           bool pattern = false);
// layered: conditions may be on layer sets.
Conditions build_conditions(FamilyBuilder& builder, const std::string& path, const std::vector<std::string>& texts,
                            bool layered);

void build_namings(FamilyBuilder& builder);

}  // namespace scalai::store::internal
