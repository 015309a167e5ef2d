#pragma once
// Read-ahead for sequential readers of slow sources, such as remote ones: fetches the next bytes while the reader
// works. A ReadAhead owns a few threads, shared by all sources that it wraps. Each wrapped source follows one reader,
// so wrap once for each open file. Each byte that is read ahead is taken from the source once and handed on once.
//
// A read is sequential if it starts at the end of the last one, or at most a window before or after it (the kernel asks
// for neighbouring pages in any order). The window starts small and doubles while the reader goes on, up to the
// largest; a jump drops it. Memory: at most two windows and a fetch for a source, and never more than `memory_bytes`
// for all.
//
// Any thread may call; several may call at once. A wrapped source may outlive its ReadAhead; it then reads directly.

#include <cstdint>
#include <memory>

#include "ptc/base/byte_source.h"

namespace scalai::datasets {

struct ReadAheadOptions {
  int threads = 4;                   // number of simultaneous fetches
  int64_t memory_bytes = 256 << 20;  // held or in flight, for all readers together
  int64_t first_window = 256 << 10;
  int64_t largest_window = 16 << 20;
  int64_t largest_fetch = 2 << 20;  // one request to the source; a large window takes several
};

class ReadAhead {
 public:
  explicit ReadAhead(const ReadAheadOptions& options = {});
  ~ReadAhead();  // drops queued fetches, waits for running ones
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // A source with the same bytes, name and size; it shares ownership of `source`. The error of a fetch goes to the
  // reads that wait for its bytes, or to the first read after it; a later read asks the source again. Release of the
  // last owner drops queued fetches; a running fetch ends in the background and its bytes are discarded.
  ByteSourcePtr wrap(ByteSourcePtr source) const;

  // Bytes held or in flight, for tests and statistics.
  int64_t held_bytes() const;

  struct Core;  // threads, queue and budget; private to readahead.cpp

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace scalai::datasets
