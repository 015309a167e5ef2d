#pragma once
// A checkpoint whose files lie on several hosts, each of which has some: opened by the headers of all of them.
//
//   hosts ─► names and sizes of files ─► texts and headers, fetched ─► files here, of the same sizes, empty beyond ─►
//   Checkpoint
//
// What the checkpoint says of tensors and places is right; its reads would give zeros, so nobody reads it. One thread.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/placement.h"
#include "labs/near/session.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::apps {

struct SpreadCheckpoint {
  std::string path;     // as hosts name it that have no other
  near::Source source;  // hosts, and the files of each
  std::shared_ptr<const store::Checkpoint> checkpoint;
  bool is_whole_here = false;  // it is read here, by the checkpoint itself; the source has no files

  bool has(size_t host, size_t file) const {
    return !is_whole_here && source.has(host, checkpoint->files()[file].name);
  }
};

struct SpreadFile {
  const SpreadCheckpoint* of = nullptr;
  size_t number = 0;  // in its checkpoint
  const store::CheckpointFile& facts() const { return of->checkpoint->files()[number]; }
  bool is_on(size_t host) const { return of->has(host, number); }
};

// `may_lack`: hosts without the folder have none of the files; else they are an error. NotFound: no host has the
// folder. Errors: those of list_hosts() and of Checkpoint::open, in which a file that no host has is one that is not
// there.
absl::StatusOr<SpreadCheckpoint> open_spread(const std::string& path, const std::vector<near::Host>& hosts,
                                             const near::Launch& launch, const store::OpenOptions& options,
                                             bool may_lack);

}  // namespace scalai::apps
