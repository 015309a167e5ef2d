#include "ptc/store/views/internal/sources.h"

#include <algorithm>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

absl::StatusOr<ByteSourcePtr> Sources::open(const std::string& location) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = opened_.find(location); known != opened_.end()) return known->second;
  }
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, opener_ ? opener_(location) : open_file_source(location));
  const std::lock_guard lock(mutex_);
  return opened_.emplace(location, std::move(source)).first->second;  // that of the first of two threads
}

absl::Status Sources::confirm() const {
  std::vector<ByteSourcePtr> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [location, source] : opened_) all.push_back(source);
  }
  ProblemList problems;
  for (const ByteSourcePtr& source : all) {
    if (const absl::Status status = source->confirm(); !status.ok()) problems.add(status);
  }
  return problems.status();
}

bool Sources::have_versions() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(opened_.begin(), opened_.end(),
                     [](const auto& entry) { return !entry.second->version().empty(); });
}

}  // namespace scalai::store::internal
