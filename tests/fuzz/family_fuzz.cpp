// Any bytes as a family of models: parsing may refuse them but must not crash or hang, and namings of what it accepts can
// be made or are refused. The first byte chooses: a family file or a model.textproto.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/checkpoint/naming/arrange.h"
#include "ptc/checkpoint/naming/family.h"

namespace {

using namespace scalai;
using namespace scalai::checkpoint;

void try_family(const std::string& text) {
  const absl::StatusOr<Family> family = Family::parse(text, "fuzz");
  if (!family.ok()) {
    SCALAI_CHECK(!message_of(family.status()).empty());
    return;
  }
  SCALAI_CHECK(family->text() == text);
  const absl::StatusOr<Sizes> sizes = family->sizes_of_config(
      R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
          "intermediate_size": 4, "vocab_size": 16, "max_position_embeddings": 4})");
  if (!sizes.ok()) return;
  const absl::StatusOr<model::Model> model = family->build_model(*sizes, "fuzz");
  for (const std::string& name : family->namings()) {
    if (model.ok()) (void)Naming::of(*family, name, *sizes);
  }
}

void try_model_file(const std::string& text) {
  const absl::StatusOr<ModelFile> file = parse_model_file(text, "fuzz");
  if (!file.ok()) return;
  const absl::StatusOr<ModelFile> again = parse_model_file(model_file_text(*file), "fuzz");
  SCALAI_CHECK(again.ok() && *again == *file, "a model file changed when written and read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  data[0] == 'M' ? try_model_file(text) : try_family(text);
  return 0;
}
