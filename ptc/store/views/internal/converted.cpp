#include "ptc/store/views/internal/converted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::store::internal {
namespace {

using tensor::DType;

bool is_8_bits(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

// A factor for each block of a matrix.
struct Factors {
  ByteSourcePtr source;  // float32, row-major
  int64_t offset = 0;
  int64_t columns = 0;  // of the matrix
  int64_t block_rows = 1, block_columns = 1;
};

struct Converted {
  int64_t begin = 0;  // in the new file
  int64_t elements = 0;
  int64_t offset = 0;  // in the stored one
  DType from = DType::kF32, to = DType::kF32;
  std::optional<Factors> factors;
};

absl::Status scale(const Factors& factors, int64_t first, std::span<float> values) {
  const int64_t in_row = (factors.columns + factors.block_columns - 1) / factors.block_columns;
  std::vector<float> row(static_cast<size_t>(in_row));
  int64_t loaded = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = first + static_cast<int64_t>(i);
    const int64_t block_row = at / factors.columns / factors.block_rows;
    if (block_row != loaded) {
      SCALAI_RETURN_IF_ERROR(factors.source->read(factors.offset + block_row * in_row * int64_t{sizeof(float)},
                                                  std::as_writable_bytes(std::span(row))));
      loaded = block_row;
    }
    values[i] *= row[static_cast<size_t>(at % factors.columns / factors.block_columns)];
  }
  return absl::OkStatus();
}

class ConvertedSource final : public ByteSource {
 public:
  explicit ConvertedSource(ByteSourcePtr stored) : stored_(std::move(stored)) {}

  // The place of the tensor in this source.
  int64_t add(Converted tensor) {
    tensor.begin = bytes_;
    bytes_ += tensor.elements * tensor::size_of(tensor.to);
    version_ += fmt::format("{}>{}{};", name_of(tensor.from), name_of(tensor.to), tensor.factors ? "*" : "");
    tensors_.push_back(std::move(tensor));
    return tensors_.back().begin;
  }

  const std::string& name() const override { return stored_->name(); }
  int64_t size() const override { return bytes_; }
  std::string version() const override {
    const std::string version = stored_->version();
    return version.empty() ? version : version + version_;
  }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && std::ssize(dst) <= bytes_ - offset, name());
    auto tensor = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                                   [](int64_t at, const Converted& each) { return at < end_of(each); });
    while (!dst.empty()) {
      const int64_t count = std::min(std::ssize(dst), end_of(*tensor) - offset);
      SCALAI_RETURN_IF_ERROR(read_tensor(*tensor, offset - tensor->begin, dst.first(static_cast<size_t>(count))));
      dst = dst.subspan(static_cast<size_t>(count));
      offset += count;
      ++tensor;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kElements = int64_t{1} << 16;  // at once

  static int64_t end_of(const Converted& tensor) { return tensor.begin + tensor.elements * tensor::size_of(tensor.to); }

  // Bytes from `begin` of the tensor, which may be in the middle of elements.
  absl::Status read_tensor(const Converted& tensor, int64_t begin, std::span<std::byte> dst) const {
    thread_local std::vector<std::byte> in, out;
    const int64_t size = tensor::size_of(tensor.to), stored = tensor::size_of(tensor.from);
    while (!dst.empty()) {
      const int64_t first = begin / size, skip = begin % size;
      const int64_t last = std::min((begin + std::ssize(dst) + size - 1) / size, first + kElements);
      in.resize(static_cast<size_t>((last - first) * stored));
      out.resize(static_cast<size_t>((last - first) * size));
      SCALAI_RETURN_IF_ERROR(stored_->read(tensor.offset + first * stored, in));
      SCALAI_RETURN_IF_ERROR(convert(tensor, first, last - first, in, out));
      const auto count = static_cast<size_t>(std::min(std::ssize(dst), std::ssize(out) - skip));
      std::memcpy(dst.data(), out.data() + skip, count);
      dst = dst.subspan(count);
      begin += static_cast<int64_t>(count);
    }
    return absl::OkStatus();
  }

  static absl::Status convert(const Converted& tensor, int64_t first, int64_t count, std::span<const std::byte> in,
                              std::span<std::byte> out) {
    if (!tensor.factors) {
      tensor::convert(tensor.from, tensor.to, count, in.data(), out.data());
      return absl::OkStatus();
    }
    std::vector<float> values(static_cast<size_t>(count));
    auto* const bytes = reinterpret_cast<std::byte*>(values.data());
    tensor::convert(tensor.from, DType::kF32, count, in.data(), bytes);
    SCALAI_RETURN_IF_ERROR(scale(*tensor.factors, first, values));
    tensor::convert(DType::kF32, tensor.to, count, bytes, out.data());
    return absl::OkStatus();
  }

  ByteSourcePtr stored_;
  std::vector<Converted> tensors_;  // by begin
  int64_t bytes_ = 0;
  std::string version_;
};

struct Choice {
  DType dtype = DType::kF32;
  std::optional<Factors> factors;
};

// Moves the pieces of tensors that `chosen` chooses into files of what they become.
template <class Chosen>
void replace(Opened& opened, const Chosen& chosen) {
  std::vector<OpenedFile> made;
  for (OpenedFile& file : opened.files) {
    auto source = std::make_shared<ConvertedSource>(file.source);
    OpenedFile converted{.name = file.name, .source = source, .checksum = "", .tensors = {}, .derived = true};
    for (OpenedTensor& tensor : file.tensors) {
      if (tensor.pieces.empty()) continue;
      std::optional<Choice> choice = chosen(tensor);
      if (!choice) continue;
      const int64_t at = source->add({.elements = tensor.elements,
                                      .offset = tensor.offset,
                                      .from = tensor.dtype,
                                      .to = choice->dtype,
                                      .factors = std::move(choice->factors)});
      converted.tensors.push_back({.name = tensor.name,
                                   .dtype = choice->dtype,
                                   .offset = at,
                                   .elements = tensor.elements,
                                   .alias = tensor.alias,
                                   .pieces = std::move(tensor.pieces)});
      tensor.pieces.clear();
    }
    if (!converted.tensors.empty()) made.push_back(std::move(converted));
  }
  for (OpenedFile& file : made) opened.files.push_back(std::move(file));
}

// What transformers calls them.
std::string_view config_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    case DType::kF64: return "float64";
    default: return "float32";
  }
}

// dtype: of the parameters. Quantisation is taken out when it is undone.
void edit_config(std::optional<DType> dtype, bool quantised, std::string& config) {
  if (config.empty()) return;
  absl::StatusOr<nlohmann::json> read = read_json(config);
  if (!read.ok() || !read->is_object()) return;  // told by who reads the model of it
  nlohmann::json& document = *read;
  if (quantised) document.erase("quantization_config");
  bool changed = quantised;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!dtype || !document.contains(key) || document[key] == config_name(*dtype)) continue;
    document[key] = config_name(*dtype);
    changed = true;
  }
  if (changed) config = json_text(document, {.indent = 2}) + "\n";
}

}  // namespace

void convert_states(const std::map<model::StateKind, DType>& dtypes, Opened& opened) {
  std::map<std::string_view, const LogicalState*> states;
  for (const LogicalState& state : opened.states) states[state.name] = &state;
  const auto wanted = [&](const LogicalState& state) -> std::optional<DType> {
    const auto found = dtypes.find(state.kind);
    const bool changes =
        found != dtypes.end() && found->second != state.dtype && tensor::convertible(state.dtype, found->second);
    return changes ? std::optional(found->second) : std::nullopt;
  };
  replace(opened, [&](const OpenedTensor& tensor) -> std::optional<Choice> {
    const auto found = states.find(tensor.pieces.front().logical);
    if (found == states.end() || found->second->dtype != tensor.dtype) return std::nullopt;  // told by who indexes it
    const std::optional<DType> dtype = wanted(*found->second);
    return dtype ? std::optional(Choice{*dtype, {}}) : std::nullopt;
  });
  for (LogicalState& state : opened.states) state.dtype = wanted(state).value_or(state.dtype);
  const auto params = dtypes.find(model::StateKind::kParam);
  if (params != dtypes.end()) edit_config(params->second, false, opened.info.config);
}

void say_dtype_in_config(DType dtype, std::string& config) { edit_config(dtype, false, config); }

absl::StatusOr<BlockScales> BlockScales::of_config(const std::string& config) {
  BlockScales scales;
  if (config.empty()) return scales;
  const absl::StatusOr<nlohmann::json> document = read_json(config);
  if (!document.ok() || !document->is_object()) return scales;  // told by who reads the model of it
  const auto quantisation = document->find("quantization_config");
  if (quantisation == document->end() || !quantisation->is_object()) return scales;
  const auto said = quantisation->find("quant_method");
  const std::string method = said != quantisation->end() && said->is_string() ? said->get<std::string>() : "";
  if (method != "fp8")
    return invalid(
        fmt::format("config.json: /quantization_config/quant_method: weights of {} are not read here; of "
                    "quantised ones only \"fp8\" with scales of blocks are",
                    method.empty() ? "an unknown method" : "\"" + clipped(method, 40) + "\""));
  const auto block = quantisation->find("weight_block_size");
  const bool pair = block != quantisation->end() && block->is_array() && block->size() == 2 &&
                    (*block)[0].is_number_unsigned() && (*block)[1].is_number_unsigned();
  if (!pair || (*block)[0] == 0 || (*block)[1] == 0 || (*block)[0] > 1 << 20 || (*block)[1] > 1 << 20)
    return invalid("config.json: /quantization_config/weight_block_size: is not two sizes; scales are read by blocks");
  scales.block_ = {(*block)[0].get<int64_t>(), (*block)[1].get<int64_t>()};
  return scales;
}

absl::Status BlockScales::take(DType dtype, const Opened& opened, std::vector<FoundFile>& found) {
  constexpr std::string_view kSuffix = "_scale_inv";
  if (block_.empty()) return absl::OkStatus();
  dtype_ = dtype;
  std::map<std::string, FoundTensor*> by_name;
  for (FoundFile& file : found) {
    for (FoundTensor& tensor : file.tensors) by_name[tensor.name] = &tensor;
  }
  ProblemList problems;
  for (size_t f = 0; f < found.size(); ++f) {
    for (size_t t = 0; t < found[f].tensors.size(); ++t) {
      const FoundTensor& tensor = found[f].tensors[t];
      if (!tensor.name.ends_with(kSuffix)) continue;
      const auto weight = by_name.find(tensor.name.substr(0, tensor.name.size() - kSuffix.size()));
      const std::vector<int64_t> none;
      const std::vector<int64_t>& shape = weight == by_name.end() ? none : weight->second->shape;
      const auto blocks = [&](size_t dim) { return (shape[dim] + block_[dim] - 1) / block_[dim]; };
      if (shape.size() != 2 || shape[1] == 0 || tensor.dtype != DType::kF32 || !is_8_bits(weight->second->dtype) ||
          tensor.shape != std::vector<int64_t>{blocks(0), blocks(1)}) {
        problems.add(fmt::format("{}: \"{}\" is no scale of a weight in blocks of {} x {}", found[f].name,
                                 clipped(tensor.name, 120), block_[0], block_[1]));
        continue;
      }
      by_weight_[weight->first] = {opened.files[f].source, opened.files[f].tensors[t].offset, shape[0], shape[1]};
      weight->second->dtype = dtype;
    }
  }
  for (const FoundFile& file : found) {
    for (const FoundTensor& tensor : file.tensors) {
      if (is_8_bits(tensor.dtype) && !tensor.name.ends_with(kSuffix))
        problems.add(fmt::format("{}: \"{}\" is in 8 bits and has no scale", file.name, clipped(tensor.name, 120)));
    }
  }
  for (FoundFile& file : found)
    std::erase_if(file.tensors, [&](const FoundTensor& tensor) { return tensor.name.ends_with(kSuffix); });
  return problems.status();
}

void BlockScales::apply(Opened& opened) const {
  if (block_.empty()) return;
  replace(opened, [&](const OpenedTensor& tensor) -> std::optional<Choice> {
    const auto found = by_weight_.find(tensor.name);
    if (found == by_weight_.end()) return std::nullopt;
    const Scale& scale = found->second;
    return Choice{dtype_, Factors{scale.source, scale.offset, scale.columns, block_[0], block_[1]}};
  });
  opened.info.notes.push_back(fmt::format("{} weights in 8 bits are read as {}: each times the scale of its block",
                                          by_weight_.size(), name_of(dtype_)));
  edit_config(dtype_, true, opened.info.config);
}

}  // namespace scalai::store::internal
