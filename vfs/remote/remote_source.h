#pragma once
// Files on HTTP(S) servers as ByteSources: read by ranges, with blocks cached in memory and optionally on disk.
//
//   read ─► blocks ─► in memory? on its way? ─► on disk, checksum right? ─► one GET for neighbours ─► memory, disk
//
// A source shows the file as it was when opened. If the server's ETag, date or size changes, reads that need the server
// fail. Blocks are keyed by version, so old and new bytes never mix. Of a server that says neither ETag nor date the
// first bytes of a block count: other ones later are an error, and confirm() reads all blocks that were used again.
// Servers without ranges are refused. URLs may contain secrets: messages and names of sources have no user, password or
// query.

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
  int64_t most_request_bytes = int64_t{16} << 20;  // neighbouring blocks form one request up to this size
  int64_t read_ahead_bytes = int64_t{4} << 20;     // beyond the requested bytes, for sequential reads; 0: none
  int64_t memory_bytes = int64_t{64} << 20;        // bound of the blocks in memory
  std::string cache_folder;                        // empty: no disk cache
  int64_t cache_bytes = int64_t{10} << 30;         // bound on disk; see block_cache.h
  bool require_version = false;                    // open() refuses files without ETag and date
  bool trust_source = false;                       // takes those files for unchanged: not refused, and not read again
};

struct RemoteStatistics {
  int64_t requests = 0, retries = 0;  // GETs sent; GETs after a failed one
  int64_t bytes_fetched = 0;
  int64_t unversioned = 0;  // opened sources without ETag and date: never on disk
  int64_t disk_hits = 0, disk_damaged = 0, disk_stored = 0, disk_not_stored = 0, disk_evicted = 0;  // blocks
};

// Shared by all sources of a program: connections, memory cache, disk cache. Thread-safe, without own threads. libcurl
// does not survive a fork: create it after the process went into the background.
class Remote : public std::enable_shared_from_this<Remote> {
 public:
  // InvalidArgument: an option out of range, or a disk cache too small for a block. NotFound: the cache folder cannot
  // be created or written.
  static absl::StatusOr<std::shared_ptr<Remote>> make(RemoteOptions options);
  virtual ~Remote() = default;

  // Sends one request for size and version. The source shares ownership of this object. Errors name the address.
  // NotFound: no such file, or no permission (401, 403). InvalidArgument: no http(s) address, a server without
  // ranges, or one without versions where these are required. Aborted: not reachable. Reads of the source:
  // InvalidArgument: the file changed or is gone; Aborted: all attempts failed.
  virtual absl::StatusOr<ByteSourcePtr> open(const std::string& url) const = 0;
  virtual RemoteStatistics statistics() const = 0;
};

// One file with a Remote of its own.
absl::StatusOr<ByteSourcePtr> open_remote_source(const std::string& url, RemoteOptions options = {});

// An opener of local paths (open_file_source) and http(s) addresses (one Remote, owned by the opener). Errors of
// Remote::make.
absl::StatusOr<SourceOpener> make_opener(RemoteOptions options = {});

// Reads the whole source and compares its 128-bit XXH3 with `hex`, 32 digits as `xxhsum -H2` prints them.
// InvalidArgument names the source and both checksums; read errors are returned.
absl::Status verify_xxh3_128(const ByteSource& source, const std::string& hex);

}  // namespace scalai::vfs
