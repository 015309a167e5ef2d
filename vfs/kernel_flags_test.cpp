#include "vfs/internal/kernel_flags.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <array>
#include <cstring>
#include <vector>

namespace scalai::vfs {
namespace {

std::vector<std::byte> first_request(uint32_t opcode, uint32_t flags, uint32_t flags2) {
  std::vector<std::byte> bytes(sizeof(fuse_in_header) + sizeof(fuse_init_in));
  const fuse_in_header header = {.len = static_cast<uint32_t>(bytes.size()), .opcode = opcode};
  const fuse_init_in init = {.major = 7, .minor = 45, .max_readahead = 131072, .flags = flags, .flags2 = flags2};
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &init, sizeof(init));
  return bytes;
}

TEST(KernelFlags, SeesTheOffer) {
  EXPECT_TRUE(offers_mapped_direct_io(first_request(FUSE_INIT, FUSE_INIT_EXT, 1U << 4)));
  EXPECT_FALSE(offers_mapped_direct_io(first_request(FUSE_INIT, FUSE_INIT_EXT, 1U << 5)));
  EXPECT_FALSE(offers_mapped_direct_io(first_request(FUSE_INIT, 0, 1U << 4))) << "flags2 does not count";
  EXPECT_FALSE(offers_mapped_direct_io(first_request(FUSE_LOOKUP, FUSE_INIT_EXT, 1U << 4)));
  std::vector<std::byte> old = first_request(FUSE_INIT, FUSE_INIT_EXT, 1U << 4);
  old.resize(sizeof(fuse_in_header) + 16);  // as kernels before 5.17 send it
  EXPECT_FALSE(offers_mapped_direct_io(old));
  EXPECT_FALSE(offers_mapped_direct_io({}));
}

TEST(KernelFlags, AcceptsItAndKeepsTheRest) {
  std::array<std::byte, sizeof(fuse_init_out)> bytes;
  fuse_init_out reply = {};
  reply.major = 7;
  reply.flags = FUSE_ASYNC_READ;
  reply.max_pages = 256;
  std::memcpy(bytes.data(), &reply, sizeof(reply));
  ASSERT_TRUE(accept_mapped_direct_io(bytes));
  std::memcpy(&reply, bytes.data(), sizeof(reply));
  EXPECT_EQ(reply.flags, static_cast<uint32_t>(FUSE_ASYNC_READ | FUSE_INIT_EXT));
  EXPECT_EQ(reply.flags2, 1U << 4);
  EXPECT_EQ(reply.max_pages, 256);
  std::array<std::byte, FUSE_COMPAT_22_INIT_OUT_SIZE> old = {};
  EXPECT_FALSE(accept_mapped_direct_io(old));
}

}  // namespace
}  // namespace scalai::vfs
