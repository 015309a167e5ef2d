#pragma once
// Files on HTTP(S) servers as ByteSources, read by ranges, with blocks kept in memory and, when a folder is given, on
// disk.
//
//   read ─► blocks ─► in memory? on its way? ─► on disk, checksum right? ─► one GET for neighbours ─► memory, disk
//
// A source shows the file as it was when opened. When the server's ETag, date or size changes, reads that need the
// server fail; blocks in memory and on disk are named after the version, so old and new never mix. Servers that ignore
// ranges are refused. Addresses may hold secrets: messages and names of sources have no user, password or query.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "vfs/remote/http_client.h"
#include "vfs/remote/retry.h"

namespace scalai::vfs {

struct RemoteOptions {
  HttpOptions http;
  RetryPolicy retry;
  int64_t block_bytes = int64_t{1} << 20;          // 4 KiB to 64 MiB
  int64_t most_request_bytes = int64_t{16} << 20;  // neighbouring blocks are one request up to here
  int64_t read_ahead_bytes = int64_t{4} << 20;     // beyond what was asked for, when reads follow each other; 0: none
  int64_t memory_bytes = int64_t{64} << 20;        // of blocks kept in memory
  std::string cache_folder;                        // empty: nothing on disk
  int64_t cache_bytes = int64_t{10} << 30;         // on disk at most; see block_cache.h
};

struct RemoteStatistics {
  int64_t requests = 0, retries = 0;  // GETs sent, and how many of them because one before had failed
  int64_t bytes_fetched = 0;
  int64_t unversioned = 0;  // sources opened whose server gives neither ETag nor date: nothing of them stays on disk
  int64_t disk_hits = 0, disk_damaged = 0, disk_stored = 0, disk_not_stored = 0, disk_evicted = 0;  // blocks
};

// What the sources of a program share: connections, the blocks in memory, the cache on disk. Safe from several threads.
// No thread of its own; but libcurl does not survive a fork, so make it after a program went into the background.
class Remote : public std::enable_shared_from_this<Remote> {
 public:
  // Errors: InvalidArgument: an option out of range; NotFound: the cache folder cannot be made or written.
  static absl::StatusOr<std::shared_ptr<Remote>> make(RemoteOptions options);
  virtual ~Remote() = default;

  // One request, to learn size and version. Errors name the address. NotFound: it is not there, or there is no right to
  // it (401, 403); InvalidArgument: not an http:// or https:// address, or a server without ranges; Aborted: not
  // reached. Reads of the source: InvalidArgument: the file was changed or is gone; Aborted: all attempts failed. It
  // keeps this object alive.
  virtual absl::StatusOr<ByteSourcePtr> open(const std::string& url) const = 0;
  virtual RemoteStatistics statistics() const = 0;
};

// One file, with what is needed made for it alone.
absl::StatusOr<ByteSourcePtr> open_remote_source(const std::string& url, RemoteOptions options = {});

// Opens paths by open_file_source and http(s) addresses by one Remote for all. Errors are those of Remote::make.
absl::StatusOr<SourceOpener> make_opener(RemoteOptions options = {});

// Reads all of it and compares with the checksum that is known from elsewhere: XXH3 with 128 bits, as `xxhsum -H2`
// prints it. InvalidArgument names the source and both checksums.
absl::Status verify_xxh3_128(const ByteSource& source, const std::string& hex);

}  // namespace scalai::vfs
