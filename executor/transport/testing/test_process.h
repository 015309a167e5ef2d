#pragma once
// For tests: a second process that serves patterns through a UcxTransport, started from the same executable. It is told
// what to do by lines on its standard input.

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "executor/transport/peer_transport.h"

namespace scalai::executor::transport::internal {

// Of the transports of one test.
inline constexpr const char* kTestKey = "the key of the run of the test";

// Runs the executable with this argument as a serving process.
inline constexpr const char* kServe = "--serve";
int serve();

// Answers "KIND SEED BYTES" with a pattern: KIND owned, parts (many, uneven), produced, or slow (produced, 50 ms a
// chunk); and "error CODE TEXT" with that status.
absl::StatusOr<Payload> process_handler(std::string_view request);
std::byte expected_byte(uint64_t seed, int64_t index);

class TestProcess {
 public:
  TestProcess();
  ~TestProcess();  // kills it
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  const std::string& address() const { return address_; }
  void signal(int number) const { ::kill(pid_, number); }
  void freeze() const;  // SIGSTOP, and waits until all its threads stand still
  int end();            // lets it close its transport and leave; its exit code

  void connect(int peer, const std::string& address);
  // Fetches `count` random pieces from each connected peer, all peers at once.
  void start_storm(uint64_t seed, int count);
  std::string storm_result();  // "ok", or what went wrong, peer by peer

 private:
  std::string line();
  void tell(const std::string& line);

  pid_t pid_ = -1;
  std::FILE* in_ = nullptr;   // to its standard input
  std::FILE* out_ = nullptr;  // from its standard output
  std::string address_;
};

}  // namespace scalai::executor::transport::internal
