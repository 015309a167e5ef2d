#include "ptc/store/torch/torch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/torch/internal/torch_values.h"
#include "ptc/store/torch/pickle.h"
#include "ptc/store/torch/zip.h"

namespace scalai::store {
namespace {

using internal::dtype_of;
using internal::numbers_of;
using tensor::DType;
using Kind = PickleValue::Kind;

constexpr int64_t kMostPickleBytes = int64_t{1} << 28;
constexpr int kMostDepth = 64;
constexpr int64_t kMostVisits = int64_t{1} << 24;

constexpr size_t kMostName = 160;   // that is shown
constexpr size_t kMostPath = 4096;  // that is read

class TensorFinder {
 public:
  TensorFinder(const ByteSource& source, const std::vector<ZipEntry>& entries, std::string folder)
      : source_(source), folder_(std::move(folder)) {
    for (const ZipEntry& entry : entries) entries_[entry.name] = &entry;
  }

  void visit(const PickleValue& value, const std::string& path, int depth) {
    // Lists that share lists can be more than anyone can visit.
    if (++visits_ == kMostVisits) problem(path, "is one of too many");
    if (visits_ >= kMostVisits) return;
    if (depth > kMostDepth) return problem(path, "is nested too deeply");
    if (path.size() > kMostPath) return problem(path, "has too long a name");
    switch (value.kind) {
      case Kind::kDict: return visit_pairs(value, path, depth);
      case Kind::kList:
      case Kind::kTuple:
        for (size_t i = 0; i < value.items.size(); ++i)
          visit(*value.items[i], joined(path, fmt::format("{}", i)), depth + 1);
        return;
      case Kind::kCall: return visit_call(value, path, depth);
      default: return;
    }
  }

  // By offset.
  std::vector<SummedStorage> sums() const {
    std::vector<SummedStorage> sums;
    for (const ZipEntry* const entry : storages_) {
      if (entry->crc != 0) sums.push_back({entry->offset, entry->bytes, fmt::format("{:08x}", entry->crc)});
    }
    std::sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return sums;
  }

  absl::StatusOr<std::vector<StoredTensor>> take() && {
    if (!problems_.empty()) {
      if (more_ > 0) problems_.push_back(fmt::format("… and {} more", more_));
      return invalid(fmt::format("{}", fmt::join(problems_, "\n")));
    }
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return std::move(tensors_);
  }

 private:
  static std::string joined(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  void problem(const std::string& path, std::string_view text) {
    if (problems_.size() >= internal::kMostProblems) {
      ++more_;
      return;
    }
    problems_.push_back(fmt::format("{}: tensor \"{}\" {}", source_.name(), clipped(path, kMostName), text));
  }

  void visit_pairs(const PickleValue& value, const std::string& path, int depth) {
    for (const auto& [key, each] : value.pairs) {
      const std::string name = key->kind == Kind::kText  ? key->text
                               : key->kind == Kind::kInt ? fmt::format("{}", key->number)
                                                         : "?";
      visit(*each, joined(path, name), depth + 1);
    }
  }

  void visit_call(const PickleValue& value, const std::string& path, int depth) {
    const std::string& callee = value.callee->text;
    if (callee == "collections.OrderedDict" || callee == "collections.defaultdict")
      return visit_pairs(value, path, depth);
    if (callee == "torch._utils._rebuild_parameter" || callee == "torch._utils._rebuild_parameter_with_state") {
      if (value.items.empty()) return problem(path, "is damaged");
      return visit(*value.items.front(), path, depth + 1);
    }
    if (callee == "torch._utils._rebuild_tensor_v2" || callee == "torch._utils._rebuild_tensor_v3")
      return add(value, path, callee.ends_with("v3"));
    if (callee == "torch._tensor._rebuild_from_type_v2" && is_plain(value)) return visit_typed(value, path, depth);
    if (callee.starts_with("torch.") && (callee.find("rebuild") != std::string::npos || callee.ends_with(".DTensor")))
      problem(path, fmt::format("is not dense: {}", clipped(callee, 80)));
  }

  // (function, type, arguments, attributes) of a tensor that somebody has given attributes; other types have their own
  // form.
  static bool is_plain(const PickleValue& value) {
    return value.items.size() == 4 && value.items[0]->kind == Kind::kName && value.items[2]->kind == Kind::kTuple &&
           (value.items[1]->text == "torch.Tensor" || value.items[1]->text == "torch.nn.parameter.Parameter");
  }
  void visit_typed(const PickleValue& value, const std::string& path, int depth) {
    PickleValue call;
    call.kind = Kind::kCall;
    call.callee = value.items[0];
    call.items = value.items[2]->items;
    visit(call, path, depth + 1);
  }

  static bool is_nothing(const PickleValue& value) {
    return value.kind == Kind::kNone || (value.kind == Kind::kDict && value.pairs.empty());
  }

  // (storage, offset, size, stride, requires_grad, hooks[, dtype][, {"neg": True}])
  void add(const PickleValue& value, const std::string& path, bool has_dtype) {
    const auto& arguments = value.items;
    if (arguments.size() < (has_dtype ? 7U : 4U) || arguments[0]->kind != Kind::kPersistent ||
        arguments[1]->kind != Kind::kInt)
      return problem(path, "is damaged");
    const auto shape = numbers_of(*arguments[2]);
    const auto strides = numbers_of(*arguments[3]);
    // ("storage", class, key, device, elements)
    const PickleValue& id = *arguments[0]->items.front();
    if (!shape || !strides || shape->size() != strides->size() || id.kind != Kind::kTuple || id.items.size() < 5 ||
        id.items[0]->text != "storage" || id.items[2]->kind != Kind::kText)
      return problem(path, "is damaged");
    const size_t metadata = has_dtype ? 7 : 6;
    if (arguments.size() > metadata && !is_nothing(*arguments[metadata]))
      return problem(path, "has a sign or a conjugation that is applied when it is loaded");
    const std::string& type = has_dtype ? arguments[6]->text : id.items[1]->text;
    const std::optional<DType> dtype = dtype_of(type);
    if (!dtype) return problem(path, fmt::format("is of {}, which safetensors has not", clipped(type, 80)));
    place(path, *dtype, *shape, *strides, arguments[1]->number, id.items[2]->text);
  }

  void place(const std::string& path, DType dtype, const std::vector<int64_t>& shape,
             const std::vector<int64_t>& strides, int64_t first, const std::string& key) {
    int64_t elements = std::find(shape.begin(), shape.end(), 0) == shape.end() ? 1 : 0;
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (shape[dim] < 0 || (shape[dim] > 0 && elements > source_.size() / shape[dim]))
        return problem(path, "is beyond its storage");
      if (elements > 0 && shape[dim] > 1 && strides[dim] != elements)
        return problem(path, "is not contiguous; torch_to_safetensors.py makes it so");
      elements *= shape[dim];
    }
    const auto entry = entries_.find(folder_ + "data/" + key);
    if (entry == entries_.end())
      return problem(path, fmt::format("is in storage \"{}\", which is not there", clipped(key, 40)));
    const int64_t size = tensor::size_of(dtype), held = entry->second->bytes / size;
    if (first < 0 || first > held - elements) return problem(path, "is beyond its storage");
    tensors_.push_back({path, dtype, shape, entry->second->offset + first * size, elements * size});
    storages_.insert(entry->second);
  }

  const ByteSource& source_;
  std::string folder_;
  std::map<std::string, const ZipEntry*> entries_;
  std::vector<StoredTensor> tensors_;
  std::set<const ZipEntry*> storages_;  // that tensors lie in
  std::vector<std::string> problems_;
  size_t more_ = 0;
  int64_t visits_ = 0;
};

absl::StatusOr<std::string> read_entry(const ByteSource& source, const ZipEntry& entry) {
  if (entry.bytes > kMostPickleBytes) return invalid(fmt::format("{}: its pickle is too large", source.name()));
  std::string text(static_cast<size_t>(entry.bytes), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(entry.offset, std::as_writable_bytes(std::span(text))));
  if (entry.crc != 0 && Checksum(ChecksumKind::kCrc32).add(bytes_of(text)).hex() != fmt::format("{:08x}", entry.crc))
    return invalid(fmt::format("{}: \"{}\": the bytes do not have the checksum of the archive: the file is damaged",
                               source.name(), clipped(entry.name, 80)));
  return text;
}

}  // namespace

bool has_torch_ending(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
}

absl::Status check_torch_file(const ByteSource& source) {
  SCALAI_ASSIGN_OR_RETURN(const bool zip, is_zip(source));
  if (!zip) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, zip_entries(source));
  for (const ZipEntry& entry : entries) SCALAI_RETURN_IF_ERROR(read_entry(source, entry).status());
  return absl::OkStatus();
}

absl::StatusOr<TorchFile> read_torch_file(const ByteSource& source) {
  SCALAI_ASSIGN_OR_RETURN(const bool zip, is_zip(source));
  if (!zip)
    return invalid(
        fmt::format("{}: not a file of torch.save as of torch 1.6 (a zip archive); torch_to_safetensors.py reads "
                    "older ones",
                    source.name()));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, zip_entries(source));
  constexpr std::string_view kPickle = "data.pkl";
  const auto pickled = std::find_if(entries.begin(), entries.end(), [&](const ZipEntry& entry) {
    return entry.name == kPickle || entry.name.ends_with("/data.pkl");
  });
  if (pickled == entries.end())
    return invalid(fmt::format("{}: no file of torch.save: it has no data.pkl", source.name()));
  const std::string folder = pickled->name.substr(0, pickled->name.size() - kPickle.size());
  for (const ZipEntry& entry : entries) {
    if (entry.name != folder + "byteorder") continue;
    SCALAI_ASSIGN_OR_RETURN(const std::string order, read_entry(source, entry));
    if (order != "little") return invalid(fmt::format("{}: its numbers have their high byte first", source.name()));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_entry(source, *pickled));
  absl::StatusOr<Pickle> pickle = Pickle::read(text);
  if (!pickle.ok()) return invalid(fmt::format("{}: {}", source.name(), message_of(pickle.status())));
  TensorFinder finder(source, entries, folder);
  finder.visit(pickle->root(), "", 0);
  TorchFile file;
  file.sums = finder.sums();
  SCALAI_ASSIGN_OR_RETURN(file.tensors, std::move(finder).take());
  const PickleValue* const iteration = pickle->root().find("iteration");
  if (iteration != nullptr && iteration->kind == Kind::kInt) file.iteration = iteration->number;
  return file;
}

}  // namespace scalai::store
