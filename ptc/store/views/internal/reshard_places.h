#pragma once
// Where a run of reshard writes, and what it must not take away there: a folder may be replaced or removed only when it
// is plainly a checkpoint, or what an earlier run has left, and never when the source is read from it.

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store::internal {

struct ReshardPlaces {
  std::string target;   // DST, without a slash at the end
  std::string partial;  // DST.partial: the folder until it gets its name
  std::string journal;  // DST.partial.journal
};
ReshardPlaces places_of(const std::string& target);

bool is_there(const std::string& path);  // a link that leads nowhere, too
// Of the folder's manifest.json; "": it has none.
std::string checksum_of_manifest(const std::string& folder);

// These are InvalidArgument but for the folder around DST, which is NotFound where it is not there; they look only.
// DST has no name of its own ("", "/", "."); the source is DST or DST.partial, or is read from inside one of them.
absl::Status check_apart(const ReshardPlaces& places, const Checkpoint& source);
// DST is there, but for an empty folder, and not to be replaced; or it is nothing that `force` replaces: a folder that
// has folders, or that is no checkpoint.
absl::Status check_target(const ReshardPlaces& places, bool force);

bool is_empty_folder(const std::string& path);
// A name in the folder that is not one of a run's files; none: all are.
std::optional<std::string> foreign_entry(const std::string& folder, const std::function<bool(const std::string&)>& own);

}  // namespace scalai::store::internal
