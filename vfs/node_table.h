#pragma once
// The nodes that the kernel holds, by node number. A node lives from its first look-up until the kernel has forgotten
// every look-up, so memory follows the nodes in use, not all nodes ever seen. Thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "vfs/tree.h"

namespace scalai::vfs {

struct KnownNode {
  uint64_t id = 0;     // never reused for another node
  uint64_t inode = 0;  // hash of the path, equal after a remount
  std::string path;    // from the root of the mount, for messages; "" is the root
  Node node;
};
using KnownNodePtr = std::shared_ptr<const KnownNode>;

class NodeTable {
 public:
  static constexpr uint64_t kRoot = 1;  // number that the kernel gives the root
  explicit NodeTable(std::shared_ptr<Directory> root);

  // nullptr: the kernel does not hold it. The caller shares ownership, here and below.
  KnownNodePtr get(uint64_t id) const;
  // The child of that name; counts one more look-up. nullptr: not held, so query the tree.
  KnownNodePtr look_up(const KnownNode& parent, const std::string& name);
  // As above, for a child found in the tree meanwhile. If another thread inserted the name first, returns its node and
  // drops `node`.
  KnownNodePtr look_up(const KnownNode& parent, const std::string& name, Node node);
  // Subtracts `count` look-ups. The root is never forgotten.
  void forget(uint64_t id, uint64_t count);
  size_t size() const;

 private:
  struct Held {
    KnownNodePtr known;
    std::pair<uint64_t, std::string> key;  // parent and name
    uint64_t lookups = 0;
  };
  KnownNodePtr held(const std::pair<uint64_t, std::string>& key);

  mutable std::mutex mutex_;
  uint64_t next_ = kRoot + 1;
  std::unordered_map<uint64_t, Held> by_id_;
  std::map<std::pair<uint64_t, std::string>, uint64_t> by_key_;
};

// Inode number shown for a path: 60 bits of its hash.
uint64_t inode_of(const std::string& path);
// "PARENT/NAME"; "NAME" below the root.
std::string path_of(const std::string& parent, const std::string& name);

}  // namespace scalai::vfs
