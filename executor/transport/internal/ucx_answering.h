#pragma once
// The answering end: asks the handler, and sends what it gives in chunks, a few of one answer at a time. Chunks that
// lie in one piece, or whose rows are long, leave from where they are; others are gathered by a thread of its own while
// earlier ones are on the wire. Where the payload has a check, the last few bytes are copied after all others have
// left; they leave if the check, which comes after that copy, succeeds.
// Of the transport thread. Lives until its messages have come back: until all connections are closed, or abandoned.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/transport/internal/task_thread.h"
#include "executor/transport/internal/ucx_endpoints.h"
#include "executor/transport/internal/wire.h"
#include "executor/transport/peer_transport.h"
#include "executor/transport/ucx_transport.h"

namespace scalai::executor::transport::internal {

class UcxAnswering {
 public:
  // `post` brings a task to the transport thread.
  using Post = std::function<void(std::function<void()>)>;
  // `self` outlives this.
  UcxAnswering(UcxEndpoints& endpoints, const Self& self, AnswerHandler handler, UcxOptions options, Post post);

  // Who asks or cancels without the right tag gets no answer: one would need a connection to an address that nobody
  // vouches for. One line says so, once.
  // Called inside UCX's callbacks, where no connection may be made (UCX 1.13 may destroy the one that the message came
  // over): they only take down what there is to do.
  void asked(const AskHeader& header, std::string_view body);
  void cancelled(const CancelHeader& header, std::string_view body);
  // Does it; whether there was anything.
  bool serve();
  void lost(const EndpointPtr& endpoint);
  // The handler is not called, and nothing gathered, after this.
  void stop();

 private:
  struct Asked {
    PeerAddress from;
    std::string request;
    uint64_t fetch = 0;
    uint64_t connection = 0;
    bool cancel = false;
  };
  struct Answer {
    EndpointPtr endpoint;
    uint64_t fetch = 0;
    Payload payload;
    int64_t next = 0;   // offset of the next chunk
    int in_flight = 0;  // chunks being gathered or sent
    bool given_up = false;
    bool sending = false;  // send_more() is on the stack
    absl::Status failed;   // the error that goes to the asker when nothing is in flight
  };
  using AnswerPtr = std::shared_ptr<Answer>;
  using Key = std::pair<std::string, uint64_t>;  // of the asker: its address and its number
  using Buffer = std::unique_ptr<std::byte[]>;

  template <class Header>
  std::optional<PeerAddress> sender_of(const Header& header, std::string_view address, std::string_view body);
  void serve_one(const Asked& asked);
  void send_error(const EndpointPtr& endpoint, uint64_t fetch, const absl::Status& status);
  void send_more(const AnswerPtr& answer);
  void gather(const AnswerPtr& answer, int64_t offset, int64_t bytes);
  void send_checked(const AnswerPtr& answer);
  void fail(const AnswerPtr& answer, const absl::Status& status);
  // The bytes of a chunk: as one, or as a list of parts.
  struct Chunk {
    int64_t offset = 0;
    int64_t bytes = 0;
    std::span<const std::byte> whole{};
    std::vector<std::span<const std::byte>> parts{};
    Buffer gathered{};  // that `whole` is in
  };
  void send_chunk(const AnswerPtr& answer, Chunk chunk);
  void chunk_left(const AnswerPtr& answer, bool ok);
  Buffer take_buffer();

  UcxEndpoints& endpoints_;
  const Self& self_;
  const AnswerHandler handler_;
  const UcxOptions options_;
  const Post post_;
  std::deque<Asked> waiting_;
  std::map<Key, AnswerPtr> answers_;
  std::map<std::string, uint64_t> broken_;  // by address of the asker, its last connection that broke
  std::vector<Buffer> free_buffers_;
  bool told_ = false;  // that somebody was not answered
  TaskThread gatherer_;
};

}  // namespace scalai::executor::transport::internal
