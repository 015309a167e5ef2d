#pragma once
// Fetches what a sequential reader will want next while it works on what it has: for sources that answer slowly, such as
// remote ones. A ReadAhead owns the threads, few and shared by all sources that it wraps; each wrapped source follows one
// reader, so wrap once an open file. Bytes that are read ahead are taken from the source once and handed on once.
//
// A read that begins where the last one ended is sequential, and so is one at most a window before or after it (the
// kernel asks for neighbouring pages in any order). The window of bytes fetched ahead starts small and doubles as the
// reader goes on, up to the largest; a jump drops it. Memory: at most two windows and a fetch for a source, and never
// more than `memory_bytes` for all.
//
// Safe from several threads. A wrapped source may outlive its ReadAhead; it then reads without help.

#include <cstdint>
#include <memory>

#include "ptc/base/byte_source.h"

namespace scalai::data {

struct ReadAheadOptions {
  int threads = 4;                   // fetches at the same time
  int64_t memory_bytes = 256 << 20;  // held or on their way for all readers together
  int64_t first_window = 256 << 10;
  int64_t largest_window = 16 << 20;
  int64_t largest_fetch = 2 << 20;  // one request to the source; a large window is several
};

class ReadAhead {
 public:
  explicit ReadAhead(const ReadAheadOptions& options = {});
  ~ReadAhead();  // drops what is queued, waits for the fetches that are running
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The same bytes, name and size. The error of a fetch is given to the reads that want its bytes and are there or come
  // first; a later read asks the source again. When the last owner lets go, what is queued is dropped; a running fetch
  // ends in the background and its bytes are thrown away.
  ByteSourcePtr wrap(ByteSourcePtr source) const;

  // Bytes held or on their way, for tests and statistics.
  int64_t held_bytes() const;

  struct Core;  // threads, queue and budget; private to readahead.cpp

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace scalai::data
