#pragma once
// Building blocks of trees: a directory with given children, a directory that creates children on demand, a file over a
// source, a link with a variable target. All are thread-safe.

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

// The given children, in that order; names differ (CHECK).
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

// Creates children on demand; lists them in the order of their creation. Keeps the `most` newest ones, which bounds
// memory. A dropped child is created again when needed, and is equal to the old one.
class GrowingFolder final : public Directory {
 public:
  // Creates the child of that name. Errors as of Directory::find; they are not cached. Called without a lock, by
  // several threads at once for different names.
  using Maker = std::function<absl::StatusOr<Node>(const std::string& name)>;
  explicit GrowingFolder(Maker maker, size_t most = std::numeric_limits<size_t>::max())
      : maker_(std::move(maker)), most_(most) {}
  // Inserts a child that is never dropped; no effect if the name exists.
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
  // Later threads wait here for the first one with the same name.
  std::map<std::string, std::shared_ptr<Making>> making_;
  std::map<int64_t, Child> children_;  // by number in listings
  std::map<std::string, int64_t> by_name_;
  int64_t next_ = 0;
  size_t droppable_ = 0;
};

// A file over a source. All readers share the source.
class SourceFile final : public File {
 public:
  explicit SourceFile(ByteSourcePtr source) : source_(std::move(source)) {}
  absl::StatusOr<int64_t> size() override { return source_->size(); }
  absl::StatusOr<ByteSourcePtr> open() override { return source_; }

 private:
  ByteSourcePtr source_;
};

// A link with a variable target: a reader gets the old or the new target.
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
