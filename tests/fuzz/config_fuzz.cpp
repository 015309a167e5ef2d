// Any bytes as a Hugging Face config.json: the import may refuse them but must not crash or hang, and a model that it
// accepts has state that can be counted.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model =
      scalai::store::model_of_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  SCALAI_CHECK(model.ok() ? model->parameter_count() > 0 : !scalai::message_of(model.status()).empty());
  return 0;
}
