#pragma once
// Families of models as data: their sizes, their logical tensors, and the names and fusions of these tensors in the
// files of frameworks. A family is one text file (ptc/proto/naming.proto; docs/howto/checkpoints.md explains it with
// examples). Those of families/ are compiled in; users add others from a folder.
//
//   config.json ─► Sizes ─► model::Model (the logical tensors)
//                    └────► Naming (arrange.h): stored tensors as pieces of logical ones
//
// A Family is an immutable value; any thread may call, several at once. A Families object is a plain container: one
// thread at a time while it changes.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/state/model/model.h"

namespace scalai::store {

namespace internal {
struct FamilyRules;
}  // namespace internal

// The integers, switches and sets of layers of one model, by their names in the family ("heads", "tied", "sparse").
struct Sizes {
  std::map<std::string, int64_t> numbers;
  std::map<std::string, bool> switches;
  std::map<std::string, std::vector<int>> layer_sets;  // rising
  friend bool operator==(const Sizes&, const Sizes&) = default;
};

class Family {
 public:
  // Parses a family file. `file_name` is for messages. Errors (InvalidArgument) are rendered diagnostics, all problems
  // at once: those of the grammar; unknown sizes in expressions; unknown logical tensors in parts; logical tensors that
  // a naming does not store or stores twice (for every setting of the switches); names without a place for the layer or
  // the expert.
  static absl::StatusOr<Family> parse(const std::string& text, const std::string& file_name);

  // References live as long as any copy of the family.
  const std::string& name() const;
  const std::string& text() const;                        // the parsed text, to be stored beside a checkpoint
  const std::vector<std::string>& architectures() const;  // names in config.json
  std::vector<std::string> namings() const;               // "hf", "megatron"
  bool has_naming(std::string_view name) const;

  // Sizes from the text of a Hugging Face config.json with an architecture of this family. Errors (InvalidArgument)
  // name the JSON pointer, all of them at once, one a line.
  absl::StatusOr<Sizes> sizes_of_config(std::string_view json_text) const;
  // Sizes of a model by its tensors, as of the catalogue. InvalidArgument: the logical tensors of family
  // and model differ; the message names the first difference.
  absl::StatusOr<Sizes> sizes_of_model(const model::Model& model) const;
  // The model of these sizes (a switch that is absent has its usual value), with params in forward order and without
  // source and published_params. InvalidArgument: a size is missing, unknown, below 1 or above the family's limit; a
  // division leaves a remainder; two rules make one name.
  absl::StatusOr<model::Model> build_model(const Sizes& sizes, const std::string& model_name) const;

  const internal::FamilyRules& rules() const { return *rules_; }

 private:
  explicit Family(std::shared_ptr<const internal::FamilyRules> rules) : rules_(std::move(rules)) {}
  std::shared_ptr<const internal::FamilyRules> rules_;
};

// The known families, by name.
class Families {
 public:
  // Those of families/. CHECK: they parse (a test holds it).
  static Families built_in();
  // Adds every *.textproto of a folder, in order of file name; a family replaces one of the same name. InvalidArgument:
  // all problems of all files; nothing is added then. NotFound: the folder does not exist or cannot be read.
  absl::Status load(const std::string& folder);
  absl::Status add(Family family);  // InvalidArgument: two of one's own families are for one architecture

  std::vector<std::string> names() const;
  // InvalidArgument: unknown name; the message has the nearest names.
  absl::StatusOr<Family> find(const std::string& name) const;
  // The family with the architecture of a config.json (/architectures/0); one's own come before the built-in ones.
  // InvalidArgument: there is none; the message says what differs from the nearest.
  absl::StatusOr<Family> of_config(std::string_view json_text) const;
  // The family that the model names, if it is known and describes the model (Family::sizes_of_model).
  absl::StatusOr<Family> of_model(const model::Model& model) const;
  // True if the family's text equals the compiled-in one. Other families are stored with a checkpoint as
  // "family.textproto".
  bool is_built_in(const Family& family) const;

 private:
  std::map<std::string, Family> families_;
};

// A model from the text of a Hugging Face config.json, at most 4 MiB: of the family with its architecture, or of those
// that have no family (ResNetForImageClassification). `name` becomes Model::name. InvalidArgument: text that is not
// JSON (with line and column); an unknown architecture, with what differs from the nearest family; or all problems of
// the values at once, one a line with its JSON pointer ("/num_attention_heads: …").
absl::StatusOr<model::Model> model_of_config(std::string_view json_text, std::string_view name,
                                             const Families& families = Families::built_in());

// Models by name: those of model::find_model and of models.json. InvalidArgument: unknown, with the nearest or all.
std::vector<std::string> model_names();
absl::StatusOr<model::Model> find_model(std::string_view name);

// "model.textproto": a file in our checkpoint folders that makes them self-describing.
struct ModelFile {
  std::string family;
  std::string name;  // of the model, e.g. "llama3-8b"; may be empty
  Sizes sizes;
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};
inline constexpr std::string_view kModelFileName = "model.textproto";
std::string model_file_text(const ModelFile& file);
// Errors (InvalidArgument) are rendered diagnostics. The sizes are not compared with the family; build_model() does
// that.
absl::StatusOr<ModelFile> parse_model_file(const std::string& text, const std::string& file_name);

}  // namespace scalai::store
