#include "vfs/checkpoint_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/checkpoint/views/view.h"
#include "vfs/folder.h"

namespace scalai::vfs {
namespace {

using checkpoint::Checkpoint;
using checkpoint::View;

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

class ViewFolder final : public Directory {
 public:
  explicit ViewFolder(std::shared_ptr<const View> view) : view_(std::move(view)) {}
  absl::StatusOr<Node> find(const std::string& name) override {
    const auto file = view_->find(name);
    if (!file.has_value()) return missing("");
    return Node(std::shared_ptr<File>(std::make_shared<ViewFile>(view_, *file)));
  }
  int64_t entries() override { return static_cast<int64_t>(view_->files()); }
  Entry entry(int64_t index) override { return {view_->file_name(static_cast<size_t>(index)), Kind::kFile}; }
  bool fixed() override { return true; }

 private:
  std::shared_ptr<const View> view_;
};

// Anybody who may read may ask for any name, so what one name costs has a bound; `scalai checkpoint reshard` has none.
constexpr int64_t kMostRanks = 65'536;
constexpr int64_t kMostRankTensors = 10'000'000;
constexpr size_t kViewsKept = 32;  // beside those that kernels hold

absl::Status check_cost(const Checkpoint& checkpoint, const checkpoint::ViewSpec& spec) {
  if (!spec.layout.has_value()) return absl::OkStatus();
  const auto tensors = static_cast<int64_t>(std::max<size_t>(checkpoint.tensors().size(), 1));
  const int64_t most = std::min(kMostRanks, kMostRankTensors / tensors);
  if (spec.layout->world() <= most) return absl::OkStatus();
  return invalid(fmt::format("{} ranks; views of this checkpoint have at most {}", spec.layout->world(), most));
}

absl::StatusOr<Node> make_view(const std::shared_ptr<const Checkpoint>& checkpoint, const std::string& name) {
  if (name.empty() || name.front() == '.') return missing("");  // what shells and desktops look for everywhere
  SCALAI_ASSIGN_OR_RETURN(checkpoint::ViewSpec spec, checkpoint::parse_view_name(name));
  SCALAI_RETURN_IF_ERROR(check_cost(*checkpoint, spec));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const View> view, View::make(checkpoint, std::move(spec)));
  return Node(std::shared_ptr<Directory>(std::make_shared<ViewFolder>(std::move(view))));
}

}  // namespace

std::shared_ptr<Directory> views_directory(std::shared_ptr<const Checkpoint> checkpoint) {
  auto views = std::make_shared<GrowingFolder>(
      [checkpoint](const std::string& name) { return make_view(checkpoint, name); }, kViewsKept);
  (void)views->find("hf");  // listed from the start when it can be
  return views;
}

}  // namespace scalai::vfs
