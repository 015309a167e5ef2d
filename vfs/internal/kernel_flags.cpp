#include "vfs/internal/kernel_flags.h"

#include <linux/fuse.h>

#include <cstdint>
#include <cstring>

namespace scalai::vfs {
namespace {

// Of newer headers than Debian 12 has: FUSE_DIRECT_IO_ALLOW_MMAP is bit 36 of the features, so bit 4 of the second
// word.
constexpr uint32_t kAllowMmap = 1U << 4;

}  // namespace

bool offers_mapped_direct_io(std::span<const std::byte> request) {
  fuse_in_header header = {};
  fuse_init_in init = {};
  if (request.size() < sizeof(header) + sizeof(init)) return false;
  std::memcpy(&header, request.data(), sizeof(header));
  if (header.opcode != FUSE_INIT) return false;
  std::memcpy(&init, request.data() + sizeof(header), sizeof(init));
  return (init.flags & FUSE_INIT_EXT) != 0 && (init.flags2 & kAllowMmap) != 0;
}

bool accept_mapped_direct_io(std::span<std::byte> init_reply) {
  fuse_init_out reply = {};
  if (init_reply.size() < sizeof(reply)) return false;
  std::memcpy(&reply, init_reply.data(), sizeof(reply));
  reply.flags |= FUSE_INIT_EXT;
  reply.flags2 |= kAllowMmap;
  std::memcpy(init_reply.data(), &reply, sizeof(reply));
  return true;
}

}  // namespace scalai::vfs
