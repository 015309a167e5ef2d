#include "vfs/folder.h"

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

void GrowingFolder::add(const std::string& name, Node node) {
  const std::lock_guard lock(looking_);
  if (!by_name_.emplace(name, children_.size()).second) return;
  children_.emplace_back(name, std::move(node));
}

absl::StatusOr<Node> GrowingFolder::known(const std::string& name) {
  const std::lock_guard lock(looking_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return missing("");
  return children_[found->second].second;
}

absl::StatusOr<Node> GrowingFolder::find(const std::string& name) {
  if (auto node = known(name); node.ok()) return node;
  const std::lock_guard lock(making_);
  if (auto node = known(name); node.ok()) return node;  // made while we waited
  SCALAI_ASSIGN_OR_RETURN(Node made, maker_(name));
  add(name, made);
  return made;
}

int64_t GrowingFolder::entries() {
  const std::lock_guard lock(looking_);
  return static_cast<int64_t>(children_.size());
}

Entry GrowingFolder::entry(int64_t index) {
  const std::lock_guard lock(looking_);
  const auto& child = children_.at(static_cast<size_t>(index));
  return {child.first, kind_of(child.second)};
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
