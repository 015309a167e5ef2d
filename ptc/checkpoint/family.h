#pragma once
// Families of models as data: which sizes a model has, which logical tensors follow from them, and under which names
// and in which fusions frameworks store those. A family is one text file (ptc/proto/naming.proto; families/README.md
// explains it with examples); those of gpt, llama (also Mistral) and mixtral are compiled in, and a user adds others
// from a folder.
//
//   config.json ─► Sizes ─► model::Model (the logical tensors)
//                    └────► Naming (arrange.h): stored tensors as pieces of logical ones
//
// Values; immutable after they were made, so safe from several threads.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/model/model.h"

namespace scalai::checkpoint {

namespace internal {
struct FamilyRules;
}  // namespace internal

// The integers and switches that one model of a family has: all that the family names, by name ("heads", "tied").
struct Sizes {
  std::map<std::string, int64_t> numbers;
  std::map<std::string, bool> switches;
  friend bool operator==(const Sizes&, const Sizes&) = default;
};

class Family {
 public:
  // Of the text of a family file. Errors (InvalidArgument) are rendered diagnostics, all problems at once: besides
  // those of the grammar unknown sizes in expressions, unknown logical tensors in parts, logical tensors that a naming
  // does not store or stores twice (for every setting of the switches), names without a place for the layer or the
  // expert.
  static absl::StatusOr<Family> parse(const std::string& text, const std::string& file_name);

  const std::string& name() const;
  const std::string& text() const;                        // what was parsed: fit to lie beside a checkpoint
  const std::vector<std::string>& architectures() const;  // of config.json
  std::vector<std::string> namings() const;               // "hf", "megatron"

  // Of the text of a Hugging Face config.json, whose architecture is one of the family's. Errors (InvalidArgument) name
  // the JSON pointer, all of them at once, one a line.
  absl::StatusOr<Sizes> sizes_of_config(std::string_view json_text) const;
  // Of a model that the catalogue or model_from_hugging_face built. InvalidArgument: the family's logical tensors are
  // not the model's; the first difference is named.
  absl::StatusOr<Sizes> sizes_of_model(const model::Model& model) const;
  // The model of these sizes, its params in forward order, with everything but source and published_params.
  // InvalidArgument: a size is missing, unknown, below 1 or above the family's limit, a division leaves a rest, two rules
  // make one name.
  absl::StatusOr<model::Model> build_model(const Sizes& sizes, const std::string& model_name) const;
  // A config.json that sizes_of_config reads back. It says what the shapes need and no more: what does not show in the
  // shapes (rotary base, activation, epsilons, tokens) is not known here and not in it.
  absl::StatusOr<std::string> config_text(const Sizes& sizes) const;

  const internal::FamilyRules& rules() const { return *rules_; }

 private:
  explicit Family(std::shared_ptr<const internal::FamilyRules> rules) : rules_(std::move(rules)) {}
  std::shared_ptr<const internal::FamilyRules> rules_;
};

// The families that are known, by name.
class Families {
 public:
  // gpt, llama, mixtral. CHECK: they parse (a test holds it).
  static Families built_in();
  // Adds every *.textproto of a folder, in order of file name; a family of the same name is replaced. All problems of
  // all files at once; on an error nothing is added. NotFound: no such folder, or it cannot be read.
  absl::Status load(const std::string& folder);
  absl::Status add(Family family);  // InvalidArgument: an architecture that another family has, too

  std::vector<std::string> names() const;
  // InvalidArgument: unknown, with the nearest names.
  absl::StatusOr<Family> find(const std::string& name) const;
  // The family whose architecture a config.json names (/architectures/0).
  absl::StatusOr<Family> of_config(std::string_view json_text) const;
  // The family that the model says, when it is known and describes it (Family::sizes_of_model).
  absl::StatusOr<Family> of_model(const model::Model& model) const;
  // Whether a family is word for word the one compiled in; others go with a checkpoint as "family.textproto".
  bool is_built_in(const Family& family) const;

 private:
  std::map<std::string, Family> families_;
};

// "model.textproto": lies in the checkpoint folders that we write, so that they describe themselves.
struct ModelFile {
  std::string family;
  std::string name;  // of the model, e.g. "llama3-8b"; may be empty
  Sizes sizes;
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};
inline constexpr std::string_view kModelFileName = "model.textproto";
std::string model_file_text(const ModelFile& file);
// Errors (InvalidArgument) are rendered diagnostics. Whether the sizes are those of the family, build_model() tells.
absl::StatusOr<ModelFile> parse_model_file(const std::string& text, const std::string& file_name);

}  // namespace scalai::checkpoint
