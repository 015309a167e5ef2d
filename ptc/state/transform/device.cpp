#include "ptc/state/transform/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/box_chunks.h"

namespace scalai::transform {
namespace {

// Elements of the origin that are read in whole, whatever is asked for.
int64_t row_elements(const Tensor& tensor) {
  const Shape& origin = tensor.on_device->origin;
  int64_t elements = 1;
  for (int dim = origin.rank() - std::min(tensor.whole_dims, origin.rank()); dim < origin.rank(); ++dim)
    elements *= origin[dim];
  return std::max<int64_t>(elements, 1);
}

// Calls queue(chunk, part, address) when a part is on its way, and what that gave when it is there: while the device
// works at one chunk, the host fills the other.
using WhenDone = std::function<absl::Status()>;
using Queue = std::function<absl::StatusOr<WhenDone>(Chunk& chunk, const Box& part, std::byte* address)>;
class Making {
 public:
  Making(Device& device, const Tensor& tensor, const Origin& origin, const Queue& queue)
      : device_(device), tensor_(tensor), origin_(origin), queue_(queue) {}

  absl::Status make(const Box& box) {
    SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<ChunkPair> pair, device_.lend());
    const OnDevice& how = *tensor_.on_device;
    const int64_t fit = (device_.chunk_bytes() - how.fixed_bytes) / how.element_bytes, row = row_elements(tensor_);
    SCALAI_CHECK(fit >= row, tensor_.name);
    int next = 0;
    const auto part_of = [&](const Box& in_origin) {
      const std::optional<Box> part = tensor::intersect(box_of_origin(tensor_, in_origin), box);
      SCALAI_CHECK(part.has_value(), in_origin.str());
      const auto number = static_cast<size_t>(next++ % 2);
      SCALAI_RETURN_IF_ERROR(complete(pair->chunk(static_cast<int>(number)), number));
      return begin(pair->chunk(static_cast<int>(number)), *part, number);
    };
    const absl::Status all = tensor::for_each_chunk(box_in_origin(tensor_, how.origin, box), fit, part_of);
    SCALAI_RETURN_IF_ERROR(all);
    for (int i = 0; i < 2; ++i, ++next) {  // the older one first
      const auto number = static_cast<size_t>(next % 2);
      SCALAI_RETURN_IF_ERROR(complete(pair->chunk(static_cast<int>(number)), number));
    }
    return absl::OkStatus();
  }

 private:
  struct UnderWay {
    Box part;
    std::vector<std::function<bool()>> checks;
    WhenDone done;
  };

  absl::Status begin(Chunk& chunk, const Box& part, size_t number) {
    Run run{chunk, origin_};
    SCALAI_ASSIGN_OR_RETURN(std::byte* const address, tensor_.on_device->make(part, run));
    SCALAI_ASSIGN_OR_RETURN(WhenDone done, queue_(chunk, part, address));
    under_way_[number] = UnderWay{part, std::move(run.checks), std::move(done)};
    return absl::OkStatus();
  }
  absl::Status complete(Chunk& chunk, size_t number) {
    std::optional<UnderWay>& one = under_way_[number];
    if (!one) return absl::OkStatus();
    SCALAI_RETURN_IF_ERROR(chunk.finish());
    for (const auto& check : one->checks) {
      if (!check()) return error_of_host(one->part);
    }
    SCALAI_RETURN_IF_ERROR(one->done());
    chunk.clear();
    one.reset();
    return absl::OkStatus();
  }
  // The steps of the host have the words for it.
  absl::Status error_of_host(const Box& part) const {
    std::vector<std::byte> bytes(static_cast<size_t>(part.volume() * tensor::size_of(tensor_.dtype)));
    SCALAI_RETURN_IF_ERROR(tensor_.read(part, bytes, origin_));
    return absl::InternalError(
        fmt::format("tensor \"{}\" box {}: {} refuses what the host makes", tensor_.name, part.str(), device_.name()));
  }

  Device& device_;
  const Tensor& tensor_;  // with the host's read
  const Origin& origin_;
  const Queue& queue_;
  std::array<std::optional<UnderWay>, 2> under_way_;
};

absl::Status read_on(Device& device, const Tensor& tensor, const Box& box, std::span<std::byte> dst,
                     const Origin& origin) {
  const Queue queue = [&](Chunk& chunk, const Box& part, std::byte* address) -> absl::StatusOr<WhenDone> {
    const int64_t bytes = part.volume() * tensor::size_of(tensor.dtype);
    std::byte* const host = chunk.host(bytes);
    SCALAI_RETURN_IF_ERROR(chunk.copy_down(host, address, bytes));
    const std::span<std::byte> to = dst.first(static_cast<size_t>(bytes));  // parts come in the order of the box
    dst = dst.subspan(to.size());
    return WhenDone([host, to] {
      std::memcpy(to.data(), host, to.size());
      return absl::OkStatus();
    });
  };
  return Making(device, tensor, origin, queue).make(box);
}

}  // namespace

absl::Status check_fits(const Tensor& tensor, int64_t chunk_bytes) {
  if (tensor.on_device == nullptr) return invalid("has a step of users last");
  const OnDevice& how = *tensor.on_device;
  const int64_t row = row_elements(tensor);
  int64_t needed = 0;
  if (__builtin_mul_overflow(row, how.element_bytes, &needed) ||
      __builtin_add_overflow(needed, how.fixed_bytes, &needed) || needed > chunk_bytes)
    return invalid(fmt::format("needs more than a chunk of {}: {} for each of {}, and {} beside them",
                               format_bytes(chunk_bytes), format_bytes(how.element_bytes), counted(row, "element"),
                               format_bytes(how.fixed_bytes)));
  return absl::OkStatus();
}

absl::Status make_on(Device& device, const Tensor& tensor, const Box& box, const Origin& origin, const TakePart& take) {
  const Queue queue = [&](Chunk&, const Box& part, std::byte* address) -> absl::StatusOr<WhenDone> {
    return WhenDone([&take, part, address] { return take(part, address); });
  };
  return Making(device, tensor, origin, queue).make(box);
}

std::vector<std::string> compute_on(const std::shared_ptr<Device>& device, std::span<Tensor> tensors) {
  struct Some {
    int64_t count = 0;
    std::string first;
  };
  std::map<std::string, Some> stayed;  // by reason
  for (Tensor& tensor : tensors) {
    if (tensor.made.empty()) continue;
    if (const absl::Status fits = check_fits(tensor, device->chunk_bytes()); !fits.ok()) {
      Some& some = stayed[message_of(fits)];
      if (some.count++ == 0) some.first = tensor.name;
      continue;
    }
    tensor.read = [device, host = tensor](const Box& box, std::span<std::byte> dst, const Origin& origin) {
      return read_on(*device, host, box, dst, origin);
    };
  }
  std::vector<std::string> lines;
  for (const auto& [why, some] : stayed)
    lines.push_back(fmt::format("computed on the host: {}, such as \"{}\", which {}", counted(some.count, "tensor"),
                                clipped(some.first, 120), why));
  return lines;
}

}  // namespace scalai::transform
