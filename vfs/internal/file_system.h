#pragma once
// What the operations of a mounted file system work on. No type of libfuse is in here.

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "vfs/internal/buffer_pool.h"
#include "vfs/log.h"
#include "vfs/node_table.h"
#include "vfs/statistics.h"
#include "vfs/tree.h"

namespace scalai::vfs {

// Answers a request on the control channel (control.h).
using ControlHandler = std::function<absl::StatusOr<std::string>(const std::string& request)>;

struct OpenFile {
  std::string path;
  ByteSourcePtr source;
};

// The open files, by the address that the kernel keeps as their handle. Those of a mount that goes while they are open
// are never released by the kernel, but go with this. Any thread.
class OpenFiles {
 public:
  const OpenFile* add(OpenFile file) {
    auto open = std::make_unique<const OpenFile>(std::move(file));
    const OpenFile* const handle = open.get();
    const std::lock_guard lock(mutex_);
    files_.emplace(handle, std::move(open));
    return handle;
  }
  void remove(const OpenFile* handle) {
    std::unique_ptr<const OpenFile> gone;  // is closed without the lock
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(handle);
    if (found == files_.end()) return;
    gone = std::move(found->second);
    files_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const OpenFile*, std::unique_ptr<const OpenFile>> files_;
};

struct FileSystem {
  static constexpr size_t kBufferBytes = size_t{1} << 20;  // the most that kernels ask for at once

  FileSystem(std::shared_ptr<Directory> root, Log& where, ControlHandler handler)
      : nodes(std::move(root)), log(where), control(std::move(handler)) {}

  NodeTable nodes;
  Log& log;
  ControlHandler control;
  Statistics statistics;
  OpenFiles open;
  BufferPool buffers{kBufferBytes};
  uint32_t uid = 0, gid = 0;  // of who mounted: owner of all that is shown
  timespec mounted_at = {};

  // How files are opened: past the page cache, or through it.
  std::atomic<bool> direct = false;
  // The kernel's offer to map files opened for direct I/O: looked for, seen, accepted.
  bool wants_mapped_direct = false;
  std::atomic<bool> negotiating = true;
  std::atomic<bool> offered = false;
};

}  // namespace scalai::vfs
