#pragma once
// LiveHolders: which readers have which blocks of the steps that are shown (executor/live), so that others read them
// there and not all from the workers.
//
//   touch(A, block 7) ──► nobody: workers          touch(C, block 7) ──► B, A: the nearest, then who gives least
//   touch(B, block 7) ──► A                        touch(D, block 7) ──► C, …
//
// Whoever touches a block holds it from then on, though it may still be fetching it: so readers that read the same at
// the same time are a chain, each the source of the next, and the workers give it once. What is wrong here costs an
// asker a question to the next source. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace scalai::executor::controller {

class LiveHolders {
 public:
  struct Reader {
    std::string machine;
    std::string address;  // where it answers others; empty: it holds nothing for others
  };
  static constexpr size_t kMostSources = 2;               // that an asker is told
  static constexpr size_t kMostHolders = 16;              // of a block that are known; later ones are not
  static constexpr size_t kMostBlocks = size_t{1} << 22;  // of a version that are known
  static constexpr double kHot = 1.18;                    // x the mean; the goal is 1.2
  static constexpr double kMostAgain = 0.5;               // of the bytes, that workers give once more

  // A word of a reader, which keeps these versions: of others it holds nothing more.
  void note_reader(uint64_t reader, Reader where, const std::set<int64_t>& versions);
  // It is gone.
  void remove(uint64_t reader);
  void forget(int64_t version);
  // So many hosts of workers hold the version, and so many readers keep it. Unsaid: workers give each block once.
  void expect(int64_t version, int64_t hosts, int64_t readers);

  struct Source {
    uint64_t reader = 0;
    std::string address;
  };
  // Where a reader that was noted finds a block, in the order of asking; empty: at the workers. It holds the block from
  // then on, and `dropped` no more. `unreached`: readers that are not named.
  struct Block {
    int64_t version = 0, number = 0, bytes = 0;
  };
  std::vector<Source> touch(uint64_t reader, const Block& block, std::span<const int64_t> dropped = {},
                            std::span<const uint64_t> unreached = {});

 private:
  struct Version {
    std::unordered_map<int64_t, std::vector<uint64_t>> holders;  // by block, the first one first
    std::map<uint64_t, int64_t> given_bytes;                     // of each holder, if who was told to ask it did
    int64_t hosts = 0, readers = 0;
    int64_t first_bytes = 0, again_bytes = 0;  // of workers: what no reader had, and instead of hot readers
    bool workers_again(int64_t given, int64_t bytes) const;
  };
  static void remove(Version& version, uint64_t reader);

  std::map<uint64_t, Reader> readers_;
  std::map<int64_t, Version> versions_;
};

}  // namespace scalai::executor::controller
