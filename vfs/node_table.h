#pragma once
// The nodes that the kernel holds, by the number under which it knows them. A node lives from its first look-up until the
// kernel has forgotten every look-up, so memory follows what is in use and not what was ever seen. Safe from several
// threads.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "vfs/tree.h"

namespace scalai::vfs {

struct KnownNode {
  uint64_t id = 0;     // never used again for another node
  uint64_t inode = 0;  // of the path, so that it is the same after a mount anew
  std::string path;    // from the mount's root, for messages; "" is the root
  Node node;
};
using KnownNodePtr = std::shared_ptr<const KnownNode>;

class NodeTable {
 public:
  static constexpr uint64_t kRoot = 1;  // as the kernel wants it
  explicit NodeTable(std::shared_ptr<Directory> root);

  // Nullptr: the kernel does not hold it.
  KnownNodePtr get(uint64_t id) const;
  // The child of that name, counted once more; nullptr: not held, so look for it in the tree.
  KnownNodePtr look_up(const KnownNode& parent, const std::string& name);
  // The same for a child that was found meanwhile: `node` counts unless another thread was faster.
  KnownNodePtr look_up(const KnownNode& parent, const std::string& name, Node node);
  // So many look-ups less. Of the root nothing is forgotten.
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

// The number shown for a path.
uint64_t inode_of(const std::string& path);
// PATH/NAME, and NAME in the root.
std::string path_of(const std::string& parent, const std::string& name);

}  // namespace scalai::vfs
