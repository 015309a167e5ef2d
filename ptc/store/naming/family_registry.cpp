#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ptc/base/diagnostics.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/proto/textproto.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/internal/built_in_families.h"

namespace scalai::store {
namespace {

constexpr size_t kMaxFiles = 1000;

// *.textproto of a folder, sorted; NotFound as Families::load.
absl::StatusOr<std::vector<std::string>> family_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".textproto") paths.push_back(entry->path().string());
    if (paths.size() > kMaxFiles) return invalid(fmt::format("{}: more than {} families", folder, kMaxFiles));
  }
  if (error) return missing(fmt::format("{}: {}", folder, error.message()));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

namespace {

Families parse_built_in() {
  Families families;
  for (const internal::BuiltInText& text : internal::built_in_families()) {
    auto family = Family::parse(std::string(text.text), std::string(text.name) + ".textproto");
    SCALAI_CHECK(family.ok(), message_of(family.status()));
    const absl::Status added = families.add(*std::move(family));
    SCALAI_CHECK(added.ok(), message_of(added));
  }
  return families;
}

}  // namespace

Families Families::built_in() {
  static const Families kFamilies = parse_built_in();
  return kFamilies;
}

absl::Status Families::add(Family family) {
  for (const auto& [name, other] : families_) {
    // One's own come before the built-in ones.
    if (name == family.name() || is_built_in(other) != is_built_in(family)) continue;
    for (const std::string& architecture : family.architectures()) {
      const auto& taken = other.architectures();
      if (std::find(taken.begin(), taken.end(), architecture) == taken.end()) continue;
      return invalid(fmt::format("families \"{}\" and \"{}\" both are for architecture \"{}\"", name, family.name(),
                                 architecture));
    }
  }
  families_.insert_or_assign(family.name(), std::move(family));
  return absl::OkStatus();
}

absl::Status Families::load(const std::string& folder) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> paths, family_files(folder));
  Families next = *this;
  std::string problems;
  std::map<std::string, std::string> loaded;  // family to file
  for (const std::string& path : paths) {
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, proto::kMaxTextBytes));
    auto family = Family::parse(text, path);
    if (!family.ok()) {
      problems += message_of(family.status());
      continue;
    }
    const auto [first, fresh] = loaded.emplace(family->name(), path);
    if (!fresh) {
      problems += fmt::format("{}: error: family \"{}\" is also in {}\n", path, family->name(), first->second);
    } else if (const absl::Status status = next.add(*std::move(family)); !status.ok()) {
      problems += fmt::format("{}: error: {}\n", path, message_of(status));
    }
  }
  if (!problems.empty()) return invalid(problems);
  *this = std::move(next);
  return absl::OkStatus();
}

std::vector<std::string> Families::names() const {
  std::vector<std::string> names;
  for (const auto& [name, family] : families_) names.push_back(name);
  return names;
}

absl::StatusOr<Family> Families::find(const std::string& name) const {
  const auto found = families_.find(name);
  if (found != families_.end()) return found->second;
  const std::string near = closest(name, names());
  return invalid(fmt::format("unknown family \"{}\": {}", name,
                             near.empty() ? fmt::format("known are {}", fmt::join(names(), ", "))
                                          : fmt::format("did you mean \"{}\"?", near)));
}

absl::StatusOr<Family> Families::of_model(const model::Model& model) const {
  SCALAI_ASSIGN_OR_RETURN(Family family, find(model.family));
  SCALAI_RETURN_IF_ERROR(family.sizes_of_model(model).status());
  return family;
}

bool Families::is_built_in(const Family& family) const {
  const auto built_in = internal::built_in_families();
  return std::any_of(built_in.begin(), built_in.end(), [&](const internal::BuiltInText& each) {
    return each.name == family.name() && each.text == family.text();
  });
}

}  // namespace scalai::store
