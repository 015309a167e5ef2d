#pragma once
// One record of a recording: this header, then the path, the other path, then the data. Written by the recorder with
// one write(2) each, in the order in which the operations took effect, over all processes.

#include <cstdint>

namespace scalai::crash {

enum class Kind : uint32_t {
  kMark,      // data: a text of the workload; what returned before it has been promised
  kMakeFile,  // path, inode
  kMakeFolder,
  kWrite,     // path, inode, offset, data
  kResize,    // path, inode, length: the new size, larger or smaller
  kSync,      // path, inode: fsync or fdatasync of a file, fsync of a folder
  kSyncAll,   // sync, syncfs
  kRename,    // path → other
  kExchange,  // path ↔ other
  kLink,      // path → other, a second name of one file
  kSymlink,   // path; data: the target
  kUnlink,    // path
  kRemoveFolder,
  kUnknown,  // data: a call that the recorder cannot describe; the recording is refused
};

struct RecordHeader {
  uint32_t magic = kMagic;
  Kind kind = Kind::kMark;
  uint64_t inode = 0;
  int64_t offset = 0;
  int64_t length = 0;
  uint32_t path_bytes = 0;
  uint32_t other_bytes = 0;
  uint64_t data_bytes = 0;
  uint32_t process = 0;
  uint32_t unused = 0;
  static constexpr uint32_t kMagic = 0x48535243;
};

inline constexpr const char* kRootVariable = "SCALAI_RECORD_ROOT";
inline constexpr const char* kLogVariable = "SCALAI_RECORD_LOG";
// Exported by the recorder, absent without it: void(const char* text).
inline constexpr const char* kMarkFunction = "scalai_record_mark";

}  // namespace scalai::crash
