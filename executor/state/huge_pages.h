#pragma once
// Huge pages of shared memory: what the kernel gives memfds, and what a mapping has of it. Reads /sys and /proc. Any
// thread.
//
// /sys/kernel/mm/transparent_hugepage/shmem_enabled decides: "always", "within_size" and "force" for all files,
// "advise" for mappings that ask, "never" and "deny" for none. MADV_COLLAPSE would do without, but copies: it takes
// several times as long as small pages.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace scalai::executor::state {

enum class HugePages {
  kAuto,     // where the kernel has them
  kOff,      // small ones only
  kRequire,  // an error where it has none
};

struct HugePageSupport {
  std::string setting;     // of the kernel; "" = it has none
  int64_t page_bytes = 0;  // of a huge page; 0: none for us
  bool unasked = false;    // also where nobody asks
};
// `root`: in front of /sys, for tests.
HugePageSupport huge_page_support(const std::string& root = "");
// What to do where there are none.
std::string no_huge_pages(const HugePageSupport& support);

// A range of a mapping that may be told apart from its neighbours, which costs the process two of its mappings
// (vm.max_map_count): held as long as it is. Null: an eighth of them are in use so, and the rest is for threads and the
// like.
std::shared_ptr<const void> huge_range();

// Maps a file of `bytes`, whole pages, shared, at a multiple of `grain`, so that its huge pages can be entered into
// page tables as such. `protection` as of mmap(2), which says MAP_FAILED and errno, too. munmap() of `bytes` ends it.
void* map_shared(int fd, size_t bytes, int protection, int64_t grain);

// Bytes of [base, base + bytes), mappings of this process, that are mapped by huge pages. Takes longer, the more small
// pages there are.
int64_t bytes_on_huge_pages(const void* base, size_t bytes);

}  // namespace scalai::executor::state
