#include "ptc/state/transform/internal/on_device.h"

#include "ptc/base/status.h"

namespace scalai::transform::internal {
namespace {

using step_core::Elements;
using TensorPtr = std::shared_ptr<const Tensor>;

int64_t bytes_in(const Box& box, DType dtype) { return box.volume() * tensor::size_of(dtype); }

// Elements that the host has, or makes.
absl::StatusOr<std::byte*> bring(const Tensor& tensor, const Box& box, Run& run, const Origin& origin) {
  const int64_t bytes = bytes_in(box, tensor.dtype);
  std::byte* const host = run.chunk.host(bytes);
  SCALAI_RETURN_IF_ERROR(tensor.read(box, {host, static_cast<size_t>(bytes)}, origin));
  std::byte* const device = run.chunk.device(bytes);
  SCALAI_RETURN_IF_ERROR(run.chunk.copy_up(device, host, bytes));
  return device;
}

absl::StatusOr<std::byte*> input(const Tensor& tensor, const Box& box, Run& run) {
  return tensor.on_device == nullptr ? bring(tensor, box, run, run.origin) : tensor.on_device->make(box, run);
}

// Of one type to another; where they are equal the elements stay where they are.
absl::StatusOr<std::byte*> converted(std::byte* in, DType from, DType to, int64_t count, Run& run) {
  if (from == to) return in;
  std::byte* const out = run.chunk.device(count * tensor::size_of(to));
  SCALAI_RETURN_IF_ERROR(run.chunk.run(Elements{.from = from, .to = to, .count = count, .in = in, .out = out}));
  return out;
}

// What the input takes of a chunk, and arrays of a step: their bytes for each element.
OnDevice beside(const Tensor& in, std::initializer_list<int64_t> arrays) {
  OnDevice made;
  if (in.on_device != nullptr) {
    made = {.make = {},
            .element_bytes = in.on_device->element_bytes,
            .fixed_bytes = in.on_device->fixed_bytes,
            .origin = in.on_device->origin};
  } else {
    made = {.make = {}, .element_bytes = tensor::size_of(in.dtype), .fixed_bytes = Chunk::kAlign, .origin = in.shape};
  }
  for (const int64_t bytes : arrays) made.element_bytes += bytes;
  made.fixed_bytes += std::ssize(arrays) * Chunk::kAlign;
  return made;
}

OnDevice elements_on_device(const TensorPtr& in, const BuiltIn& built_in, DType to) {
  OnDevice made = beside(*in, {tensor::size_of(to)});
  made.make = [in, built_in, to](const Box& box, Run& run) -> absl::StatusOr<std::byte*> {
    SCALAI_ASSIGN_OR_RETURN(std::byte* const from, input(*in, box, run));
    if (built_in.what == BuiltIn::What::kCast) return converted(from, in->dtype, to, box.volume(), run);
    std::byte* const out = run.chunk.device(bytes_in(box, to));
    SCALAI_RETURN_IF_ERROR(run.chunk.run(Elements{.what = Elements::What::kScale,
                                                  .from = in->dtype,
                                                  .to = to,
                                                  .count = box.volume(),
                                                  .number = built_in.factor,
                                                  .in = from,
                                                  .out = out}));
    return out;
  };
  return made;
}

// The host says what is wrong with a row, so all that counts here is whether something is.
bool have_factors(const std::byte* peaks, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    if (!std::isfinite(step_core::factor_of(peaks, row))) return false;
  }
  return true;
}

OnDevice rows_on_device(const TensorPtr& in, const Function::Output& output) {
  OnDevice made = beside(*in, {tensor::size_of(output.dtype), int64_t{sizeof(uint64_t)}});
  made.make = [in, output](const Box& box, Run& run) -> absl::StatusOr<std::byte*> {
    Box rows_box = box;
    if (output.one_per_row) ++rows_box.rank;
    const auto last = static_cast<size_t>(rows_box.rank - 1);
    const int64_t columns = in->shape[rows_box.rank - 1];
    const int64_t first = output.one_per_row ? 0 : box.lo[last], end = output.one_per_row ? columns : box.hi[last];
    rows_box.lo[last] = 0;
    rows_box.hi[last] = columns;
    const int64_t rows = columns == 0 ? 0 : rows_box.volume() / columns, bytes = rows * int64_t{sizeof(uint64_t)};
    SCALAI_ASSIGN_OR_RETURN(std::byte* const from, input(*in, rows_box, run));
    std::byte* const peaks = run.chunk.device(bytes);
    std::byte* const seen = run.chunk.host(bytes);
    std::byte* const out = run.chunk.device(bytes_in(box, output.dtype));
    SCALAI_RETURN_IF_ERROR(run.chunk.set_to_zero(peaks, bytes));
    SCALAI_RETURN_IF_ERROR(run.chunk.run(step_core::RowPeaks{in->dtype, rows, columns, from, peaks}));
    SCALAI_RETURN_IF_ERROR(
        run.chunk.run(step_core::RowCodes{in->dtype, output.one_per_row, rows, columns, first, end, from, peaks, out}));
    SCALAI_RETURN_IF_ERROR(run.chunk.copy_down(seen, peaks, bytes));
    run.checks.emplace_back([seen, rows] { return have_factors(seen, rows); });
    return out;
  };
  return made;
}

// values += factor · B A where the pair's part and the box meet; dense over `values_box`.
absl::Status add(const LowRankPair& pair, const Box& box, const Box& values_box, std::byte* values, Run& run) {
  const tensor::Piece& piece = pair.part.piece;
  const auto strides = values_box.shape().strides();
  step_core::LowRank work{.count = box.volume(),
                          .dims = box.rank,
                          .place = piece.offset,
                          .columns = pair.part.columns,
                          .rank = pair.a->shape[0],
                          .factor = pair.factor,
                          .a_type = pair.a->dtype,
                          .b_type = pair.b->dtype,
                          .values = values};
  int64_t most = piece.offset;
  for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
    work.extent[d] = box.hi[d] - box.lo[d];
    work.at_step[d] = strides[d];
    work.place_step[d] = piece.strides[d];
    work.at += (box.lo[d] - values_box.lo[d]) * strides[d];
    work.place += (box.lo[d] - piece.box.lo[d]) * piece.strides[d];
    most += (box.hi[d] - 1 - piece.box.lo[d]) * piece.strides[d];
  }
  work.first_row = work.place / work.columns;
  const Box b_rows({work.first_row, 0}, {most / work.columns + 1, work.rank});
  SCALAI_ASSIGN_OR_RETURN(work.a, bring(*pair.a, Box::whole(pair.a->shape), run, {}));
  SCALAI_ASSIGN_OR_RETURN(work.b, bring(*pair.b, b_rows, run, {}));
  return run.chunk.run(work);
}

int64_t bytes_of(const Tensor& tensor) { return tensor.shape.elements() * tensor::size_of(tensor.dtype); }

}  // namespace

std::shared_ptr<const OnDevice> function_on_device(const TensorPtr& in, const Function& function,
                                                   const Function::Output& output) {
  if (!function.built_in) return nullptr;
  if (function.built_in->what == BuiltIn::What::kQuantise)
    return std::make_shared<const OnDevice>(rows_on_device(in, output));
  return std::make_shared<const OnDevice>(elements_on_device(in, *function.built_in, output.dtype));
}

std::shared_ptr<const OnDevice> average_on_device(const std::vector<TensorPtr>& all) {
  const DType to = all.front()->dtype;
  OnDevice made = beside(*all.front(), {int64_t{sizeof(double)}, tensor::size_of(to)});
  for (size_t i = 1; i < all.size(); ++i) {
    made.element_bytes += tensor::size_of(all[i]->dtype);
    made.fixed_bytes += Chunk::kAlign;
  }
  made.make = [all, to](const Box& box, Run& run) -> absl::StatusOr<std::byte*> {
    const int64_t count = box.volume(), bytes = count * int64_t{sizeof(double)};
    std::byte* const sum = run.chunk.device(bytes);
    SCALAI_RETURN_IF_ERROR(run.chunk.set_to_zero(sum, bytes));
    for (const TensorPtr& one : all) {
      SCALAI_ASSIGN_OR_RETURN(const std::byte* const from,
                              one == all.front() ? input(*one, box, run) : bring(*one, box, run, {}));
      SCALAI_RETURN_IF_ERROR(run.chunk.run(Elements{.what = Elements::What::kAdd,
                                                    .from = one->dtype,
                                                    .to = DType::kF64,
                                                    .count = count,
                                                    .in = from,
                                                    .out = sum}));
    }
    std::byte* const out = run.chunk.device(bytes_in(box, to));
    SCALAI_RETURN_IF_ERROR(run.chunk.run(Elements{.what = Elements::What::kDivide,
                                                  .from = DType::kF64,
                                                  .to = to,
                                                  .count = count,
                                                  .number = static_cast<double>(all.size()),
                                                  .in = sum,
                                                  .out = out}));
    return out;
  };
  return std::make_shared<const OnDevice>(std::move(made));
}

std::shared_ptr<const OnDevice> merge_on_device(const TensorPtr& in, const std::vector<LowRankPair>& pairs) {
  OnDevice made = beside(*in, {int64_t{sizeof(double)}, tensor::size_of(in->dtype)});
  for (const LowRankPair& pair : pairs) made.fixed_bytes += bytes_of(*pair.a) + bytes_of(*pair.b) + 2 * Chunk::kAlign;
  made.make = [in, pairs](const Box& box, Run& run) -> absl::StatusOr<std::byte*> {
    SCALAI_ASSIGN_OR_RETURN(std::byte* const from, input(*in, box, run));
    SCALAI_ASSIGN_OR_RETURN(std::byte* const values, converted(from, in->dtype, DType::kF64, box.volume(), run));
    for (const LowRankPair& pair : pairs) {
      const std::optional<Box> common = tensor::intersect(box, pair.part.piece.box);
      if (common) SCALAI_RETURN_IF_ERROR(add(pair, *common, box, values, run));
    }
    return converted(values, DType::kF64, in->dtype, box.volume(), run);
  };
  return std::make_shared<const OnDevice>(std::move(made));
}

}  // namespace scalai::transform::internal
