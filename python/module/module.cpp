#include "python/module/module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/base/version.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

// A Python exception class of _errors.py, and its message.
nb::object error_class(const char* name) { return nb::module_::import_("scalai._errors").attr(name); }

}  // namespace

void check(const absl::Status& status) {
  if (status.ok()) return;
  const int code = exit_code_of(status);
  const char* name = code == 3 ? "InvalidError" : code == 4 ? "MissingError" : "FailedError";
  const std::string message = escaped(message_of(status));  // a name of a file need not be UTF-8, a Python text is
  PyErr_SetString(error_class(name).ptr(), message.c_str());
  throw nb::python_error();
}

nb::dict tensor_dict(const std::string& name, tensor::DType dtype, const tensor::Shape& shape, model::StateKind kind) {
  std::vector<int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) extents.push_back(shape[dim]);
  nb::dict one;
  one["name"] = name;
  one["dtype"] = std::string(name_of(dtype));
  one["shape"] = nb::tuple(nb::cast(extents));
  one["kind"] = std::string(name_of(kind));
  one["bytes"] = shape.elements() * size_of(dtype);
  return one;
}

NB_MODULE(_core, module) {
  module.doc() = "The planning core of Scalai. Use the package scalai, which wraps it.";
  module.attr("version") = kVersion;
  add_checkpoints(module);
  add_collections(module);
  add_gpu_memory(module);
  add_plans(module);
  add_samples(module);
  // A store that other processes see whole, after all stores before it: what Python's own memory views do not promise.
  module.def(
      "store_word",
      [](uintptr_t address, uint64_t value) {
        std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address)).store(value);
      },
      nb::arg("address"), nb::arg("value"));
}

}  // namespace scalai::python
