#include "vfs/internal/buffer_pool.h"

#include <gtest/gtest.h>

#include <optional>

namespace scalai::vfs {
namespace {

TEST(BufferPool, UsesTheLastBufferFirst) {
  BufferPool pool(1000);
  std::optional<BufferPool::Buffer> a(pool.take());
  std::optional<BufferPool::Buffer> b(pool.take());
  std::byte* const first = a->data();
  std::byte* const second = b->data();
  EXPECT_NE(first, second);
  first[999] = std::byte{1};
  a.reset();
  b.reset();
  EXPECT_EQ(pool.idle(), 2u);
  EXPECT_EQ(pool.take().data(), second);
  const BufferPool::Buffer again = pool.take();
  EXPECT_EQ(again.data(), second) << "it went back at once";
  EXPECT_EQ(pool.take().data(), first);
  EXPECT_EQ(pool.idle(), 1u);
}

}  // namespace
}  // namespace scalai::vfs
