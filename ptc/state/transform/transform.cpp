#include "ptc/state/transform/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/box_chunks.h"
#include "ptc/state/transform/internal/functions.h"
#include "ptc/state/transform/internal/on_device.h"
#include "ptc/state/transform/internal/pairs.h"

namespace scalai::transform {
namespace {

using internal::kElements;
using TensorPtr = std::shared_ptr<const Tensor>;
using FunctionPtr = std::shared_ptr<const Function>;

constexpr int64_t kMostRowBytes = int64_t{64} << 20;

size_t bytes_of(const Box& box, DType dtype) { return static_cast<size_t>(box.volume() * tensor::size_of(dtype)); }

// The box with all of the last dimension.
Box whole_rows(Box box, const Shape& shape) {
  const auto last = static_cast<size_t>(box.rank - 1);
  box.lo[last] = 0;
  box.hi[last] = shape[box.rank - 1];
  return box;
}

// What one output of a function has, a chunk after the other.
absl::Status read_elements(const Tensor& in, const Function& function, DType to, const Box& box,
                           std::span<std::byte> dst, const Origin& origin) {
  std::vector<std::byte> chunk;
  return tensor::for_each_chunk(box, kElements, [&](const Box& part) {
    chunk.resize(bytes_of(part, in.dtype));
    SCALAI_RETURN_IF_ERROR(in.read(part, chunk, origin));
    const std::span<std::byte> out = dst.first(bytes_of(part, to));
    dst = dst.subspan(out.size());
    return function.run({&in, part, 0, chunk, out});
  });
}

absl::Status read_rows(const Tensor& in, const Function& function, const Function::Output& output, size_t number,
                       Box box, std::span<std::byte> dst, const Origin& origin) {
  const size_t size = static_cast<size_t>(tensor::size_of(output.dtype));
  if (output.one_per_row) ++box.rank;  // `box` is of the rows
  const Box wanted = output.one_per_row ? whole_rows(box, in.shape) : box;
  const auto last = static_cast<size_t>(wanted.rank - 1);
  const int64_t columns = in.shape[wanted.rank - 1];
  std::vector<std::byte> chunk, made;
  return tensor::for_each_chunk(whole_rows(wanted, in.shape), std::max(columns, kElements), [&](const Box& part) {
    chunk.resize(bytes_of(part, in.dtype));
    SCALAI_RETURN_IF_ERROR(in.read(part, chunk, origin));
    const size_t rows = static_cast<size_t>(part.volume() / columns);
    made.resize(output.one_per_row ? rows * size : static_cast<size_t>(part.volume()) * size);
    SCALAI_RETURN_IF_ERROR(function.run({&in, part, number, chunk, made}));
    const size_t step = output.one_per_row ? size : static_cast<size_t>(columns) * size;
    const size_t skip = output.one_per_row ? 0 : static_cast<size_t>(wanted.lo[last]) * size;
    const size_t take = output.one_per_row ? size : static_cast<size_t>(wanted.extent(wanted.rank - 1)) * size;
    for (size_t row = 0; row < rows; ++row) {
      std::memcpy(dst.data(), made.data() + row * step + skip, take);
      dst = dst.subspan(take);
    }
    return absl::OkStatus();
  });
}

Shape without_last(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int dim = 0; dim + 1 < shape.rank(); ++dim) extents.push_back(shape[dim]);
  return Shape(std::span<const int64_t>(extents));
}

Tensor output_of(const TensorPtr& in, const FunctionPtr& function, const Function::Output& output, size_t number) {
  Tensor out{.name = in->name + output.suffix,
             .dtype = output.dtype,
             .shape = output.one_per_row ? without_last(in->shape) : in->shape,
             .usual = in->usual && number == 0,
             .read = {},
             .parts = number == 0 ? in->parts : std::vector<MatrixPart>(),
             .made = in->made + function->name + ";",
             .origin = in->origin.empty() ? in->name : in->origin,
             .dropped_dims = in->dropped_dims + (output.one_per_row ? 1 : 0),
             .whole_dims = in->whole_dims};
  if (function->split == Split::kRows) out.whole_dims = std::max(in->whole_dims, in->dropped_dims + 1);
  // The input's chunk, the function's own values and what it gives, in F64 at most.
  const int64_t columns = in->shape.rank() == 0 ? 1 : in->shape[in->shape.rank() - 1];
  const int64_t elements = function->split == Split::kRows ? std::max(columns, kElements) : kElements;
  out.scratch_bytes = in->scratch_bytes + 3 * elements * int64_t{sizeof(double)};
  out.on_device = internal::function_on_device(in, *function, output);
  if (function->split == Split::kRows) {
    out.read = [in, function, output, number](const Box& box, std::span<std::byte> dst, const Origin& origin) {
      return read_rows(*in, *function, output, number, box, dst, origin);
    };
  } else {
    out.read = [in, function, to = output.dtype](const Box& box, std::span<std::byte> dst, const Origin& origin) {
      return read_elements(*in, *function, to, box, dst, origin);
    };
  }
  return out;
}

// One step after the other. Problems are collected; a step that has some leaves its tensors as they were.
class Work {
 public:
  Work(std::vector<Tensor> tensors, const OpenOther& open) : tensors_(std::move(tensors)), open_(open) {}

  absl::Status run(const Step& step) {
    step_ = &step;
    chosen_.clear();
    choose();
    return std::visit([&](const auto& what) { return run(what); }, step.what);
  }
  absl::StatusOr<std::vector<Tensor>> result() {
    std::set<std::string> names;
    for (const Tensor& tensor : tensors_) {
      if (!names.insert(tensor.name).second)
        problems_.push_back(fmt::format("tensor \"{}\": two tensors have this name", clipped(tensor.name, 120)));
    }
    if (!problems_.empty()) return invalid(fmt::format("{}", fmt::join(problems_, "\n")));
    return std::move(tensors_);
  }

 private:
  void problem(const std::string& text) { problems_.push_back(fmt::format("{}: {}", clipped(step_->text, 80), text)); }
  void problem(const Tensor& tensor, const absl::Status& status) {
    problem(fmt::format("tensor \"{}\" {}", clipped(tensor.name, 120), message_of(status)));
  }

  // What is no parameter (masters, moments, buffers) fits where its last word is said: "layers.*" is not for moments.
  static bool fits(const std::string& pattern, const Tensor& tensor) {
    if (::fnmatch(pattern.c_str(), tensor.name.c_str(), 0) != 0) return false;
    const size_t dot = pattern.rfind('.');
    return tensor.usual || pattern.find_first_of("*?[", dot == std::string::npos ? 0 : dot) == std::string::npos;
  }
  void choose() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (step_->tensors.empty() && tensors_[i].usual) chosen_.insert(i);
    }
    for (const std::string& pattern : step_->tensors) {
      bool used = false;
      for (size_t i = 0; i < tensors_.size(); ++i) {
        if (!fits(pattern, tensors_[i])) continue;
        used = true;
        chosen_.insert(i);
      }
      if (!used) problem(fmt::format("no tensor is named \"{}\"; * stands for any text", clipped(pattern, 120)));
    }
  }
  // Those that a step is for; where they were named, the others are problems.
  bool suits(const Tensor& tensor, const absl::Status& status) {
    if (!status.ok() && !step_->tensors.empty()) problem(tensor, status);
    return status.ok();
  }
  // Codes are not the weights: other ones beside the same scales would stand for something else.
  void check_values(const Tensor& tensor) {
    if (tensor::size_of(tensor.dtype) > 1 || !internal::check_floating(tensor.dtype).ok()) return;
    for (const char* const suffix : {"_scale_inv", "_scale"}) {
      const std::string scales = tensor.name + suffix;
      if (std::none_of(tensors_.begin(), tensors_.end(), [&](const Tensor& one) { return one.name == scales; }))
        continue;
      problem(tensor, invalid(fmt::format("has codes of {}, whose scales are \"{}\": this step is for the weights that "
                                          "both make; scale(FACTOR, tensors={}) scales these",
                                          name_of(tensor.dtype), clipped(scales, 120), clipped(scales, 120))));
      return;
    }
  }
  void none_suits(bool any, const char* what) {
    if (!any && step_->tensors.empty()) problem(fmt::format("the state has no {}", what));
  }

  absl::Status run(const Function& given) {
    const auto function = std::make_shared<const Function>(given);
    std::vector<Tensor> made;
    bool any = false;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (chosen_.contains(i) && function->needs_values) check_values(tensor);
      auto outputs = chosen_.contains(i) ? function->outputs(tensor.dtype, tensor.shape)
                                         : absl::StatusOr<std::vector<Function::Output>>(absl::NotFoundError(""));
      if (outputs.ok() && function->split == Split::kRows) outputs = checked_rows(tensor, *std::move(outputs));
      if (!chosen_.contains(i) || !suits(tensor, outputs.status())) {
        made.push_back(tensor);
        continue;
      }
      any = true;
      const auto in = std::make_shared<const Tensor>(tensor);
      for (size_t number = 0; number < outputs->size(); ++number)
        made.push_back(output_of(in, function, (*outputs)[number], number));
    }
    none_suits(any, "tensor that this is for");
    tensors_ = std::move(made);
    return absl::OkStatus();
  }

  static absl::StatusOr<std::vector<Function::Output>> checked_rows(const Tensor& tensor,
                                                                    std::vector<Function::Output> outputs) {
    if (tensor.shape.rank() == 0) return invalid("is a single element, which has no rows");
    const int64_t bytes = tensor.shape[tensor.shape.rank() - 1] * int64_t{sizeof(double)};
    if (bytes <= kMostRowBytes) return outputs;
    return invalid(
        fmt::format("has rows of {} elements, more than memory is made for", bytes / int64_t{sizeof(double)}));
  }

  absl::Status run(const Average& average) {
    std::vector<std::map<std::string, TensorPtr>> others;
    std::vector<std::string> identities;
    for (const std::string& path : average.others) {
      SCALAI_ASSIGN_OR_RETURN(Other other, open_(path));
      others.emplace_back();
      for (Tensor& tensor : other.tensors) {
        const std::string name = tensor.name;
        others.back()[name] = std::make_shared<const Tensor>(std::move(tensor));
      }
      identities.push_back(other.identity);
    }
    bool any = false;
    for (const size_t i : chosen_) {
      Tensor& tensor = tensors_[i];
      if (const absl::Status status = internal::check_floating(tensor.dtype); !status.ok()) {
        problem(tensor, status);  // codes beside scales that are averaged would be neither
        continue;
      }
      check_values(tensor);
      any = true;
      std::vector<TensorPtr> all = {std::make_shared<const Tensor>(tensor)};
      for (size_t other = 0; other < others.size(); ++other) {
        const auto found = others[other].find(tensor.name);
        if (found == others[other].end()) {
          problem(tensor, invalid(fmt::format("is not in {}", average.others[other])));
        } else if (found->second->shape != tensor.shape) {
          problem(tensor, invalid(fmt::format("has the shape {}, in {} {}", tensor.shape.str(), average.others[other],
                                              found->second->shape.str())));
        } else if (!internal::check_floating(found->second->dtype).ok()) {
          problem(tensor, invalid(fmt::format("has elements of {} in {}", name_of(found->second->dtype),
                                              average.others[other])));
        } else {
          all.push_back(found->second);
        }
      }
      if (all.size() == others.size() + 1)
        tensor = internal::average_of(std::move(all), fmt::format("average({})", fmt::join(identities, ",")));
    }
    none_suits(any, "tensor of floating elements");
    return absl::OkStatus();
  }

  absl::Status run(const Lora& lora) {
    SCALAI_ASSIGN_OR_RETURN(const Other adapter, open_(lora.adapter));
    std::vector<std::string> problems;
    internal::Pairs pairs(lora, adapter, problems);
    for (const size_t i : chosen_) {
      if (!pairs.has(tensors_[i])) continue;
      if (const absl::Status status = internal::check_floating(tensors_[i].dtype); !status.ok()) {
        problem(tensors_[i], status);
        continue;
      }
      check_values(tensors_[i]);
      tensors_[i] = pairs.merged(tensors_[i]);
    }
    pairs.finish();
    for (const std::string& text : problems) problem(text);
    return absl::OkStatus();
  }

  std::vector<Tensor> tensors_;
  const OpenOther& open_;
  const Step* step_ = nullptr;
  std::set<size_t> chosen_;
  std::vector<std::string> problems_;
};

}  // namespace

Box box_in_origin(const Tensor& tensor, const Shape& origin, const Box& box) {
  Box whole = Box::whole(origin);
  for (size_t d = 0; d < static_cast<size_t>(whole.rank - tensor.whole_dims); ++d) {
    whole.lo[d] = box.lo[d];
    whole.hi[d] = box.hi[d];
  }
  return whole;
}

Box box_of_origin(const Tensor& tensor, const Box& in_origin) {
  Box whole = Box::whole(tensor.shape);
  for (size_t d = 0; d < static_cast<size_t>(in_origin.rank - tensor.whole_dims); ++d) {
    whole.lo[d] = in_origin.lo[d];
    whole.hi[d] = in_origin.hi[d];
  }
  return whole;
}

bool is_only_cast(const Tensor& tensor) { return tensor.made == internal::cast(tensor.dtype).name + ";"; }

absl::StatusOr<std::vector<Tensor>> transform(std::span<const Step> steps, std::vector<Tensor> tensors,
                                              const OpenOther& open) {
  Work work(std::move(tensors), open);
  for (const Step& step : steps) SCALAI_RETURN_IF_ERROR(work.run(step));
  return work.result();
}

}  // namespace scalai::transform
