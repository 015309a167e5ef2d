#pragma once
// Runtime of mutants: `on(n)` is true in a process whose environment says SCALAI_MUTANT=n. With
// SCALAI_MUTANTS_REACHED=FILE, byte n of FILE becomes 1 once mutant n is reached; FILE has its full size before. Child
// processes inherit both. Standard library and POSIX only: any source may include this. Any thread may call.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace mutant {

struct State {
  int active = -1;
  long reached_size = 0;
  unsigned char* reached = nullptr;

  State() {
    if (const char* number = std::getenv("SCALAI_MUTANT")) active = std::atoi(number);
    const char* path = std::getenv("SCALAI_MUTANTS_REACHED");
    if (path == nullptr) return;
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    struct stat about {};
    if (file < 0 || ::fstat(file, &about) != 0) return;
    void* bytes = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (bytes == MAP_FAILED) return;
    reached = static_cast<unsigned char*>(bytes);
    reached_size = about.st_size;
  }
};

inline State& state() {
  static State state;
  return state;
}

inline bool on(int number) {
  State& mutants = state();
  if (number < mutants.reached_size) __atomic_store_n(&mutants.reached[number], 1, __ATOMIC_RELAXED);
  return mutants.active == number;
}

}  // namespace mutant
