#include "vfs/folder.h"

#include <new>

#include "ptc/base/status.h"

namespace scalai::vfs {

FixedFolder::FixedFolder(std::vector<std::pair<std::string, Node>> children) : children_(std::move(children)) {
  for (size_t i = 0; i < children_.size(); ++i) {
    SCALAI_CHECK(by_name_.emplace(children_[i].first, i).second, children_[i].first);
  }
}

absl::StatusOr<Node> FixedFolder::find(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return missing("");
  return children_[found->second].second;
}

Entry FixedFolder::entry(int64_t index) {
  const auto& child = children_.at(static_cast<size_t>(index));
  return {child.first, kind_of(child.second)};
}

void GrowingFolder::insert(const std::string& name, Node node, bool kept) {
  if (!by_name_.emplace(name, next_).second) return;
  children_.emplace(next_++, Child{name, std::move(node), kept});
  if (kept || ++droppable_ <= most_) return;
  auto oldest = children_.begin();
  while (oldest->second.kept) ++oldest;
  by_name_.erase(oldest->second.name);
  children_.erase(oldest);
  --droppable_;
}

void GrowingFolder::add(const std::string& name, Node node) {
  const std::lock_guard lock(mutex_);
  insert(name, std::move(node), /*kept=*/true);
}

absl::StatusOr<Node> GrowingFolder::make(const std::string& name) const {
  try {
    return maker_(name);
  } catch (const std::bad_alloc&) {  // others wait for us: they must hear of it
    return absl::ResourceExhaustedError("there is not enough memory for it");
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

absl::StatusOr<Node> GrowingFolder::find(const std::string& name) {
  std::unique_lock lock(mutex_);
  if (const auto known = by_name_.find(name); known != by_name_.end()) return children_.at(known->second).node;
  const auto [place, first] = making_.try_emplace(name);
  if (first) place->second = std::make_shared<Making>();
  const std::shared_ptr<Making> making = place->second;
  if (!first) {
    made_.wait(lock, [&] { return making->done; });
    return making->result;
  }
  lock.unlock();
  absl::StatusOr<Node> made = make(name);
  lock.lock();
  if (made.ok()) insert(name, *made, /*kept=*/false);
  making->result = made;
  making->done = true;
  making_.erase(name);
  made_.notify_all();
  return made;
}

int64_t GrowingFolder::entries() {
  const std::lock_guard lock(mutex_);
  return next_;
}

int64_t GrowingFolder::listed_from(int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = children_.lower_bound(index);
  return found == children_.end() ? next_ : found->first;
}

Entry GrowingFolder::entry(int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(index);
  if (found == children_.end()) return {};
  return {found->second.name, kind_of(found->second.node)};
}

std::string SwitchedLink::target() {
  const std::lock_guard lock(mutex_);
  return target_;
}

void SwitchedLink::set(std::string target) {
  const std::lock_guard lock(mutex_);
  target_ = std::move(target);
}

}  // namespace scalai::vfs
