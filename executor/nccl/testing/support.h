#pragma once
// What the tests of this folder share: the fake in NCCL's place, deadlines, data that says where it comes from.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "executor/nccl/communicator.h"
#include "executor/nccl/library.h"
#include "ptc/base/random.h"

namespace scalai::executor::nccl {

using std::chrono::milliseconds;

inline Deadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }
inline Deadline soon_enough() { return in(milliseconds(15'000)); }

inline const NcclLibrary& fake_nccl() {
  static const auto* const library = new absl::StatusOr<NcclLibrary>(NcclLibrary::open(SCALAI_FAKE_NCCL));
  if (!library->ok()) std::abort();
  return **library;
}

inline int64_t ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin).count();
}

// An environment variable for as long as it lives; the fake reads it when a communicator is made.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~ScopedEnvironment() { ::unsetenv(name_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
};

// What `src` sends to `dst` as its n-th message. Its first bytes differ for any two messages.
inline std::vector<std::byte> message(uint64_t seed, int src, int dst, int n, size_t bytes) {
  std::vector<std::byte> data(bytes);
  const uint64_t mark = (seed * 1'000'003 + static_cast<uint64_t>((src * 64 + dst) * 4096 + n)) * 0x9E3779B97F4A7C15ULL;
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((mark + i * 0x9E3779B97F4A7C15ULL) >> 56);
  return data;
}

// Sizes that any rank can compute: most are small, some take many reads of a socket, some are nothing.
inline size_t size_of(uint64_t seed, int src, int dst, int n) {
  Random random(seed * 7'919 + static_cast<uint64_t>((src * 64 + dst) * 4096 + n));
  return random.below(8) == 0 ? 0 : static_cast<size_t>(random.between(1, int64_t{1} << random.between(0, 20)));
}

// Each rank sends `each` messages to each, itself included, in one group, and a broadcast from each stands among them.
// "" when all arrived as they were sent.
inline absl::Status all_to_all(Communicator& communicator, uint64_t seed, int each, Deadline deadline) {
  const int rank = communicator.rank(), size = communicator.size();
  std::vector<std::vector<std::byte>> sent, got, expected;
  const auto room = [](std::vector<std::vector<std::byte>>& list, std::vector<std::byte> data) {
    list.push_back(std::move(data));
    return list.back().data();
  };
  if (absl::Status status = communicator.start_group(); !status.ok()) return status;
  absl::Status problem;
  for (int peer = 0; peer < size; ++peer) {
    for (int n = 0; n < each; ++n) {
      const size_t out = size_of(seed, rank, peer, n), back = size_of(seed, peer, rank, n);
      problem.Update(communicator.send(peer, room(sent, message(seed, rank, peer, n, out)), out, nullptr));
      room(expected, message(seed, peer, rank, n, back));
      problem.Update(communicator.receive(peer, room(got, std::vector<std::byte>(back)), back, nullptr));
    }
    const size_t bytes = size_of(seed, peer, 63, 0);
    const auto* from = peer == rank ? room(sent, message(seed, peer, 63, 0, bytes)) : nullptr;
    room(expected, message(seed, peer, 63, 0, bytes));
    problem.Update(communicator.broadcast(peer, from, room(got, std::vector<std::byte>(bytes)), bytes, nullptr));
  }
  if (problem.ok()) problem = communicator.end_group(deadline);
  if (problem.ok() && got != expected) return absl::DataLossError(fmt::format("rank {} got wrong bytes", rank));
  return problem;
}

}  // namespace scalai::executor::nccl
