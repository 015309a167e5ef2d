#pragma once
// A mounted tree: a libfuse session and the worker threads that answer it. Owns the mount from mount() until stop(),
// the destructor, or an unmount by another process. A killed process leaves a dead mount; clean_dead_mounts (mounts.h)
// removes it. One thread owns a Server; the accessors are thread-safe.
//
//   kernel ── request ──► a thread: NodeTable ─► the tree ─► ByteSource::read to a buffer, checked ── reply ──► kernel
//
// Files are read past the page cache (direct I/O, requests of 1 MiB; bytes are cached once, under the source) if the
// kernel can map such files as well (Linux 6.6); otherwise through the page cache. README.md has the measurements.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "vfs/internal/file_system.h"
#include "vfs/log.h"
#include "vfs/statistics.h"
#include "vfs/tree.h"

namespace scalai::vfs {

enum class ReadPath {
  kAuto,    // direct if the kernel can also map such files, otherwise cached
  kDirect,  // on kernels without that feature MAP_SHARED fails with ENODEV
  kCached,  // through the page cache; the second read of a file does not reach the server
};

struct ServerOptions {
  std::string directory;     // mount point, as mount_directory() returns it
  bool allow_other = false;  // other users may read
  int threads = 8;           // worker threads, 1 to kMostThreads (CHECK)
  ReadPath reads = ReadPath::kAuto;
};
inline constexpr int kMostThreads = 256;

class Server {
 public:
  // Mounts and starts the threads; returns after the handshake with the kernel. This process must not touch files of
  // the mount afterwards: if it is killed during such a call, it waits for itself for ever. Installs an empty handler
  // for SIGURG in this process; the signal wakes threads. `log` outlives the server. Worker threads call `root` and
  // `control`. NotFound: no /dev/fuse, or no permission to mount. InvalidArgument: the directory has a scalai mount
  // already, or another process is mounting there. Aborted: another mount hides this one, no answer of the kernel, no
  // thread.
  static absl::StatusOr<std::unique_ptr<Server>> mount(std::shared_ptr<Directory> root, const ServerOptions& options,
                                                       Log& log, ControlHandler control);
  ~Server();  // stop(10); if a thread is still in a source then, ends the process with exit code 5
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // File descriptor, readable (poll) after the last thread ended: after an unmount by anybody, or a stop. The server
  // owns it.
  int ended() const;
  // Unmounts and joins the threads. Open files do not prevent it: their readers get errors from then on. Never removes
  // a mount of another server at the same directory. False: after `patience_s` a thread was still in a source; the
  // mount is gone, and the process can only end without destructors.
  bool stop(double patience_s);

  const Statistics& statistics() const;
  bool reads_directly() const;
  size_t nodes() const;  // nodes that the kernel holds

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::vfs
