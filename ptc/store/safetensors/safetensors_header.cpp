#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

std::string shown(const std::string& name) { return fmt::format("\"{}\"", clipped(name, 120)); }

// bytes = Π shape · size, refused beyond int64 as the reference refuses it, also when a later extent is 0.
absl::StatusOr<int64_t> bytes_of_tensor(const std::string& name, tensor::DType dtype,
                                        const std::vector<int64_t>& shape) {
  int64_t product = 1;
  bool overflow = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return invalid(fmt::format("tensor {}: negative extent {}", shown(name), extent));
    overflow = overflow || __builtin_mul_overflow(product, extent, &product);
  }
  if (overflow || __builtin_mul_overflow(product, tensor::size_of(dtype), &product)) {
    return invalid(fmt::format("tensor {}: shape [{}] has more bytes than 2^63", shown(name), fmt::join(shape, ", ")));
  }
  return product;
}

// Takes the JSON apart event by event: a header may have 100 MB, and a tree would not tell what stands in it twice.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<StoredTensor> tensors;  // offset and bytes as data_offsets say: [offset, offset + bytes) after the header
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool key(string_t& text) override {
    key_ = text;
    switch (where_) {
      case Where::kFile:
        if (text == kMetadata) return (!metadata_seen_ && (metadata_seen_ = true)) || refuse("appears twice");
        return names_.insert(text).second || refuse("appears twice");
      case Where::kTensor: return fields_.insert(text).second || refuse_field("appears twice");
      case Where::kStrings: return metadata.count(text) == 0 || refuse_field("appears twice");
      default: return refuse_value();
    }
  }
  bool start_object(size_t) override {
    switch (where_) {
      case Where::kStart: where_ = Where::kFile; return true;
      case Where::kFile:
        tensor_ = key_;
        where_ = key_ == kMetadata ? Where::kStrings : Where::kTensor;
        if (where_ == Where::kTensor) begin_tensor();
        return true;
      default: return refuse_value();
    }
  }
  bool end_object() override {
    if (where_ == Where::kTensor && !end_tensor()) return false;
    where_ = where_ == Where::kFile ? Where::kEnd : Where::kFile;
    return true;
  }
  bool start_array(size_t) override {
    if (where_ != Where::kTensor) return refuse_value();
    if (key_ == "shape") {
      where_ = Where::kShape;
    } else if (key_ == "data_offsets") {
      where_ = Where::kOffsets;
    } else {
      return refuse_value();
    }
    return true;
  }
  bool end_array() override {
    where_ = Where::kTensor;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return refuse_value();
    if (where_ == Where::kShape) {
      tensors.back().shape.push_back(static_cast<int64_t>(value));
    } else if (where_ == Where::kOffsets && offsets_.size() < 2) {
      offsets_.push_back(static_cast<int64_t>(value));
    } else {
      return refuse_value();
    }
    return true;
  }
  bool string(string_t& text) override {
    if (where_ == Where::kStrings) {
      metadata[key_] = text;
      return true;
    }
    if (where_ != Where::kTensor || key_ != "dtype") return refuse_value();
    const absl::StatusOr<tensor::DType> dtype = tensor::parse_dtype(text);
    if (!dtype.ok()) return refuse(fmt::format("unknown dtype {}", shown(text)));
    tensors.back().dtype = *dtype;
    return true;
  }
  bool null() override { return refuse_value(); }
  bool boolean(bool) override { return refuse_value(); }
  bool number_integer(number_integer_t) override { return refuse_value(); }
  bool number_float(number_float_t, const string_t&) override { return refuse_value(); }
  bool binary(binary_t&) override { return refuse_value(); }
  bool parse_error(size_t at, const std::string&, const json::exception&) override {
    if (problem.empty())
      problem = fmt::format("the header is not JSON: byte {} of it (syntax, encoding or number)", at);
    return false;
  }

 private:
  enum class Where : uint8_t { kStart, kFile, kStrings, kTensor, kShape, kOffsets, kEnd };

  bool refuse(const std::string& what) {
    const std::string& name = where_ == Where::kFile ? key_ : tensor_;
    problem = fmt::format("{}{}: {}", name == kMetadata ? "" : "tensor ", shown(name), what);
    return false;
  }
  bool refuse_field(const std::string& what) { return refuse(fmt::format("{} {}", shown(key_), what)); }
  bool refuse_value() {
    if (where_ == Where::kStart || where_ == Where::kEnd) {
      problem = "the header is not a JSON object";
      return false;
    }
    if (where_ == Where::kFile) return refuse("is not an object");
    return refuse_field("is no field or value of the format");
  }
  void begin_tensor() {
    tensors.push_back({.name = tensor_, .dtype = {}, .shape = {}});
    fields_.clear();
    offsets_.clear();
  }
  bool end_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) return refuse(fmt::format("\"{}\" is missing", field));
    }
    if (offsets_.size() != 2 || offsets_[1] < offsets_[0]) return refuse("data_offsets are not [begin, end]");
    tensors.back().offset = offsets_[0];
    tensors.back().bytes = offsets_[1] - offsets_[0];
    return true;
  }

  Where where_ = Where::kStart;
  std::string key_;
  std::string tensor_;
  bool metadata_seen_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> fields_;
  std::vector<int64_t> offsets_;
};

// Sizes and places; the tensors are sorted. `begin` is where the data lies in the file, `end` where it ends.
absl::Status place_tensors(std::vector<StoredTensor>& tensors, int64_t begin, int64_t end) {
  int64_t at = 0;
  for (StoredTensor& stored : tensors) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t bytes, bytes_of_tensor(stored.name, stored.dtype, stored.shape));
    if (stored.bytes != bytes) {
      return invalid(fmt::format("tensor {}: {} [{}] has {} bytes, but data_offsets give it {}", shown(stored.name),
                                 tensor::name_of(stored.dtype), fmt::join(stored.shape, ", "), bytes, stored.bytes));
    }
    if (stored.offset != at) {
      return invalid(fmt::format("tensor {}: its data begins at {}, but the data before it ends at {}: {}",
                                 shown(stored.name), stored.offset, at, stored.offset < at ? "an overlap" : "a hole"));
    }
    if (bytes > end - begin - at) {
      return invalid(fmt::format("tensor {}: its data ends at byte {}, but the file has {} bytes", shown(stored.name),
                                 begin + at + bytes, end));
    }
    stored.offset += begin;
    at += bytes;
  }
  if (at != end - begin) return invalid(fmt::format("the tensors end at byte {} of {} in the file", begin + at, end));
  return absl::OkStatus();
}

// The reference sorts by its list of dtypes, which grows with alignment but puts F8_E5M2 before F8_E4M3.
int place_in_format(tensor::DType dtype) {
  using enum tensor::DType;
  static constexpr std::array kOrder = {kBool, kU8,  kI8,  kF8E5M2, kF8E4M3, kI16, kU16, kF16,
                                        kBF16, kI32, kU32, kF32,    kF64,    kI64, kU64};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

std::string in_json(const std::string& text) { return json_text(json(text)); }

bool is_utf8(const std::string& text) {
  std::string in_quotes = "\"";
  for (const char c : text) {
    // Escaped in JSON, so not what is in question here.
    in_quotes += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json::accept(in_quotes + "\"");
}

std::string header_json(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    std::string fields;
    for (const auto& entry : header.metadata) {
      fields += fmt::format("{}{}:{}", fields.empty() ? "" : ",", in_json(entry.first), in_json(entry.second));
    }
    text += fmt::format("\"{}\":{{{}}}", kMetadata, fields);
  }
  for (const StoredTensor& stored : header.tensors) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", text.size() > 1 ? "," : "",
                        in_json(stored.name), tensor::name_of(stored.dtype), fmt::join(stored.shape, ","),
                        stored.offset, stored.offset + stored.bytes);
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

absl::Status check_names(const std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::unordered_set<std::string> names;
  for (const StoredTensor& stored : tensors) {
    const bool reserved = stored.name == kMetadata;
    if (reserved || !is_utf8(stored.name)) {
      return invalid(fmt::format("tensor {}: {}", shown(stored.name), reserved ? "a reserved name" : "not UTF-8"));
    }
    if (!names.insert(stored.name).second) return invalid(fmt::format("tensor {} appears twice", shown(stored.name)));
  }
  for (const auto& entry : metadata) {
    if (!is_utf8(entry.first) || !is_utf8(entry.second)) {
      return invalid(fmt::format("metadata {}: not UTF-8", shown(entry.first)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> parse_safetensors_header(std::string_view json_bytes, int64_t file_bytes) {
  if (json_bytes.empty() || json_bytes.front() != '{') return invalid("the header does not begin with \"{\"");
  HeaderReader reader;
  if (!json::sax_parse(json_bytes.begin(), json_bytes.end(), &reader)) return invalid(reader.problem);
  SafetensorsHeader header;
  header.tensors = std::move(reader.tensors);
  header.metadata = std::move(reader.metadata);
  header.data_begin = 8 + static_cast<int64_t>(json_bytes.size());
  header.file_bytes = file_bytes;
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  SCALAI_RETURN_IF_ERROR(place_tensors(header.tensors, header.data_begin, file_bytes));
  return header;
}

absl::StatusOr<EncodedHeader> encode_safetensors_header(std::vector<TensorSpec> specs,
                                                        std::map<std::string, std::string> metadata) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int place_a = place_in_format(a.dtype);
    const int place_b = place_in_format(b.dtype);
    return place_a != place_b ? place_a > place_b : a.name < b.name;
  });
  EncodedHeader encoded;
  SafetensorsHeader& header = encoded.header;
  header.metadata = std::move(metadata);
  int64_t at = 0;
  for (TensorSpec& spec : specs) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t bytes, bytes_of_tensor(spec.name, spec.dtype, spec.shape));
    header.tensors.push_back({std::move(spec.name), spec.dtype, std::move(spec.shape), at, bytes});
    if (__builtin_add_overflow(at, bytes, &at) || at > std::numeric_limits<int64_t>::max() - 2 * kMaxHeaderBytes) {
      return invalid("the tensors of the file together have more than 2^63 bytes");
    }
  }
  SCALAI_RETURN_IF_ERROR(check_names(header.tensors, header.metadata));
  const std::string text = header_json(header);
  if (static_cast<int64_t>(text.size()) > kMaxHeaderBytes) {
    return invalid(fmt::format("{} tensors need a header of {} bytes; the format allows {}: use more files",
                               header.tensors.size(), text.size(), kMaxHeaderBytes));
  }
  for (size_t i = 0; i < 8; ++i) encoded.bytes += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  encoded.bytes += text;
  header.data_begin = static_cast<int64_t>(encoded.bytes.size());
  header.file_bytes = header.data_begin + at;
  for (StoredTensor& stored : header.tensors) stored.offset += header.data_begin;
  return encoded;
}

}  // namespace scalai::store
