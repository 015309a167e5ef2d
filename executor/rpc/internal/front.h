#pragma once
// The controller's front: takes connections and hands them to the server behind it. It bounds those that have proven
// nothing yet, so that strangers take up few descriptors, however many they are and whatever they send.
//
//   listening sockets ──► accept ──► waiting ──► proven (nothing more of it is known here)
//                                       └──► closed: too late, or too many
//
// At most `most` connections wait, and half of them of one party (party.h); one more closes the oldest of the party
// that has most. A party that has few cannot be crowded out. gRPC's own listener stops for good when descriptors run
// out; this one closes a waiting connection and accepts again.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/listening.h"
#include "executor/rpc/internal/party.h"
#include "executor/rpc/messages.h"

namespace scalai::executor::rpc::internal {

class Front {
 public:
  struct Options {
    size_t most = 0;         // 0: an eighth of the descriptors that this process may have, 16 to 1,024
    double patience_s = 30;  // from a connection to its proof
    std::function<void(int connection)> hand_over;  // takes over the descriptor; on the front's thread
    LogLine log;                                    // a line a party that has too many
  };
  Front(Listening listening, Options options);
  ~Front() { stop(); }
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // ResourceExhausted: no room for a thread or a descriptor.
  absl::Status start();
  // Listens no more. Connections that were handed over stay.
  void stop();

  // The caller at this peer (peer_of) has proven what it has to. Any thread.
  void admit(const std::string& peer);

 private:
  struct Waiting {
    FileDescriptor connection;  // a second descriptor of it, so that the number means nothing else meanwhile
    std::string peer, party;
    TimePoint since;
  };
  using Id = int64_t;  // rises with time
  void work();
  // Ids of the waiting connections that have ended, and whether some socket has a new one.
  std::pair<std::set<Id>, bool> look(double timeout_s, bool also_new);
  void accept_some();
  bool accept_one(const FileDescriptor& socket);
  void add(int connection);
  void close_late();
  void close_oldest_of_most();
  void close(std::map<Id, Waiting>::iterator one);
  double rest_s();  // until one is late

  Listening listening_;
  const Options options_;
  const size_t most_;
  const Parties parties_;
  FileDescriptor wake_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;  // guards waiting_
  std::map<Id, Waiting> waiting_;
  Id next_ = 0;
  std::set<std::string> told_;  // parties
  double pause_s_ = 0;          // before more are accepted
  std::thread thread_;
};

}  // namespace scalai::executor::rpc::internal
