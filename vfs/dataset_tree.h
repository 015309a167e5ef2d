#pragma once
// The dataset part of a mount. Thread-safe.
//
//   dataset/dp4/step-1200/rank_02/shard_00000.bin …   samples of that rank from that step to the end of its pass
//   dataset/current → dp4/step-1200                   samples of the job now; absent before the first repartition()
//
// Several datasets have a folder each: dataset/NAME/dp4/…. They follow the same job, so one repartition() switches all.
// dpN and step-S are created when looked up. A listing shows the last 100 dpN and the last 1,000 step-S of each.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/samples.h"
#include "ptc/store/datasets/state.h"
#include "ptc/store/datasets/views/readahead.h"
#include "ptc/store/datasets/views/shard_tables.h"
#include "vfs/folder.h"
#include "vfs/tree.h"

namespace scalai::vfs {

struct Dataset {
  std::string name;  // name of its folder
  std::shared_ptr<const datasets::Samples> samples;
  std::shared_ptr<const datasets::DataFiles> files;
  datasets::State first;  // valid; the first step that the tree shows
  // For sources with high latency; null: the kernel's caches suffice.
  std::shared_ptr<const datasets::ReadAhead> read_ahead;
  std::shared_ptr<datasets::ShardTables> tables = std::make_shared<datasets::ShardTables>();
};

inline constexpr int64_t kMostDp = 1'000'000;

class DatasetTree {
 public:
  // At least one dataset (CHECK); names differ (CHECK).
  explicit DatasetTree(std::vector<Dataset> datasets);

  size_t count() const { return datasets_.size(); }
  // Shared; it may outlive this object.
  std::shared_ptr<Directory> directory() const { return root_; }
  // Sets `current` of every dataset to dpN/step-S, at once. InvalidArgument: a step before the first one, or a dp
  // outside 1 to kMostDp; nothing changes then.
  absl::Status repartition(int64_t dp, int64_t step);
  // Target of `current`; "" before the first repartition().
  std::string current();

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::shared_ptr<GrowingFolder>> folders_;  // one per dataset
  std::shared_ptr<Directory> root_;
  std::shared_ptr<SwitchedLink> current_ = std::make_shared<SwitchedLink>("");
};

// Folder names of indexes: file names without extension; equal names are numbered: "pile", "pile-2".
std::vector<std::string> dataset_names(const std::vector<std::string>& paths);

}  // namespace scalai::vfs
