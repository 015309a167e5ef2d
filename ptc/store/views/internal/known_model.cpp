#include "ptc/store/views/internal/known_model.h"

#include <fmt/format.h>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {
namespace {

absl::StatusOr<KnownModel> with_family(const Families& families, const Family& family, ModelFile file) {
  absl::StatusOr<model::Model> model = family.build_model(file.sizes, file.name.empty() ? family.name() : file.name);
  if (!model.ok()) return model.status();
  KnownModel known{*std::move(model), family, std::move(file), families.is_built_in(family)};
  return known;
}

absl::StatusOr<KnownModel> of_catalogue(const Families& families, const std::string& name) {
  absl::StatusOr<model::Model> model = find_model(name);
  if (!model.ok()) return model.status();
  const absl::StatusOr<Family> family = families.of_model(*model);
  if (!family.ok()) return KnownModel{*std::move(model), std::nullopt, {}, true};
  SCALAI_ASSIGN_OR_RETURN(Sizes sizes, family->sizes_of_model(*model));
  ModelFile file{family->name(), model->name, std::move(sizes)};
  return KnownModel{*std::move(model), *family, std::move(file), families.is_built_in(*family)};
}

absl::StatusOr<KnownModel> of_config(const Families& families, const std::string& text) {
  const absl::StatusOr<Family> family = families.of_config(text);
  if (!family.ok()) {
    // There are architectures without a family.
    absl::StatusOr<model::Model> model = model_of_config(text, "", families);
    if (!model.ok()) return family.status();
    return KnownModel{*std::move(model), std::nullopt, {}, true};
  }
  SCALAI_ASSIGN_OR_RETURN(Sizes sizes, family->sizes_of_config(text));
  return with_family(families, *family, {family->name(), "", std::move(sizes)});
}

absl::StatusOr<KnownModel> of_model_file(Families& families, const ModelHints& hints) {
  SCALAI_ASSIGN_OR_RETURN(ModelFile file,
                          parse_model_file(hints.model_file, fmt::format("{}/{}", hints.place, kModelFileName)));
  if (!hints.family_file.empty()) {
    const std::string path = hints.place + "/" + kFamilyFileName;
    SCALAI_ASSIGN_OR_RETURN(Family family, Family::parse(hints.family_file, path));
    if (family.name() == file.family) return with_family(families, family, std::move(file));
  }
  const absl::StatusOr<Family> family = families.find(file.family);
  if (!family.ok()) return family.status();
  return with_family(families, *family, std::move(file));
}

}  // namespace

absl::StatusOr<std::optional<KnownModel>> known_model(const OpenOptions& options, const ModelHints& hints) {
  if (!options.model.empty() && !options.config.empty()) return invalid("a model and a config.json exclude each other");
  Families families = Families::built_in();
  if (!options.families.empty()) SCALAI_RETURN_IF_ERROR(families.load(options.families));
  absl::StatusOr<KnownModel> known = absl::NotFoundError("");
  std::string place = hints.place;
  if (!options.model.empty()) {
    known = of_catalogue(families, options.model);
    if (!known.ok()) return known.status();
  } else if (!options.config.empty()) {
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(options.config, kMostConfigBytes));
    known = of_config(families, text);
    place = options.config;
  } else if (!hints.model_file.empty()) {
    known = of_model_file(families, hints);
  } else if (!hints.config.empty()) {
    known = of_config(families, hints.config);
    place += "/config.json";
  } else {
    return std::optional<KnownModel>();
  }
  if (!known.ok()) return error_at(place, known.status());
  return std::optional<KnownModel>(*std::move(known));
}

}  // namespace scalai::store::internal
