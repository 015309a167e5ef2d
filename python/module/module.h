#pragma once
// The extension module scalai._core: values of the planning core for Python. Every function that can fail raises
// scalai.Error with the message of the core.

#include <nanobind/nanobind.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::python {

void add_collections(nanobind::module_& module);
void add_plans(nanobind::module_& module);
void add_samples(nanobind::module_& module);

// Raises scalai.Error for a status that is not OK: InvalidError, MissingError or FailedError, by its exit code.
void check(const absl::Status& status);

template <class T>
T value_of(absl::StatusOr<T> result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace scalai::python
