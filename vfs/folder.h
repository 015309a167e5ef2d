#pragma once
// Directories made of parts: one with given children, and one whose children are made when first asked for.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
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

// Lists what was found lately, in the order in which it was asked for. The last `most` children that were made are kept,
// so memory does not follow how many names were ever asked for; one that was dropped is made anew, the same again.
class GrowingFolder final : public Directory {
 public:
  // Makes the child of that name; errors as of Directory::find, not remembered. Called by several threads at once, for
  // different names.
  using Maker = std::function<absl::StatusOr<Node>(const std::string& name)>;
  explicit GrowingFolder(Maker maker, size_t most = std::numeric_limits<size_t>::max())
      : maker_(std::move(maker)), most_(most) {}
  // A child that is there before anybody asks, when `name` is new; never dropped.
  void add(const std::string& name, Node node);

  absl::StatusOr<Node> find(const std::string& name) override;
  int64_t entries() override;
  int64_t listed_from(int64_t index) override;
  Entry entry(int64_t index) override;

 private:
  struct Making {
    bool done = false;
    absl::StatusOr<Node> result = absl::UnknownError("");
  };
  struct Child {
    std::string name;
    Node node;
    bool kept = false;  // never dropped
  };
  absl::StatusOr<Node> make(const std::string& name) const;
  void insert(const std::string& name, Node node, bool kept);  // under mutex_

  Maker maker_;
  size_t most_;
  std::mutex mutex_;  // not held while the maker works
  std::condition_variable made_;
  std::map<std::string, std::shared_ptr<Making>> making_;  // whoever asks for the same name waits
  std::map<int64_t, Child> children_;                      // by number in listings
  std::map<std::string, int64_t> by_name_;
  int64_t next_ = 0;
  size_t droppable_ = 0;
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
