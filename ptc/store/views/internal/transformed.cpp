#include "ptc/store/views/internal/transformed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/device.h"
#include "ptc/state/transform/transform.h"
#include "ptc/store/views/internal/converted.h"
#include "ptc/store/views/transforms.h"

namespace scalai::store::internal {
namespace {

using transform::Tensor;

// Tensors one after the other, each dense and row-major, made while they are read.
class TransformedSource final : public ByteSource {
 public:
  TransformedSource(std::string name, std::string version) : name_(std::move(name)), version_(std::move(version)) {}

  int64_t add(Tensor tensor) {
    const int64_t begin = bytes_;
    bytes_ += tensor.shape.elements() * tensor::size_of(tensor.dtype);
    tensors_.push_back({begin, std::move(tensor)});
    return begin;
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return bytes_; }
  std::string version() const override { return version_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && std::ssize(dst) <= bytes_ - offset, name_);
    auto at = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                               [](int64_t place, const Placed& one) { return place < one.begin; });
    for (--at; !dst.empty(); ++at) {
      const Tensor& tensor = at->tensor;
      const int64_t begin = offset - at->begin, size = tensor.shape.elements() * tensor::size_of(tensor.dtype);
      const auto count = static_cast<size_t>(std::min(std::ssize(dst), size - begin));
      const absl::Status status = read_tensor(tensor, begin, dst.first(count));
      if (!status.ok()) return absl::Status(status.code(), fmt::format("{}: {}", name_, message_of(status)));
      offset += static_cast<int64_t>(count);
      dst = dst.subspan(count);
    }
    return absl::OkStatus();
  }

 private:
  struct Placed {
    int64_t begin = 0;
    Tensor tensor;
  };

  // Bytes from `begin` of the tensor, which may be in the middle of elements.
  static absl::Status read_tensor(const Tensor& tensor, int64_t begin, std::span<std::byte> dst) {
    const int64_t size = tensor::size_of(tensor.dtype), skip = begin % size;
    if (dst.empty()) return absl::OkStatus();
    if (skip != 0 || std::ssize(dst) % size != 0) {
      // The first or the last element in part, the others as they are.
      const int64_t few = std::min<int64_t>(skip != 0 ? size - skip : std::ssize(dst) % size, std::ssize(dst));
      const bool first = skip != 0;
      const int64_t at = first ? begin : begin + std::ssize(dst) - few;
      std::vector<std::byte> element(static_cast<size_t>(size));
      SCALAI_RETURN_IF_ERROR(read_elements(tensor, at / size, element));
      std::memcpy(first ? dst.data() : dst.data() + dst.size() - few, element.data() + at % size,
                  static_cast<size_t>(few));
      const auto rest = dst.size() - static_cast<size_t>(few);
      return first ? read_tensor(tensor, begin + few, dst.last(rest)) : read_tensor(tensor, begin, dst.first(rest));
    }
    return read_elements(tensor, begin / size, dst);
  }
  static absl::Status read_elements(const Tensor& tensor, int64_t first, std::span<std::byte> dst) {
    const int64_t size = tensor::size_of(tensor.dtype);
    for (const tensor::Box& box :
         tensor::decompose_flat(tensor::Box::whole(tensor.shape), first, first + std::ssize(dst) / size)) {
      const auto bytes = static_cast<size_t>(box.volume() * size);
      SCALAI_RETURN_IF_ERROR(tensor.read(box, dst.first(bytes), {}));
      dst = dst.subspan(bytes);
    }
    return absl::OkStatus();
  }

  const std::string name_, version_;
  std::vector<Placed> tensors_;
  int64_t bytes_ = 0;
};

// Parameters that got other values, by more than a cast, while their masters stay.
std::set<std::string> stale(const std::vector<transform::Step>& steps, const std::vector<Tensor>& tensors) {
  std::set<std::string> made, found;
  if (std::all_of(steps.begin(), steps.end(), [](const auto& step) { return step.text.find("cast(") < 1; })) return {};
  for (const Tensor& tensor : tensors)
    if (!tensor.made.empty()) made.insert(tensor.name);
  for (const Tensor& tensor : tensors) {
    const size_t dot = tensor.name.rfind(".master");
    if (tensor.made.empty() && dot != std::string::npos && made.contains(tensor.name.substr(0, dot)))
      found.insert(tensor.name);
  }
  return found;
}

// Takes the pieces of states that changed out of the files they lie in.
void take_out(const std::set<std::string>& changed, Opened& opened) {
  for (OpenedFile& file : opened.files) {
    for (OpenedTensor& tensor : file.tensors)
      std::erase_if(tensor.pieces, [&](const PlacedPiece& piece) { return changed.contains(piece.logical); });
  }
}

void say_dtype(const std::vector<LogicalState>& before, Opened& opened) {
  std::set<tensor::DType> were, are;
  const auto floating = [](const LogicalState& state) {
    return state.kind == model::StateKind::kParam && tensor::convertible(state.dtype, tensor::DType::kF32);
  };
  for (const LogicalState& state : before)
    if (floating(state)) were.insert(state.dtype);
  for (const LogicalState& state : opened.states)
    if (floating(state)) are.insert(state.dtype);
  if (were != are && are.size() == 1) say_dtype_in_config(*are.begin(), opened.info.config);
}

}  // namespace

absl::StatusOr<TransformedStates> transform_states(const std::shared_ptr<const Checkpoint>& base,
                                                   const OpenOptions& options, Opened& opened) {
  SCALAI_ASSIGN_OR_RETURN(Transformed result, transformed(base, options.transforms, options, ""));
  std::vector<Tensor>& tensors = result.tensors;
  opened.info.transforms = result.digest;
  opened.info.stale_masters = stale(options.transforms, tensors);
  std::vector<std::string> stayed;
  if (options.device != nullptr) stayed = transform::compute_on(options.device, tensors);
  const std::vector<LogicalState> before = std::move(opened.states);
  opened.states.clear();
  TransformedStates taken{.others = std::move(result.others), .bytes = base->memory_bytes()};
  if (options.device != nullptr) taken.shared_bytes = options.device->host_bytes();
  for (const auto& other : taken.others) taken.bytes += other->memory_bytes();
  std::set<std::string> changed;
  Hasher version;
  version.add(base->identity());
  for (const Tensor& tensor : tensors) version.add(tensor.name).add(tensor.made);
  const auto source = std::make_shared<TransformedSource>(opened.info.path + " (transformed)", version.hex());
  OpenedFile made{.name = "transformed", .source = source, .checksum = "", .tensors = {}, .derived = true};
  model::StateKind kind = model::StateKind::kParam;  // of a new tensor: that of the one before it, which it belongs to
  for (Tensor& tensor : tensors) {
    if (const auto found = base->find(tensor.name); found) kind = base->tensors()[*found].kind;
    opened.states.push_back({tensor.name, tensor.dtype, tensor.shape, kind});
    if (tensor.made.empty()) continue;
    changed.insert(tensor.name);
    taken.thread_bytes = std::max(taken.thread_bytes, tensor.scratch_bytes);
    const tensor::Box whole = tensor::Box::whole(tensor.shape);
    OpenedTensor stored{.name = tensor.name, .dtype = tensor.dtype, .elements = tensor.shape.elements()};
    stored.pieces = {{tensor.name, {.box = whole, .offset = 0, .strides = tensor.shape.strides()}}};
    stored.offset = source->add(std::move(tensor));
    made.tensors.push_back(std::move(stored));
  }
  take_out(changed, opened);
  opened.info.notes.push_back(fmt::format("transformed: {}{}", counted(std::ssize(changed), "tensor"),
                                          options.device == nullptr ? "" : " by " + options.device->name()));
  opened.info.notes.insert(opened.info.notes.end(), stayed.begin(), stayed.end());
  opened.files.push_back(std::move(made));
  say_dtype(before, opened);
  return taken;
}

}  // namespace scalai::store::internal
