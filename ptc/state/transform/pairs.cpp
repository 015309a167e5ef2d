#include "ptc/state/transform/internal/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/box_chunks.h"
#include "ptc/state/transform/internal/functions.h"
#include "ptc/state/transform/internal/on_device.h"
#include "ptc/state/transform/step_core.h"

namespace scalai::transform::internal {
namespace {

using TensorPtr = std::shared_ptr<const Tensor>;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

std::vector<MatrixPart> parts_of(const Tensor& tensor) {
  if (!tensor.parts.empty() || tensor.shape.rank() != 2) return tensor.parts;
  const Box whole = Box::whole(tensor.shape);
  return {{.name = tensor.name,
           .rows = tensor.shape[0],
           .columns = tensor.shape[1],
           .piece = {.box = whole, .offset = 0, .strides = tensor.shape.strides()}}};
}

absl::StatusOr<std::vector<double>> read_f64(const Tensor& tensor, const Box& box, const Origin& origin = {}) {
  std::vector<std::byte> bytes(static_cast<size_t>(box.volume() * tensor::size_of(tensor.dtype)));
  SCALAI_RETURN_IF_ERROR(tensor.read(box, bytes, origin));
  return as_f64(tensor.dtype, bytes);
}

struct Delta : LowRankPair {
  int64_t rank() const { return a->shape[0]; }

  // values += factor · B A, for the elements of `box`, dense over `values_box`. Reads the rows of B and the columns of
  // A between the first and the last one that the box has.
  absl::Status add(const Box& box, const Box& values_box, std::span<double> values) const {
    int64_t least = part.piece.offset, most = part.piece.offset, first_column = part.columns, last_column = 0;
    for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
      least += (box.lo[d] - part.piece.box.lo[d]) * part.piece.strides[d];
      most += (box.hi[d] - 1 - part.piece.box.lo[d]) * part.piece.strides[d];
    }
    visit(box, values_box, [&](size_t, int64_t, int64_t column) {
      first_column = std::min(first_column, column);
      last_column = std::max(last_column, column);
    });
    const int64_t first_row = least / part.columns, rows = most / part.columns + 1 - first_row;
    const int64_t columns = last_column + 1 - first_column;
    SCALAI_ASSIGN_OR_RETURN(const std::vector<double> b_rows,
                            read_f64(*b, Box({first_row, 0}, {first_row + rows, rank()})));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<double> a_rows,
                            read_f64(*a, Box({0, first_column}, {rank(), first_column + columns})));
    std::vector<double> a_columns(a_rows.size());
    for (int64_t k = 0; k < rank(); ++k) {
      for (int64_t j = 0; j < columns; ++j)
        a_columns[static_cast<size_t>(j * rank() + k)] = a_rows[static_cast<size_t>(k * columns + j)];
    }
    visit(box, values_box, [&](size_t at, int64_t row, int64_t column) {
      const double* const b_row = b_rows.data() + (row - first_row) * rank();
      const double* const a_column = a_columns.data() + (column - first_column) * rank();
      const double sum = step_core::dot(
          rank(), [&](int64_t k) { return b_row[k]; }, [&](int64_t k) { return a_column[k]; });
      values[at] = step_core::plus(values[at], step_core::times(factor, sum));
    });
    return absl::OkStatus();
  }

  // visit(place in values, row, column) for each element of `box`, whose places in the matrix step along the last
  // dimension.
  template <class Visit>
  void visit(const Box& box, const Box& values_box, const Visit& each) const {
    const auto strides = values_box.shape().strides();
    const auto last = static_cast<size_t>(box.rank - 1);
    const int64_t step_rows = part.piece.strides[last] / part.columns;
    const int64_t step_columns = part.piece.strides[last] % part.columns;
    Box runs = box;
    runs.hi[last] = runs.lo[last] + 1;
    std::array<int64_t, tensor::kMaxRank> index = box.lo;
    for (int64_t left = runs.volume(); left > 0; --left) {
      int64_t at = 0, place = part.piece.offset;
      for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
        at += (index[d] - values_box.lo[d]) * strides[d];
        place += (index[d] - part.piece.box.lo[d]) * part.piece.strides[d];
      }
      int64_t row = place / part.columns, column = place % part.columns;
      for (int64_t i = 0; i < box.extent(box.rank - 1); ++i) {
        each(static_cast<size_t>(at + i), row, column);
        row += step_rows;
        column += step_columns;
        if (column >= part.columns) {
          column -= part.columns;
          ++row;
        }
      }
      for (int d = box.rank - 2; d >= 0; --d) {
        const auto dim = static_cast<size_t>(d);
        if (++index[dim] < box.hi[dim]) break;
        index[dim] = box.lo[dim];
      }
    }
  }
};

// Columns of A are read for each chunk, so a chunk has about as many elements, within limits.
int64_t chunk_of(const std::vector<Delta>& deltas) {
  constexpr int64_t kMost = 8 * kElements;
  int64_t elements = kElements;
  for (const Delta& delta : deltas) elements = std::max(elements, delta.rank() * delta.part.columns);
  return std::min(elements, kMost);
}

// A chunk may lie in one row of B and as many columns of A.
int64_t scratch_of(const Delta& delta, int64_t chunk) {
  const int64_t elements = delta.rank() * (2 * std::min(delta.part.columns, chunk) + std::min(delta.part.rows, chunk));
  return (2 * elements + 3 * chunk) * int64_t{sizeof(double)};
}

}  // namespace

Tensor average_of(std::vector<TensorPtr> all, const std::string& made) {
  Tensor out = *all.front();
  out.made += made + ";";
  out.scratch_bytes = 0;
  for (const TensorPtr& one : all) out.scratch_bytes = std::max(out.scratch_bytes, one->scratch_bytes);
  out.scratch_bytes += 3 * kElements * int64_t{sizeof(double)};
  out.on_device = average_on_device(all);
  out.read = [all = std::move(all), dtype = out.dtype](const Box& box, std::span<std::byte> dst, const Origin& origin) {
    return tensor::for_each_chunk(box, kElements, [&](const Box& part) {
      std::vector<double> sum(static_cast<size_t>(part.volume()));
      for (const TensorPtr& one : all) {
        SCALAI_ASSIGN_OR_RETURN(const std::vector<double> values,
                                read_f64(*one, part, one == all.front() ? origin : Origin()));
        for (size_t i = 0; i < sum.size(); ++i) sum[i] = step_core::plus(sum[i], values[i]);
      }
      for (double& value : sum) value = step_core::over(value, static_cast<double>(all.size()));
      const std::span<std::byte> out_bytes = dst.first(sum.size() * static_cast<size_t>(tensor::size_of(dtype)));
      from_f64(sum, dtype, out_bytes);
      dst = dst.subspan(out_bytes.size());
      return absl::OkStatus();
    });
  };
  return out;
}

Pairs::Pairs(const Lora& lora, const Other& adapter, std::vector<std::string>& problems)
    : lora_(lora), adapter_(adapter), problems_(problems) {
  if (!lora.alpha && !adapter.alpha)
    problems_.push_back(fmt::format("{} does not say alpha; lora({}, alpha=A) does", lora.adapter, lora.adapter));
  add(adapter);
  check();
}

void Pairs::add(const Other& adapter) {
  for (const Tensor& tensor : adapter.tensors) {
    std::string_view name = tensor.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    const bool is_a = name.ends_with(kA), is_b = name.ends_with(kB);
    if (!is_a && !is_b) {
      problems_.push_back(fmt::format("{}: tensor \"{}\" is no lora_A.weight or lora_B.weight, and would be lost",
                                      lora_.adapter, clipped(tensor.name, 120)));
      continue;
    }
    name.remove_suffix((is_a ? kA : kB).size());
    Pair& pair = pairs_[std::string(name) + ".weight"];
    TensorPtr& side = is_a ? pair.a : pair.b;
    if (side != nullptr)
      problems_.push_back(fmt::format("{}: \"{}\" is there twice", lora_.adapter, clipped(tensor.name, 120)));
    side = std::make_shared<const Tensor>(tensor);
  }
}

void Pairs::check() {
  for (auto at = pairs_.begin(); at != pairs_.end();) {
    const auto& [name, pair] = *at;
    std::string why;
    if (pair.a == nullptr || pair.b == nullptr) {
      why = fmt::format("has only {}", pair.a == nullptr ? "lora_B" : "lora_A");
    } else if (pair.a->shape.rank() != 2 || pair.b->shape.rank() != 2 || pair.a->shape[0] != pair.b->shape[1] ||
               pair.a->shape[0] == 0) {
      why = fmt::format("has lora_A {} and lora_B {}, whose ranks differ", pair.a->shape.str(), pair.b->shape.str());
    } else if (!check_floating(pair.a->dtype).ok() || !check_floating(pair.b->dtype).ok()) {
      why = fmt::format("has elements of {} and {}", name_of(pair.a->dtype), name_of(pair.b->dtype));
    }
    if (!why.empty()) problems_.push_back(fmt::format("{}: \"{}\" {}", lora_.adapter, clipped(name, 120), why));
    at = why.empty() ? std::next(at) : pairs_.erase(at);
  }
}

double Pairs::factor_of(const Pair& pair) const {
  const auto rank = static_cast<double>(pair.a->shape[0]);
  return lora_.alpha.value_or(adapter_.alpha.value_or(1)) / (adapter_.rank_stabilised ? std::sqrt(rank) : rank);
}

bool Pairs::has(const Tensor& tensor) const {
  const std::vector<MatrixPart> parts = parts_of(tensor);
  return std::any_of(parts.begin(), parts.end(), [&](const MatrixPart& part) { return pairs_.contains(part.name); });
}

Tensor Pairs::merged(const Tensor& tensor) {
  std::vector<Delta> deltas;
  int64_t scratch = 0;
  for (const MatrixPart& part : parts_of(tensor)) {
    const auto found = pairs_.find(part.name);
    if (found == pairs_.end()) continue;
    used_.insert(part.name);
    const Pair& pair = found->second;
    if (pair.b->shape[0] != part.rows || pair.a->shape[1] != part.columns) {
      problems_.push_back(fmt::format("{}: \"{}\" has lora_A {} and lora_B {}, the matrix is [{}, {}]", lora_.adapter,
                                      clipped(part.name, 120), pair.a->shape.str(), pair.b->shape.str(), part.rows,
                                      part.columns));
      continue;
    }
    deltas.push_back({{part, pair.a, pair.b, factor_of(pair)}});
  }
  const int64_t most = chunk_of(deltas);
  for (const Delta& delta : deltas)
    scratch = std::max(scratch, scratch_of(delta, most) + delta.a->scratch_bytes + delta.b->scratch_bytes);
  Tensor out = tensor;
  out.made += fmt::format("lora({},{});", adapter_.identity, deltas.empty() ? 0 : deltas.front().factor);
  out.scratch_bytes += scratch;
  const auto in = std::make_shared<const Tensor>(tensor);
  out.on_device = merge_on_device(in, {deltas.begin(), deltas.end()});
  out.read = [in, most, deltas = std::move(deltas)](const Box& box, std::span<std::byte> dst, const Origin& origin) {
    return tensor::for_each_chunk(box, most, [&](const Box& chunk) {
      SCALAI_ASSIGN_OR_RETURN(std::vector<double> values, read_f64(*in, chunk, origin));
      for (const Delta& delta : deltas) {
        const std::optional<Box> common = tensor::intersect(chunk, delta.part.piece.box);
        if (common) SCALAI_RETURN_IF_ERROR(delta.add(*common, chunk, values));
      }
      const std::span<std::byte> bytes = dst.first(values.size() * static_cast<size_t>(tensor::size_of(in->dtype)));
      from_f64(values, in->dtype, bytes);
      dst = dst.subspan(bytes.size());
      return absl::OkStatus();
    });
  };
  return out;
}

void Pairs::finish() {
  for (const auto& [name, pair] : pairs_) {
    if (!used_.contains(name))
      problems_.push_back(
          fmt::format("{}: no tensor has the matrix \"{}\" of a pair", lora_.adapter, clipped(name, 120)));
  }
}

}  // namespace scalai::transform::internal
