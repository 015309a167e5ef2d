#include "executor/state/huge_pages.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace scalai::executor::state {

HugePageSupport huge_page_support(const std::string& root) {
  const std::string folder = root + "/sys/kernel/mm/transparent_hugepage/";
  HugePageSupport support;
  std::ifstream settings(folder + "shmem_enabled");
  for (std::string word; settings >> word;)
    if (word.starts_with("[") && word.ends_with("]")) support.setting = word.substr(1, word.size() - 2);
  support.unasked = support.setting == "always" || support.setting == "within_size" || support.setting == "force";
  std::ifstream size(folder + "hpage_pmd_size");
  int64_t bytes = 0;
  if ((support.unasked || support.setting == "advise") && size >> bytes && bytes > 0) support.page_bytes = bytes;
  return support;
}

std::string no_huge_pages(const HugePageSupport& support) {
  return fmt::format(
      "the kernel gives shared memory no huge pages: shmem_enabled is {}\nhint: echo advise > "
      "/sys/kernel/mm/transparent_hugepage/shmem_enabled (as root), or --huge-pages=auto",
      support.setting.empty() ? "not there" : support.setting);
}

std::shared_ptr<const void> huge_range() {
  static const int64_t most = [] {
    int64_t mappings = 65530;  // the kernel's default
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return mappings / 16;  // two mappings each
  }();
  static std::atomic<int64_t> used = 0;
  if (used.fetch_add(1) >= most) {
    --used;
    return nullptr;
  }
  return {&used, [](const void*) { --used; }};
}

void* map_shared(int fd, size_t bytes, int protection, int64_t grain) {
  const auto more = static_cast<size_t>(grain);
  void* const space = ::mmap(nullptr, bytes + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<std::byte*>(space);
  const size_t before = (more - reinterpret_cast<uintptr_t>(first) % more) % more;
  std::byte* const base = first + before;
  void* const mapped = ::mmap(base, bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    ::munmap(space, bytes + more);
    errno = error;
    return MAP_FAILED;
  }
  if (before > 0) ::munmap(first, before);
  if (before < more) ::munmap(base + bytes, more - before);
  return mapped;
}

int64_t bytes_on_huge_pages(const void* base, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(base), last = first + bytes;
  std::ifstream maps("/proc/self/smaps");
  int64_t found = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      ours = begin >= first && end <= last;
    } else if (ours && std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNd64, &kib) == 1) {
      found += kib * 1024;
    }
  }
  return found;
}

}  // namespace scalai::executor::state
