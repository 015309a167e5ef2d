#include "vfs/node_table.h"

#include <algorithm>
#include <cstdlib>

#include "ptc/base/hash.h"

namespace scalai::vfs {

uint64_t inode_of(const std::string& path) {
  if (path.empty()) return NodeTable::kRoot;
  const uint64_t hash = std::strtoull(digest_of(path).substr(0, 15).c_str(), nullptr, 16);  // 60 bits
  return hash > NodeTable::kRoot ? hash : NodeTable::kRoot + 1;
}

std::string path_of(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "/" + name;
}

NodeTable::NodeTable(std::shared_ptr<Directory> root) {
  const auto known = std::make_shared<const KnownNode>(KnownNode{kRoot, inode_of(""), "", Node(std::move(root))});
  by_id_.emplace(kRoot, Held{known, {0, ""}, 1});
}

KnownNodePtr NodeTable::get(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.known;
}

KnownNodePtr NodeTable::held(const std::pair<uint64_t, std::string>& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  Held& held = by_id_.at(found->second);
  ++held.lookups;
  return held.known;
}

KnownNodePtr NodeTable::look_up(const KnownNode& parent, const std::string& name) {
  const std::lock_guard lock(mutex_);
  return held({parent.id, name});
}

KnownNodePtr NodeTable::look_up(const KnownNode& parent, const std::string& name, Node node) {
  const std::string path = path_of(parent.path, name);
  const uint64_t inode = inode_of(path);
  std::pair<uint64_t, std::string> key = {parent.id, name};
  const std::lock_guard lock(mutex_);
  if (KnownNodePtr known = held(key)) return known;
  const uint64_t id = next_++;
  const auto known = std::make_shared<const KnownNode>(KnownNode{id, inode, path, std::move(node)});
  by_key_.emplace(key, id);
  by_id_.emplace(id, Held{known, std::move(key), 1});
  return known;
}

void NodeTable::forget(uint64_t id, uint64_t count) {
  if (id == kRoot) return;
  KnownNodePtr last;  // goes after the lock: what it owns may be large
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Held& held = found->second;
  held.lookups -= std::min(held.lookups, count);
  if (held.lookups > 0) return;
  last = std::move(held.known);
  by_key_.erase(held.key);
  by_id_.erase(found);
}

size_t NodeTable::size() const {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

}  // namespace scalai::vfs
