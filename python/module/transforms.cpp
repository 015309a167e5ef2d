#include "python/module/transforms.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"
#include "python/module/module.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

using tensor::DType;
using transform::Function;

// A Python object that threads without the interpreter's lock may let go.
using Held = std::shared_ptr<nb::object>;

Held held(nb::object object) {
  return Held(new nb::object(std::move(object)), [](nb::object* last) {
    const nb::gil_scoped_acquire lock;
    delete last;
  });
}

// What a function sees of elements of this type.
DType shown(DType dtype) {
  if (!tensor::convertible(dtype, DType::kF64)) return dtype;
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// And what it gives for elements of this type, which are rounded once.
DType given(DType dtype) { return tensor::convertible(dtype, DType::kF64) ? DType::kF64 : dtype; }

absl::Status convert(DType from, DType to, const std::byte* src, std::span<std::byte> dst) {
  const int64_t count = std::ssize(dst) / tensor::size_of(to);
  if (from == to) {
    std::memcpy(dst.data(), src, dst.size());
  } else {
    tensor::convert(from, to, count, src, dst.data());
  }
  return absl::OkStatus();
}

// An exception may be one that cannot say what it is.
std::string text_of(const nb::python_error& error) {
  const std::string kind = nb::type_name(error.type()).c_str();
  try {
    const nb::object bytes = nb::str(error.value()).attr("encode")("utf-8", "backslashreplace");
    return fmt::format("{}: {}", kind, nb::cast<nb::bytes>(bytes).c_str());
  } catch (const std::exception&) {
    return kind;
  }
}

absl::Status call(const nb::object& step, const Function::Part& part, DType out) {
  const nb::gil_scoped_acquire lock;
  const DType in = shown(part.tensor->dtype), made = given(out);
  std::vector<std::byte> values(static_cast<size_t>(part.box.volume() * tensor::size_of(in)));
  SCALAI_RETURN_IF_ERROR(convert(part.tensor->dtype, in, part.in.data(), values));
  std::vector<std::tuple<int64_t, int64_t>> box;
  for (size_t d = 0; d < static_cast<size_t>(part.box.rank); ++d) box.emplace_back(part.box.lo[d], part.box.hi[d]);
  const auto failed = [&](const std::string& why) {
    return invalid(fmt::format("tensor \"{}\" box {}: {}", part.tensor->name, part.box.str(), why));
  };
  try {
    const nb::object run = step().attr("run");
    nb::object chunk =
        nb::steal(PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(values.data()), std::ssize(values)));
    const nb::object result = run(part.tensor->name, box, part.output, std::string(name_of(in)), std::move(chunk),
                                  std::string(name_of(made)));
    const auto bytes = nb::cast<nb::bytes>(result);
    const int64_t wanted = std::ssize(part.out) / tensor::size_of(out) * tensor::size_of(made);
    if (static_cast<int64_t>(bytes.size()) != wanted)
      return failed(fmt::format("gave {} bytes, {} are expected", bytes.size(), wanted));
    return convert(made, out, reinterpret_cast<const std::byte*>(bytes.c_str()), part.out);
  } catch (nb::python_error& error) {
    return failed(text_of(error));
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

transform::Step step_of(const nb::handle& step) {
  Function function;
  function.name = nb::cast<std::string>(step.attr("name"));
  function.split =
      nb::cast<std::string>(step.attr("split")) == "rows" ? transform::Split::kRows : transform::Split::kElements;
  std::vector<std::tuple<std::string, std::string, bool>> outputs;
  for (const nb::handle& output : step.attr("outputs"))
    outputs.push_back(nb::cast<std::tuple<std::string, std::string, bool>>(output));
  std::vector<std::optional<DType>> dtypes;
  for (const auto& [suffix, dtype, one_per_row] : outputs)
    dtypes.push_back(dtype.empty() ? std::nullopt : std::optional(value_of(tensor::parse_dtype(dtype))));
  function.outputs = [outputs, dtypes](DType dtype,
                                       const tensor::Shape&) -> absl::StatusOr<std::vector<Function::Output>> {
    std::vector<Function::Output> list;
    for (size_t i = 0; i < outputs.size(); ++i)
      list.push_back({std::get<0>(outputs[i]), dtypes[i].value_or(dtype), std::get<2>(outputs[i])});
    return list;
  };
  // Weak: the caller keeps the step, and a function's globals may have the checkpoint, a ring that Python would not see
  // here.
  const Held weak = held(nb::weakref(step));
  function.run = [weak, dtypes](const Function::Part& part) {
    return call(*weak, part, dtypes[part.output].value_or(part.tensor->dtype));
  };
  return {.text = nb::cast<std::string>(step.attr("text")),
          .tensors = nb::cast<std::vector<std::string>>(step.attr("tensors")),
          .what = std::move(function)};
}

}  // namespace

std::vector<transform::Step> steps_of(const nb::list& steps) {
  std::vector<transform::Step> list;
  std::vector<std::string> texts;
  std::vector<size_t> places;  // of the texts
  for (const nb::handle& step : steps) {
    if (nb::isinstance<nb::str>(step)) {
      texts.push_back(nb::cast<std::string>(step));
      places.push_back(list.size());
      list.emplace_back();
    } else {
      list.push_back(step_of(step));
    }
  }
  std::vector<transform::Step> parsed = value_of(transform::parse_steps(texts));
  for (size_t i = 0; i < parsed.size(); ++i) list[places[i]] = std::move(parsed[i]);
  return list;
}

}  // namespace scalai::python
