#pragma once
// One rank of the fake NCCL: a socket to each other rank and a thread that moves bytes. It imitates the behaviour of
// NCCL that the code above depends on: calls return at once, the state shows their outcome later, groups run
// concurrently, operations of a pair match in order, a dead peer is an error at the others, an abort ends all.
//
//   rank r listens at the abstract Unix address NAME.r and connects to all lower ranks, with retries. Each connection
//   begins with a hello; a message is a header and its bytes; a leaving rank announces it.
//
// post(), finalize(), state() from any thread. The buffers of a group must live, and belong to the rank's thread, while
// state() is in progress.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/nccl/nccl_api.h"

namespace scalai::executor::nccl::fake {

enum class Kind : uint32_t { kHello = 1, kMessage, kBroadcast, kLeave };

struct Operation {
  bool outgoing = false;
  Kind kind = Kind::kMessage;
  int peer = 0;
  const std::byte* from = nullptr;
  std::byte* into = nullptr;
  size_t bytes = 0;
};

struct Header {
  uint32_t kind = 0;
  uint32_t rank = 0;   // of a hello
  uint64_t bytes = 0;  // of a hello: the number of ranks
};

class FakeCommunicator {
 public:
  FakeCommunicator(std::string name, int rank, int size);
  ~FakeCommunicator();  // ends all operations
  FakeCommunicator(const FakeCommunicator&) = delete;
  FakeCommunicator& operator=(const FakeCommunicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

  NcclResult state() const { return state_; }
  std::string problem() const;
  // Posts the operations of one group. Refused while another group is in progress.
  NcclResult post(std::vector<Operation> operations, bool never_done);
  NcclResult finalize();

 private:
  struct Peer {
    int socket = -1;
    bool left = false;     // it announced its leaving
    bool blocked = false;  // bytes wait without a matching receive
    std::deque<Operation> sending, receiving;
    // Incoming: a header, then the bytes of the matching operation.
    Header header;
    size_t header_got = 0;
    bool matched = false;
    Operation current;
    size_t current_got = 0;
    // Outgoing.
    std::vector<std::byte> out_header;
    size_t out_header_sent = 0, out_sent = 0;
    bool sending_now = false;
  };
  struct Newcomer {
    int socket = -1;
    Header hello;
    size_t got = 0;
  };

  void run();
  bool listen();
  void connect_lower();
  void accept_higher();
  void read_hellos();
  bool take_hello(Newcomer& newcomer);
  void take_posted();
  void exchange_with_self(Peer& self);
  void send_some(Peer& peer);
  void receive_some(Peer& peer);
  bool read_header(Peer& peer);
  bool match(Peer& peer);
  bool read_bytes(Peer& peer);
  void lost(Peer& peer, const char* how);
  void say_leaving();
  void settle();
  void fail(NcclResult result, const std::string& problem);
  void sleep();
  void close_all();

  const std::string name_;
  const int rank_, size_;
  std::atomic<NcclResult> state_{NcclResult::kInProgress};
  int listener_ = -1, wake_ = -1;
  std::vector<Peer> peers_;
  std::vector<Newcomer> newcomers_;
  int joined_ = 0;
  size_t open_operations_ = 0;

  mutable std::mutex mutex_;
  std::string problem_;
  std::vector<Operation> posted_;
  bool hang_ = false, finalize_ = false, stop_ = false;
  bool left_ = false;
  std::thread thread_;
};

}  // namespace scalai::executor::nccl::fake
