#include "vfs/checkpoint_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/store/views/view.h"
#include "vfs/folder.h"

namespace scalai::vfs {
namespace {

using store::Checkpoint;
using store::View;

class ViewFile final : public File {
 public:
  ViewFile(std::shared_ptr<const View> view, size_t file) : view_(std::move(view)), file_(file) {}
  absl::StatusOr<int64_t> size() override { return view_->size(file_); }
  absl::StatusOr<ByteSourcePtr> open() override;

 private:
  std::shared_ptr<const View> view_;
  size_t file_;
  std::mutex mutex_;
  std::weak_ptr<const ByteSource> opened_;  // as long as a reader has it
};

absl::StatusOr<ByteSourcePtr> ViewFile::open() {
  const std::lock_guard lock(mutex_);  // the second reader waits for the header that the first one is making
  if (ByteSourcePtr shared = opened_.lock()) return shared;
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, view_->open(file_));
  opened_ = source;
  return source;
}

// The files of a view whose names begin with `path`, and the folders among them.
class ViewFolder final : public Directory {
 public:
  explicit ViewFolder(std::shared_ptr<const View> view, std::string path = "")
      : view_(std::move(view)), path_(std::move(path)) {
    for (size_t file = 0; file < view_->files(); ++file) {  // by name, so a folder's are together
      const std::string& name = view_->file_name(file);
      if (!name.starts_with(path_)) continue;
      const size_t slash = name.find('/', path_.size());
      std::string child = name.substr(path_.size(), slash == std::string::npos ? slash : slash - path_.size());
      const Kind kind = slash == std::string::npos ? Kind::kFile : Kind::kDirectory;
      if (kind == Kind::kFile || entries_.empty() || entries_.back().name != child)
        entries_.push_back({std::move(child), kind});
    }
  }
  absl::StatusOr<Node> find(const std::string& name) override {
    if (const auto file = view_->find(path_ + name); file.has_value())
      return Node(std::shared_ptr<File>(std::make_shared<ViewFile>(view_, *file)));
    const std::string folder = path_ + name + "/";
    if (!view_->has_folder(folder)) return missing("");
    return Node(std::shared_ptr<Directory>(std::make_shared<ViewFolder>(view_, folder)));
  }
  int64_t entries() override { return std::ssize(entries_); }
  Entry entry(int64_t index) override { return entries_[static_cast<size_t>(index)]; }
  bool fixed() override { return true; }

 private:
  std::shared_ptr<const View> view_;
  const std::string path_;
  std::vector<Entry> entries_;
};

// Anybody who may read may ask for any name, so what one name costs has a bound; `scalai checkpoint reshard` has none.
constexpr int64_t kMostRanks = 65'536;
constexpr int64_t kMostRankTensors = 10'000'000;
constexpr size_t kViewsKept = 32;  // beside those that kernels hold

absl::Status check_cost(const Checkpoint& checkpoint, const store::ViewSpec& spec) {
  if (!spec.layout.has_value()) return absl::OkStatus();
  const auto tensors = static_cast<int64_t>(std::max<size_t>(checkpoint.tensors().size(), 1));
  const int64_t most = std::min(kMostRanks, kMostRankTensors / tensors);
  if (spec.layout->world() <= most) return absl::OkStatus();
  return invalid(fmt::format("{} ranks; views of this checkpoint have at most {}", spec.layout->world(), most));
}

absl::StatusOr<Node> make_view(const std::shared_ptr<const Checkpoint>& checkpoint, const std::string& name) {
  if (name.empty() || name.front() == '.') return missing("");  // what shells and desktops look for everywhere
  SCALAI_ASSIGN_OR_RETURN(store::ViewSpec spec, store::parse_view_name(name));
  SCALAI_RETURN_IF_ERROR(check_cost(*checkpoint, spec));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const View> view, View::make(checkpoint, std::move(spec)));
  return Node(std::shared_ptr<Directory>(std::make_shared<ViewFolder>(std::move(view))));
}

}  // namespace

std::shared_ptr<Directory> views_directory(const std::shared_ptr<const Checkpoint>& checkpoint) {
  auto views = std::make_shared<GrowingFolder>(
      [checkpoint](const std::string& name) { return make_view(checkpoint, name); }, kViewsKept);
  // Listed from the start: one that the checkpoint can have.
  if (!views->find("hf").ok()) (void)views->find("logical");
  return views;
}

}  // namespace scalai::vfs
