#include "ptc/store/views/internal/held_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/internal/known_model.h"

namespace scalai::store::internal {
namespace {

// The boxes of one rank, one after the other.
class HeldFile final : public ByteSource {
 public:
  struct Entry {
    OwnedBox owned;
    int64_t element_bytes = 1;
    int64_t offset = 0;  // of its first byte
    int64_t bytes() const { return owned.box.volume() * element_bytes; }
  };

  HeldFile(std::shared_ptr<const HeldState> held, std::string name) : held_(std::move(held)), name_(std::move(name)) {}
  const Entry& add(const OwnedBox& owned, int64_t element_bytes) {
    entries_.push_back({owned, element_bytes, size_});
    size_ += entries_.back().bytes();
    return entries_.back();
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  std::string version() const override { return held_->id; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

 private:
  std::shared_ptr<const HeldState> held_;
  const std::string name_;
  std::vector<Entry> entries_;
  int64_t size_ = 0;
};

absl::Status HeldFile::read(int64_t offset, std::span<std::byte> dst) const {
  SCALAI_CHECK(offset >= 0 && offset + std::ssize(dst) <= size_, name_);
  auto entry = std::upper_bound(entries_.begin(), entries_.end(), offset,
                                [](int64_t at, const Entry& one) { return at < one.offset; });
  for (--entry; !dst.empty(); ++entry) {
    const int64_t begin = offset - entry->offset;
    const auto count = static_cast<size_t>(std::min(std::ssize(dst), entry->bytes() - begin));
    if (const absl::Status status = held_->read(entry->owned.tensor, entry->owned.box, begin, dst.first(count));
        !status.ok())
      return absl::Status(status.code(), fmt::format("{}: {}", name_, message_of(status)));
    offset += static_cast<int64_t>(count);
    dst = dst.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Opened> open_held(HeldState given) {
  const auto held = std::make_shared<const HeldState>(std::move(given));
  const collection::Collection& side = held->collection;
  Opened opened;
  opened.info.kind = CheckpointKind::kJob;
  opened.info.path = held->place;
  opened.info.local = false;
  opened.info.naming = "job";
  opened.info.job = held->stamp.job;
  opened.info.step = held->stamp.step;
  opened.info.epoch = side.epoch;
  std::set<TensorId> wanted(held->tensors.begin(), held->tensors.end());
  for (size_t i = 0; held->tensors.empty() && i < side.tensors.size(); ++i) wanted.emplace(static_cast<int64_t>(i));
  for (const TensorId id : wanted) {
    if (id.value < 0 || static_cast<size_t>(id.value) >= side.tensors.size())
      return invalid(fmt::format("{}: has no tensor {}", held->place, id.value));
    const collection::LogicalTensor& tensor = side.tensors[static_cast<size_t>(id.value)];
    opened.states.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.kind});
  }
  const std::vector<std::vector<OwnedBox>> owned = owned_boxes(side);
  for (size_t rank = 0; rank < owned.size(); ++rank) {
    const std::string name = rank_file_name(static_cast<int>(rank));
    const auto source = std::make_shared<HeldFile>(held, held->place + "/" + name);
    OpenedFile file{.name = name, .source = source};
    for (const BoxInFile& box : boxes_in_file(side, owned[rank])) {
      if (!wanted.contains(box.owned.tensor)) continue;
      const collection::LogicalTensor& tensor = side.tensors[static_cast<size_t>(box.owned.tensor.value)];
      const HeldFile::Entry& entry = source->add(box.owned, tensor::size_of(tensor.dtype));
      const tensor::Box& extent = box.owned.box;
      file.tensors.push_back(
          {.name = box.key,
           .dtype = tensor.dtype,
           .offset = entry.offset,
           .elements = extent.volume(),
           .pieces = {{tensor.name, {.box = extent, .offset = 0, .strides = extent.shape().strides()}}}});
    }
    if (!file.tensors.empty()) opened.files.push_back(std::move(file));
  }
  SCALAI_ASSIGN_OR_RETURN(opened.model, known_model({}, {.model_file = held->model, .place = held->place}));
  return opened;
}

}  // namespace scalai::store::internal
