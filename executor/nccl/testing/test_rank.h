#pragma once
// For tests: a rank in a process of its own, started from the same executable and driven by lines on its standard
// input; each is answered by one line, "ok" or the status and the milliseconds it took.

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "executor/nccl/communicator.h"
#include "ptc/base/process.h"

namespace scalai::executor::nccl {

inline constexpr const char* kRankArgument = "--rank";
int run_rank();  // the other end

class RankProcess {
 public:
  // `environment`: "NAME=value", for it alone.
  explicit RankProcess(const SpawnOptions::Variables& environment = {});
  ~RankProcess();  // kills it
  RankProcess(RankProcess&&) noexcept;
  RankProcess& operator=(RankProcess&&) noexcept;

  void signal(int number) const { ::kill(pid_, number); }
  int end();  // lets it leave and exit; its exit code

  // Commands; the answer is read by answer().
  void join(const NcclUniqueId& id, int rank, int size, int64_t time_ms);
  void all_to_all(uint64_t seed, int each, int64_t time_ms);
  void ring(size_t bytes, int64_t time_ms);
  void shrink(const std::vector<int>& gone, int64_t time_ms);  // and goes on with the new one
  void abort();

  struct Answer {
    std::string result;  // "ok", or the name of the status' code and its message
    int64_t ms = 0;      // it took
  };
  Answer answer();

 private:
  void tell(const std::string& line);

  pid_t pid_ = -1;
  std::FILE* in_ = nullptr;   // to its standard input
  std::FILE* out_ = nullptr;  // from its standard output
};

}  // namespace scalai::executor::nccl
