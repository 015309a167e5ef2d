#include "vfs/dataset_tree.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/store/datasets/views/rank_view.h"

namespace scalai::vfs {
namespace {

using DatasetPtr = std::shared_ptr<const Dataset>;

// Kept and listed. All follow from their names, so others are made when they are asked for again.
constexpr size_t kStepsListed = 1000;  // of a dp
constexpr size_t kDpsListed = 100;

// N of "PREFIXN" without leading zeros; nullopt: another name.
std::optional<int64_t> number_after(std::string_view prefix, const std::string& name) {
  if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  const std::string digits = name.substr(prefix.size());
  const auto number = parse_count(digits);
  if (!number.ok() || std::to_string(*number) != digits) return std::nullopt;
  return *number;
}

class ShardFile final : public File {
 public:
  ShardFile(DatasetPtr dataset, std::shared_ptr<const datasets::RankView> view, int64_t file)
      : dataset_(std::move(dataset)), view_(std::move(view)), file_(file) {}
  absl::StatusOr<int64_t> size() override { return view_->file_bytes(file_); }
  absl::StatusOr<ByteSourcePtr> open() override {
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, view_->open(file_));
    if (dataset_->read_ahead == nullptr) return source;
    return dataset_->read_ahead->wrap(std::move(source));  // one a reader: it follows where that one is
  }

 private:
  DatasetPtr dataset_;
  std::shared_ptr<const datasets::RankView> view_;
  int64_t file_;
};

class RankFolder final : public Directory {
 public:
  RankFolder(DatasetPtr dataset, std::shared_ptr<const datasets::RankView> view)
      : dataset_(std::move(dataset)), view_(std::move(view)) {}
  absl::StatusOr<Node> find(const std::string& name) override {
    const auto file = view_->find(name);
    if (!file.has_value()) return missing("");
    return Node(std::shared_ptr<File>(std::make_shared<ShardFile>(dataset_, view_, *file)));
  }
  int64_t entries() override { return view_->files(); }
  Entry entry(int64_t index) override { return {view_->file_name(index), Kind::kFile}; }
  bool fixed() override { return true; }
  bool quick() override { return dataset_->samples->bytes_each() > 0; }

 private:
  DatasetPtr dataset_;
  std::shared_ptr<const datasets::RankView> view_;
};

class StepFolder final : public Directory {
 public:
  StepFolder(DatasetPtr dataset, datasets::State state, int64_t dp)
      : dataset_(std::move(dataset)), state_(std::move(state)), dp_(dp) {}
  absl::StatusOr<Node> find(const std::string& name) override {
    const auto number = rank_of(name);
    if (!number.has_value()) return missing("");
    SCALAI_ASSIGN_OR_RETURN(auto view,
                            datasets::RankView::make({.samples = dataset_->samples,
                                                      .files = dataset_->files,
                                                      .state = state_,
                                                      .who = {static_cast<int>(*number), static_cast<int>(dp_)},
                                                      .tables = dataset_->tables}));
    return Node(std::shared_ptr<Directory>(std::make_shared<RankFolder>(dataset_, std::move(view))));
  }
  int64_t entries() override { return dp_; }
  Entry entry(int64_t index) override {
    return {datasets::RankView::folder_of(static_cast<int>(index)), Kind::kDirectory};
  }
  bool fixed() override { return true; }

 private:
  std::optional<int64_t> rank_of(const std::string& name) const {
    const size_t digit = name.find_first_of("0123456789");
    if (digit == std::string::npos) return std::nullopt;
    const auto number = parse_count(name.substr(digit));
    if (!number.ok() || *number >= dp_ || datasets::RankView::folder_of(static_cast<int>(*number)) != name)
      return std::nullopt;
    return *number;
  }

  DatasetPtr dataset_;
  datasets::State state_;
  int64_t dp_;
};

absl::Status check_dp(int64_t dp) {
  if (dp >= 1 && dp <= kMostDp) return absl::OkStatus();
  return invalid(fmt::format("dp={}: from 1 to {}", dp, kMostDp));
}

absl::Status check_step(const Dataset& dataset, int64_t step) {
  if (step >= dataset.first.step && step <= datasets::kMostInState) return absl::OkStatus();
  return invalid(fmt::format("step={}: dataset {} has steps from {} on", step, dataset.name, dataset.first.step));
}

absl::StatusOr<Node> make_step(const DatasetPtr& dataset, int64_t dp, const std::string& name) {
  const auto step = number_after("step-", name);
  if (!step.has_value()) return missing("");
  SCALAI_RETURN_IF_ERROR(check_step(*dataset, *step));
  const datasets::Steps steps(dataset->first);
  return Node(std::shared_ptr<Directory>(std::make_shared<StepFolder>(dataset, steps.at(*step), dp)));
}

absl::StatusOr<Node> make_dp(const DatasetPtr& dataset, const std::string& name) {
  const auto dp = number_after("dp", name);
  if (!dp.has_value()) return missing("");
  SCALAI_RETURN_IF_ERROR(check_dp(*dp));
  return Node(std::shared_ptr<Directory>(std::make_shared<GrowingFolder>(
      [dataset, number = *dp](const std::string& step) { return make_step(dataset, number, step); }, kStepsListed)));
}

}  // namespace

DatasetTree::DatasetTree(std::vector<Dataset> datasets) {
  SCALAI_CHECK(!datasets.empty());
  std::vector<std::pair<std::string, Node>> named;
  for (Dataset& dataset : datasets) {
    datasets_.push_back(std::make_shared<const Dataset>(std::move(dataset)));
    folders_.push_back(std::make_shared<GrowingFolder>(
        [one = datasets_.back()](const std::string& name) { return make_dp(one, name); }, kDpsListed));
    named.emplace_back(datasets_.back()->name, Node(std::shared_ptr<Directory>(folders_.back())));
  }
  root_ = folders_.front();
  if (folders_.size() > 1) root_ = std::make_shared<FixedFolder>(std::move(named));
}

absl::Status DatasetTree::repartition(int64_t dp, int64_t step) {
  SCALAI_RETURN_IF_ERROR(check_dp(dp));
  for (const DatasetPtr& dataset : datasets_) SCALAI_RETURN_IF_ERROR(check_step(*dataset, step));
  current_->set(fmt::format("dp{}/step-{}", dp, step));
  for (const auto& folder : folders_) folder->add("current", Node(std::shared_ptr<Link>(current_)));
  return absl::OkStatus();
}

std::string DatasetTree::current() { return current_->target(); }

std::vector<std::string> dataset_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const std::string& path : paths) {
    std::string stem = path.substr(path.rfind('/') + 1);  // npos + 1 = 0
    const size_t dot = stem.rfind('.');
    if (dot != std::string::npos && dot > 0) stem.resize(dot);
    std::string name = stem;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", stem, i);
    names.push_back(name);
  }
  return names;
}

}  // namespace scalai::vfs
