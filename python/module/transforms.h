#pragma once
// Steps of ptc/state/transform from Python: texts, and functions of users, which any thread may call.

#include <nanobind/nanobind.h>

#include <vector>

#include "ptc/state/transform/transform.h"

namespace scalai::python {

// Each a str, or an object with name, split ("elements", "rows"), tensors (list of str), outputs (list of (suffix,
// dtype, one_per_row); a dtype "" is the tensor's) and run(tensor, box, output, dtype, values) -> bytes: `values` is a
// bytearray of elements of `dtype` (F32 or F64 for floating ones), and so is what comes back, in F64 for floating
// outputs. Raises InvalidError, all problems at once. Objects are held weakly: the caller keeps them as long as the
// steps are used.
std::vector<transform::Step> steps_of(const nanobind::list& steps);

}  // namespace scalai::python
