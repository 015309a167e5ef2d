#pragma once
// A model of a disk behind a page cache: which contents may be found after a loss of power.
//
//   operation ─► volatile view (what programs see)
//             └► pending changes ── fsync of their file or folder ──► durable
//
// A crash keeps the durable part and, of the pending changes, any combination that these rules allow:
//   file data      each block of 4 KiB has the content of the last fsync, or that after any later write to it. One
//                  block of a state may be torn: each of its 512-byte sectors from before or after its last write.
//   file size      any size that the file has had since then, independent of the data: blocks without data are zeros.
//                  A shrinking is an order: no write after it is there without it.
//   folder entries create, mkdir, link, rename, exchange, unlink and rmdir are there as a whole or not at all, in any
//                  order, except that a change of a name needs the earlier pending changes of this name.
// fsync of a file makes its data and size durable, not its name. fsync of a folder makes its names durable, not the
// contents of files, nor the names inside of its folders.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/crash/recording.h"

namespace scalai::crash {

inline constexpr int64_t kBlockBytes = 4096;
inline constexpr int64_t kSectorBytes = 512;

struct Content {
  explicit Content(std::string text);
  std::string bytes;
  std::string digest;
};

// A state of the disk: everything that the root leads to.
struct Entry {
  Kind kind = Kind::kMakeFile;  // or kMakeFolder, kSymlink
  std::shared_ptr<const Content> content;
};
struct Tree {
  std::map<std::string, Entry> entries;  // by path; folders before what is in them
  std::string digest() const;
};

// A decision about pending changes: 0 = as it was at the last fsync, options − 1 = as programs see it.
struct Dimension {
  enum class What : uint8_t { kEntry, kSegment, kSize, kBlock } what = What::kEntry;
  int node = 0;       // the file; of an entry a folder
  int64_t index = 0;  // number of the change; block
  int options = 2;
  std::string text;  // for people
};
struct Choice {
  std::vector<int> values;  // one for each dimension
  int torn = -1;            // dimension of a block with value > 0 …
  uint8_t sectors = 0;      // … and its sectors that have the last write
};

class Disk {
 public:
  Disk();
  // InvalidArgument: a path or file that no earlier operation has made.
  absl::Status apply(const Operation& operation);

  // The decisions to make now; valid until the next apply().
  std::vector<Dimension> dimensions() const;
  Tree tree(const std::vector<Dimension>& dimensions, const Choice& choice) const;
  Tree seen() const;  // by programs

 private:
  using Names = std::map<std::string, int>;                          // nodes
  struct Change {                                                    // of names, at once
    std::vector<std::pair<std::pair<int, std::string>, int>> names;  // (folder, name) → node, −1 = none
    std::vector<int64_t> needs;                                      // earlier pending ones of the same names
    std::string text;
  };
  struct Edit {  // of a file
    bool resizes = false;
    int64_t offset = 0;  // or the new size
    std::string data;
  };
  struct Node {
    Kind kind = Kind::kMakeFile;
    std::string path;    // the first one, for people
    Names now, durable;  // of a folder
    std::string bytes;   // of a file, durable; of a link
    int64_t size_now = 0;
    std::vector<Edit> edits;
    mutable std::shared_ptr<const Content> content;  // of `bytes`
  };
  struct FileChoice;

  int find(const std::string& path) const;
  absl::StatusOr<std::pair<int, std::string>> name_of(const std::string& path) const;
  absl::Status change(const std::vector<std::pair<std::string, int>>& names, const Operation& operation);
  absl::Status apply_names(const Operation& operation);
  absl::Status apply_data(const Operation& operation);
  int make(Kind kind, const Operation& operation);
  void sync_file(Node& node);
  void sync_folder(int folder);
  void add_file_dimensions(int number, std::vector<Dimension>& dimensions) const;
  std::shared_ptr<const Content> content_of(const Node& node, const FileChoice& choice) const;
  void walk(const std::map<int, Names>& changed, const std::map<int, FileChoice>& files, int number,
            const std::string& path, Tree& tree) const;

  std::vector<Node> nodes_;  // 0: the root
  std::map<uint64_t, int> by_inode_;
  std::map<int64_t, Change> pending_;  // in order
  std::map<std::pair<int, std::string>, int64_t> last_change_;
  int64_t changes_ = 0;
};

}  // namespace scalai::crash
