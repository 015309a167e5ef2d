#pragma once
// A mounted tree: a libfuse session and the threads that answer it. The mount is there from mount() until stop(), the
// destructor, or somebody else's unmount; a process that is killed leaves a dead one, which `clean_dead_mounts` (mounts.h)
// removes.
//
//   kernel ── request ──► a thread: NodeTable ─► the tree ─► ByteSource::read into a buffer, checked ── reply ──► kernel
//
// Files are read past the page cache (direct I/O: requests of 1 MiB, bytes are cached once, under the source) where the
// kernel lets such files be mapped all the same (Linux 6.6); else through it. README.md has the measurements.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vfs/internal/file_system.h"
#include "vfs/log.h"
#include "vfs/statistics.h"
#include "vfs/tree.h"

namespace scalai::vfs {

enum class ReadPath {
  kAuto,    // direct where files can be mapped all the same, else cached
  kDirect,  // also on kernels where MAP_SHARED then fails with ENODEV
  kCached,  // through the page cache; the second read of a file costs the server nothing
};

struct ServerOptions {
  std::string directory;     // where to mount; as mount_directory() gives it
  bool allow_other = false;  // other users may read
  int threads = 8;           // that answer requests, 1 to kMostThreads (CHECK)
  ReadPath reads = ReadPath::kAuto;
};
inline constexpr int kMostThreads = 256;

class Server {
 public:
  // Mounts and starts the threads; returns when the kernel and they have agreed. Nobody in this process may touch files of
  // the mount afterwards: killed in the middle of that, the process would wait for itself for ever. Installs a handler for SIGURG in this process, which
  // does nothing but wake threads. `log` outlives the server. NotFound: no /dev/fuse, or no right to mount.
  // InvalidArgument: one of ours is mounted there already, or another process is mounting there.
  static absl::StatusOr<std::unique_ptr<Server>> mount(std::shared_ptr<Directory> root, const ServerOptions& options,
                                                       Log& log, ControlHandler control);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Readable (poll) once nothing is mounted any more, whoever unmounted it.
  int ended() const;
  // Unmounts (never a mount that somebody else has put there meanwhile), also under open files, whose readers get errors from then on, and ends the threads. False: after
  // `patience_s` a thread was still in a source; the mount is gone, and all that is left to do is to end the process
  // without destructors.
  bool stop(double patience_s);

  const Statistics& statistics() const;
  bool reads_directly() const;
  size_t nodes() const;  // that the kernel holds

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::vfs
