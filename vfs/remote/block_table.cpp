#include "vfs/remote/block_table.h"

#include <optional>

#include "ptc/base/status.h"

namespace scalai::vfs {

class BlockTable::Slot {
 public:
  explicit Slot(BlockKey named) : key(std::move(named)) {}
  const BlockKey key;
  std::optional<absl::StatusOr<Block>> result;
  std::list<std::shared_ptr<Slot>>::iterator place;  // in used_, when the result is a block
};

BlockTable::Claim BlockTable::add(const BlockKey& key) {
  auto slot = std::make_shared<Slot>(key);
  slots_[key] = slot;
  return {slot, true};
}

BlockTable::Claim BlockTable::claim(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end()) return add(key);
  const std::shared_ptr<Slot>& slot = found->second;
  if (slot->result) used_.splice(used_.begin(), used_, slot->place);
  return {slot, false};
}

BlockTable::Claim BlockTable::claim_if_absent(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  return slots_.count(key) != 0 ? Claim{} : add(key);
}

void BlockTable::complete(const Claim& claim, absl::StatusOr<Block> block) {
  SCALAI_CHECK(claim.ours && claim.slot != nullptr);
  const std::lock_guard lock(mutex_);
  Slot& slot = *claim.slot;
  SCALAI_CHECK(!slot.result);
  slot.result = std::move(block);
  completed_.notify_all();
  if (!slot.result->ok()) {
    slots_.erase(slot.key);
    return;
  }
  bytes_ += static_cast<int64_t>((**slot.result)->size());
  used_.push_front(claim.slot);
  slot.place = used_.begin();
  while (bytes_ > bytes_limit_) {  // those who have claimed one already keep it alive
    const std::shared_ptr<Slot> oldest = used_.back();
    used_.pop_back();
    bytes_ -= static_cast<int64_t>((**oldest->result)->size());
    slots_.erase(oldest->key);
  }
}

absl::StatusOr<Block> BlockTable::wait(const Claim& claim) {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [&] { return claim.slot->result.has_value(); });
  return *claim.slot->result;
}

int64_t BlockTable::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace scalai::vfs
