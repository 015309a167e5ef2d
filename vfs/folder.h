#pragma once
// Directories made of parts: one with given children, and one whose children are made when first asked for.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "vfs/tree.h"

namespace scalai::vfs {

// Children that are given, in that order; names differ (CHECK).
class FixedFolder final : public Directory {
 public:
  explicit FixedFolder(std::vector<std::pair<std::string, Node>> children);
  absl::StatusOr<Node> find(const std::string& name) override;
  int64_t entries() override { return static_cast<int64_t>(children_.size()); }
  Entry entry(int64_t index) override;
  bool fixed() override { return true; }
  bool quick() override { return true; }

 private:
  std::vector<std::pair<std::string, Node>> children_;
  std::map<std::string, size_t> by_name_;
};

// Lists what was found so far, in the order in which it was first asked for. What was made is kept.
class GrowingFolder final : public Directory {
 public:
  // Makes the child of that name; errors as of Directory::find, not remembered. Called by one thread at a time.
  using Maker = std::function<absl::StatusOr<Node>(const std::string& name)>;
  explicit GrowingFolder(Maker maker) : maker_(std::move(maker)) {}
  // A child that is there before anybody asks, when `name` is new.
  void add(const std::string& name, Node node);

  absl::StatusOr<Node> find(const std::string& name) override;
  int64_t entries() override;
  Entry entry(int64_t index) override;

 private:
  absl::StatusOr<Node> known(const std::string& name);

  Maker maker_;
  std::mutex making_;   // held while the maker works: listing goes on meanwhile
  std::mutex looking_;  // guards what follows
  std::vector<std::pair<std::string, Node>> children_;
  std::map<std::string, size_t> by_name_;
};

// A source as a file.
class SourceFile final : public File {
 public:
  explicit SourceFile(ByteSourcePtr source) : source_(std::move(source)) {}
  absl::StatusOr<int64_t> size() override { return source_->size(); }
  absl::StatusOr<ByteSourcePtr> open() override { return source_; }

 private:
  ByteSourcePtr source_;
};

// A link whose target may be switched while it is followed: followers see the old one or the new one.
class SwitchedLink final : public Link {
 public:
  explicit SwitchedLink(std::string target) : target_(std::move(target)) {}
  std::string target() override;
  void set(std::string target);

 private:
  std::mutex mutex_;
  std::string target_;
};

}  // namespace scalai::vfs
