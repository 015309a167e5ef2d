#include "tests/crash/disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::crash {

Content::Content(std::string text) : bytes(std::move(text)), digest(digest_of(bytes)) {}

std::string Tree::digest() const {
  Hasher hasher;
  for (const auto& [path, entry] : entries) {
    hasher.add(path).add(static_cast<int64_t>(entry.kind)).add(entry.content ? entry.content->digest : "");
  }
  return hasher.hex();
}

// The decisions about one file.
struct Disk::FileChoice {
  int segment = 0;
  int size = 0;
  std::map<int64_t, int> blocks;
  int64_t torn_block = -1;
  uint8_t sectors = 0;
};

Disk::Disk() : nodes_(1) { nodes_[0].kind = Kind::kMakeFolder; }

int Disk::find(const std::string& path) const {
  int node = 0;
  for (size_t at = 0; path != "." && at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const auto& names = nodes_[static_cast<size_t>(node)].now;
    const auto found = names.find(path.substr(at, end - at));
    if (found == names.end()) return -1;
    node = found->second;
    at = end + 1;
  }
  return node;
}

absl::StatusOr<std::pair<int, std::string>> Disk::name_of(const std::string& path) const {
  const size_t slash = path.rfind('/');
  const int folder = slash == std::string::npos ? 0 : find(path.substr(0, slash));
  if (folder < 0) return invalid(fmt::format("{}: in no known folder", path));
  return std::pair(folder, path.substr(slash == std::string::npos ? 0 : slash + 1));
}

absl::Status Disk::change(const std::vector<std::pair<std::string, int>>& names, const Operation& operation) {
  Change made{.names = {}, .needs = {}, .text = operation.str()};
  for (const auto& [path, node] : names) {
    SCALAI_ASSIGN_OR_RETURN(const auto name, name_of(path));
    auto& now = nodes_[static_cast<size_t>(name.first)].now;
    node < 0 ? (void)now.erase(name.second) : (void)(now[name.second] = node);
    const auto last = last_change_.find(name);
    if (last != last_change_.end() && pending_.contains(last->second)) made.needs.push_back(last->second);
    last_change_[name] = changes_;
    made.names.emplace_back(name, node);
  }
  pending_.emplace(changes_++, std::move(made));
  return absl::OkStatus();
}

int Disk::make(Kind kind, const Operation& operation) {
  Node& node = nodes_.emplace_back();
  node.kind = kind;
  node.path = operation.path;
  if (kind == Kind::kSymlink) node.bytes = operation.data;
  const int number = static_cast<int>(nodes_.size()) - 1;
  by_inode_[operation.inode] = number;
  return number;
}

absl::Status Disk::apply_names(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kMakeFile:
    case Kind::kMakeFolder:
    case Kind::kSymlink: return change({{operation.path, make(operation.kind, operation)}}, operation);
    default: break;
  }
  const int node = find(operation.path);
  if (node < 0) return invalid(fmt::format("{}: no such path", operation.str()));
  const int other = operation.other.empty() ? -1 : find(operation.other);
  switch (operation.kind) {
    case Kind::kRename:
      if (node == other) return absl::OkStatus();
      return change({{operation.path, -1}, {operation.other, node}}, operation);
    case Kind::kExchange: return change({{operation.path, other}, {operation.other, node}}, operation);
    case Kind::kLink: return change({{operation.other, node}}, operation);
    default: return change({{operation.path, -1}}, operation);
  }
}

absl::Status Disk::apply_data(const Operation& operation) {
  const auto found = by_inode_.find(operation.inode);
  const int number = found != by_inode_.end() ? found->second : operation.path == "." ? 0 : -1;
  if (number < 0) return invalid(fmt::format("{}: no such file", operation.str()));
  Node& node = nodes_[static_cast<size_t>(number)];
  if (operation.kind == Kind::kSync) {
    node.kind == Kind::kMakeFolder ? sync_folder(number) : sync_file(node);
    return absl::OkStatus();
  }
  const bool resizes = operation.kind == Kind::kResize;
  node.edits.push_back({resizes, resizes ? operation.length : operation.offset, operation.data});
  node.size_now = resizes ? operation.length : std::max(node.size_now, operation.offset + std::ssize(operation.data));
  return absl::OkStatus();
}

absl::Status Disk::apply(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kMark: return absl::OkStatus();
    case Kind::kUnknown: return invalid(operation.str());
    case Kind::kWrite:
    case Kind::kResize:
    case Kind::kSync: return apply_data(operation);
    case Kind::kSyncAll:
      for (size_t i = 0; i < nodes_.size(); ++i) {
        nodes_[i].kind == Kind::kMakeFolder ? sync_folder(static_cast<int>(i)) : sync_file(nodes_[i]);
      }
      return absl::OkStatus();
    default: return apply_names(operation);
  }
}

void Disk::sync_file(Node& node) {
  for (const Edit& edit : node.edits) {
    if (edit.resizes) {
      node.bytes.resize(static_cast<size_t>(edit.offset));
    } else {
      node.bytes.resize(std::max(node.bytes.size(), static_cast<size_t>(edit.offset) + edit.data.size()));
      std::memcpy(node.bytes.data() + edit.offset, edit.data.data(), edit.data.size());
    }
  }
  if (!node.edits.empty()) node.content.reset();
  node.edits.clear();
}

void Disk::sync_folder(int folder) {
  std::set<int64_t> done;
  for (auto it = pending_.rbegin(); it != pending_.rend(); ++it) {
    const auto& [number, change] = *it;
    const bool here = std::any_of(change.names.begin(), change.names.end(),
                                  [&](const auto& name) { return name.first.first == folder; });
    if (!here && !done.contains(number)) continue;
    done.insert(number);
    done.insert(change.needs.begin(), change.needs.end());
  }
  for (const int64_t number : done) {
    const auto found = pending_.find(number);
    if (found == pending_.end()) continue;
    for (const auto& [name, node] : found->second.names) {
      auto& durable = nodes_[static_cast<size_t>(name.first)].durable;
      node < 0 ? (void)durable.erase(name.second) : (void)(durable[name.second] = node);
    }
    pending_.erase(found);
  }
}

void Disk::add_file_dimensions(int number, std::vector<Dimension>& dimensions) const {
  const Node& node = nodes_[static_cast<size_t>(number)];
  int segments = 1, sizes = 1, most_sizes = 1;
  auto size = static_cast<int64_t>(node.bytes.size());
  std::map<int64_t, int> writes;  // by block
  for (const Edit& edit : node.edits) {
    const int64_t end = edit.resizes ? edit.offset : edit.offset + std::ssize(edit.data);
    if (edit.resizes && end < size) {
      ++segments;
      sizes = 0;
      size = -1;
    }
    if (end > size) {
      ++sizes;
      size = end;
    }
    most_sizes = std::max(most_sizes, sizes);
    if (edit.resizes) continue;
    for (int64_t block = edit.offset / kBlockBytes; block * kBlockBytes < end; ++block) ++writes[block];
  }
  using What = Dimension::What;
  if (segments > 1)
    dimensions.push_back({What::kSegment, number, 0, segments, fmt::format("shrinkings of {}", node.path)});
  if (most_sizes > 1) dimensions.push_back({What::kSize, number, 0, most_sizes, fmt::format("size of {}", node.path)});
  for (const auto& [block, count] : writes)
    dimensions.push_back({What::kBlock, number, block, count + 1, fmt::format("block {} of {}", block, node.path)});
}

std::vector<Dimension> Disk::dimensions() const {
  std::vector<Dimension> dimensions;
  for (const auto& [number, change] : pending_) {
    dimensions.push_back({Dimension::What::kEntry, change.names.front().first.first, number, 2, change.text});
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].edits.empty()) add_file_dimensions(static_cast<int>(i), dimensions);
  }
  return dimensions;
}

std::shared_ptr<const Content> Disk::content_of(const Node& node, const FileChoice& choice) const {
  std::string bytes = node.bytes;
  std::map<int64_t, int> writes;
  int segment = 0;
  int grown = 0;
  auto size = static_cast<int64_t>(bytes.size());  // as programs saw it
  int64_t kept = size;                             // as decided
  for (const Edit& edit : node.edits) {
    const int64_t end = edit.resizes ? edit.offset : edit.offset + std::ssize(edit.data);
    if (edit.resizes && end < size) {
      if (segment == choice.segment) break;
      ++segment;
      grown = 0;
      kept = size = end;
      bytes.resize(std::min(bytes.size(), static_cast<size_t>(end)));
      continue;
    }
    if (end > size) {
      size = end;
      if (++grown <= choice.size) kept = end;
    }
    if (edit.resizes) continue;
    for (int64_t block = edit.offset / kBlockBytes; block * kBlockBytes < end; ++block) {
      const int count = ++writes[block];
      const auto found = choice.blocks.find(block);
      const int wanted = found == choice.blocks.end() ? 0 : found->second;
      if (count > wanted) continue;
      const bool torn = block == choice.torn_block && count == wanted;
      for (int64_t sector = 0; sector < kBlockBytes / kSectorBytes; ++sector) {
        if (torn && (choice.sectors >> sector & 1) == 0) continue;
        const int64_t from = std::max(edit.offset, block * kBlockBytes + sector * kSectorBytes);
        const int64_t to = std::min(end, block * kBlockBytes + (sector + 1) * kSectorBytes);
        if (from >= to) continue;
        bytes.resize(std::max(bytes.size(), static_cast<size_t>(to)));
        std::memcpy(bytes.data() + from, edit.data.data() + (from - edit.offset), static_cast<size_t>(to - from));
      }
    }
  }
  bytes.resize(static_cast<size_t>(kept));
  return std::make_shared<const Content>(std::move(bytes));
}

void Disk::walk(const std::map<int, Names>& changed, const std::map<int, FileChoice>& files, int number,
                const std::string& path, Tree& tree) const {
  const auto found = changed.find(number);
  for (const auto& [name, child] :
       found == changed.end() ? nodes_[static_cast<size_t>(number)].durable : found->second) {
    const Node& node = nodes_[static_cast<size_t>(child)];
    const std::string below = path.empty() ? name : path + "/" + name;
    if (tree.entries.contains(below)) continue;
    if (node.kind == Kind::kMakeFolder) {
      tree.entries[below] = {node.kind, nullptr};
      walk(changed, files, child, below, tree);
      continue;
    }
    const auto chosen = files.find(child);
    if (chosen != files.end()) {
      tree.entries[below] = {node.kind, content_of(node, chosen->second)};
      continue;
    }
    if (!node.content) node.content = std::make_shared<const Content>(node.bytes);
    tree.entries[below] = {node.kind, node.content};
  }
}

Tree Disk::tree(const std::vector<Dimension>& dimensions, const Choice& choice) const {
  std::set<int64_t> kept;
  std::map<int, FileChoice> files;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Dimension& dimension = dimensions[i];
    const int value = choice.values[i];
    if (dimension.what == Dimension::What::kEntry) {
      if (value > 0) kept.insert(dimension.index);
      continue;
    }
    FileChoice& file = files[dimension.node];
    if (dimension.what == Dimension::What::kSegment) file.segment = value;
    if (dimension.what == Dimension::What::kSize) file.size = value;
    if (dimension.what == Dimension::What::kBlock) file.blocks[dimension.index] = value;
    if (static_cast<int>(i) != choice.torn) continue;
    file.torn_block = dimension.index;
    file.sectors = choice.sectors;
  }
  for (auto it = pending_.rbegin(); it != pending_.rend(); ++it) {
    if (kept.contains(it->first)) kept.insert(it->second.needs.begin(), it->second.needs.end());
  }
  std::map<int, Names> changed;
  for (const auto& [number, change] : pending_) {
    if (!kept.contains(number)) continue;
    for (const auto& [name, node] : change.names) {
      Names& names = changed.try_emplace(name.first, nodes_[static_cast<size_t>(name.first)].durable).first->second;
      node < 0 ? (void)names.erase(name.second) : (void)(names[name.second] = node);
    }
  }
  Tree tree;
  walk(changed, files, 0, "", tree);
  return tree;
}

Tree Disk::seen() const {
  const std::vector<Dimension> all = dimensions();
  Choice choice;
  for (const Dimension& dimension : all) choice.values.push_back(dimension.options - 1);
  return tree(all, choice);
}

}  // namespace scalai::crash
