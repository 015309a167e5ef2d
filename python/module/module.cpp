#include "python/module/module.h"

#include <string>

#include "ptc/base/status.h"
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
  const std::string message = message_of(status);
  PyErr_SetString(error_class(name).ptr(), message.c_str());
  throw nb::python_error();
}

NB_MODULE(_core, module) {
  module.doc() = "The planning core of Scalai. Use the package scalai, which wraps it.";
  module.attr("version") = kVersion;
  add_collections(module);
  add_plans(module);
  add_samples(module);
}

}  // namespace scalai::python
