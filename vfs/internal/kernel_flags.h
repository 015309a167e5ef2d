#pragma once
// One feature of the kernel (since Linux 6.6) that libfuse 3.14 does not know: files that are read without the page
// cache may be mapped all the same. The first messages of a connection agree on features; we look into them on their
// way and add this one when the kernel offers it. Pure functions on bytes; the layouts are those of <linux/fuse.h>.

#include <cstddef>
#include <span>

namespace scalai::vfs {

// Whether this message from the kernel is its first (INIT) and offers to map files opened for direct I/O.
bool offers_mapped_direct_io(std::span<const std::byte> request);
// Accepts the offer in our answer to INIT: the reply behind its header, as libfuse made it. False: the answer is not
// long enough to say so, nothing is changed.
bool accept_mapped_direct_io(std::span<std::byte> init_reply);

}  // namespace scalai::vfs
