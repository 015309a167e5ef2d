// Any bytes as a family of models: parsing may refuse them but must not crash or hang, and models, namings and layouts
// of what it accepts can be made or are refused. The first byte chooses: a family file or a model.textproto. Half of
// the mutants are well-formed family files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "tests/fuzz/family_uses.h"

namespace {

using namespace scalai;
using namespace scalai::store;

void try_family(const std::string& text) {
  const absl::StatusOr<Family> family = Family::parse(text, "fuzz");
  if (!family.ok()) {
    SCALAI_CHECK(!message_of(family.status()).empty());
    return;
  }
  SCALAI_CHECK(family->text() == text);
  Random random(text.size());
  for (const std::string& architecture : family->architectures())
    use_family(*family, family_config(architecture, random));
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

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed);
  if (size < 2 || data[0] == 'M' || random.below(2) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string mutant = family_mutant({reinterpret_cast<const char*>(data + 1), size - 1}, random);
  const size_t length = std::min(mutant.size(), max_size - 1);
  std::copy_n(mutant.begin(), length, data + 1);
  return length + 1;
}
