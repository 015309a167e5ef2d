#pragma once
// The dataset side of a mount:
//
//   dataset/dp4/step-1200/rank_02/shard_00000.bin …   what that rank reads from that step to the end of its pass
//   dataset/current → dp4/step-1200                   what the job reads now; there once somebody has said so
//
// With several datasets each lies in a folder of its name: dataset/NAME/dp4/…; they follow the same job, so one switch is
// for all of them. dpN and step-S come into being when they are looked up; the last 100 of the former and, in each, the last
// 1,000 of the latter are listed. Safe from several threads.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/data/data_files.h"
#include "ptc/data/samples.h"
#include "ptc/data/state.h"
#include "ptc/data/views/readahead.h"
#include "ptc/data/views/shard_tables.h"
#include "vfs/folder.h"
#include "vfs/tree.h"

namespace scalai::vfs {

struct Dataset {
  std::string name;  // of its folder
  std::shared_ptr<const data::Samples> samples;
  std::shared_ptr<const data::DataFiles> files;
  data::State first;  // valid; steps are counted from it
  // Of sources that answer slowly; absent: the kernel's caches are enough.
  std::shared_ptr<const data::ReadAhead> read_ahead;
  std::shared_ptr<data::ShardTables> tables = std::make_shared<data::ShardTables>();
};

inline constexpr int64_t kMostDp = 1'000'000;

class DatasetTree {
 public:
  // At least one (CHECK); names differ (CHECK).
  explicit DatasetTree(std::vector<Dataset> datasets);

  size_t count() const { return datasets_.size(); }
  std::shared_ptr<Directory> directory() const { return root_; }
  // `current` becomes dpN/step-S of every dataset, at once. InvalidArgument: no such step, or a dp below 1 or above
  // kMostDp; then nothing changes.
  absl::Status repartition(int64_t dp, int64_t step);
  // What `current` shows; "": nothing so far.
  std::string current();

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::shared_ptr<GrowingFolder>> folders_;  // of each dataset
  std::shared_ptr<Directory> root_;
  std::shared_ptr<SwitchedLink> current_ = std::make_shared<SwitchedLink>("");
};

// Folder names of indexes: the file name without its ending; of several with one name the others are numbered, as in
// "pile", "pile-2".
std::vector<std::string> dataset_names(const std::vector<std::string>& paths);

}  // namespace scalai::vfs
