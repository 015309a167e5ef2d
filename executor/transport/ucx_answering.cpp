#include "executor/transport/internal/ucx_answering.h"

#include <algorithm>

#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

// Gathered chunks that are kept for the next ones.
constexpr size_t kMostFreeBuffers = 16;

// What waits for the check of an answer: few bytes, as they are copied by the transport's own thread.
constexpr int64_t kCheckedBytes = 4096;

}  // namespace

UcxAnswering::UcxAnswering(UcxEndpoints& endpoints, const Self& self, AnswerHandler handler, UcxOptions options,
                           Post post)
    : endpoints_(endpoints),
      self_(self),
      handler_(std::move(handler)),
      options_(std::move(options)),
      post_(std::move(post)) {}

template <class Header>
std::optional<PeerAddress> UcxAnswering::sender_of(const Header& header, std::string_view address,
                                                   std::string_view body) {
  absl::StatusOr<PeerAddress> from = read_address(self_, HostId(-1), address);
  if (from.ok() && is_sealed(self_.key, from->number, self_.number, header, body)) return *std::move(from);
  if (!std::exchange(told_, true)) say("scalai: transport: turned away who asked without the secret of this run\n");
  return std::nullopt;
}

void UcxAnswering::asked(const AskHeader& header, std::string_view body) {
  if (header.address_bytes < 0 || body.size() > static_cast<size_t>(kMostAskBytes)) return;
  const auto address_bytes = static_cast<size_t>(header.address_bytes);
  if (address_bytes > body.size()) return;
  std::optional<PeerAddress> from = sender_of(header, body.substr(0, address_bytes), body);
  if (!from) return;
  waiting_.push_back({.from = *std::move(from),
                      .request = std::string(body.substr(address_bytes)),
                      .fetch = header.fetch,
                      .connection = header.connection});
}

void UcxAnswering::cancelled(const CancelHeader& header, std::string_view body) {
  if (body.size() > static_cast<size_t>(kMostAskBytes)) return;
  std::optional<PeerAddress> from = sender_of(header, body, body);
  if (!from) return;
  waiting_.push_back({.from = *std::move(from), .request = "", .fetch = header.fetch, .connection = 0, .cancel = true});
}

bool UcxAnswering::serve() {
  const bool any = !waiting_.empty();
  for (const Asked& asked : std::exchange(waiting_, {})) {
    if (!asked.cancel) {
      serve_one(asked);
    } else if (const auto found = answers_.find({asked.from.ucx, asked.fetch}); found != answers_.end()) {
      found->second->given_up = true;
      answers_.erase(found);
    }
  }
  return any;
}

void UcxAnswering::serve_one(const Asked& asked) {
  // Asked over a connection that broke since: a new one would reach a peer that closes, or has gone on without us.
  const auto broken = broken_.find(asked.from.ucx);
  if (broken != broken_.end() && asked.connection <= broken->second) return;
  const absl::StatusOr<EndpointPtr> endpoint = endpoints_.open(asked.from);
  if (!endpoint.ok()) return;  // nobody to tell: the asker sees its connection break, or its deadline
  (*endpoint)->last_asker = std::max((*endpoint)->last_asker, asked.connection);
  if (asked.fetch == 0) return;  // a greeting
  absl::StatusOr<Payload> payload = handler_(asked.request);
  if (!payload.ok()) {
    send_error(*endpoint, asked.fetch, payload.status());
    return;
  }
  const auto answer = std::make_shared<Answer>();
  answer->endpoint = *endpoint;
  answer->fetch = asked.fetch;
  answer->payload = *std::move(payload);
  answers_[{asked.from.ucx, asked.fetch}] = answer;
  if (answer->payload.bytes() == 0) {
    ++answer->in_flight;
    send_chunk(answer, {});
  } else {
    send_more(answer);
  }
}

void UcxAnswering::send_error(const EndpointPtr& endpoint, uint64_t fetch, const absl::Status& status) {
  const auto text = std::make_shared<const std::string>(message_of(status));
  UcxMessage message;
  message.id = AnswerHeader::kId;
  AnswerHeader header{
      .fetch = fetch, .code = static_cast<int64_t>(status.code()), .bytes = static_cast<int64_t>(text->size())};
  header.tag = tag_of(self_.key, self_.number, endpoint->peer, header, *text);
  message.set_header(header);
  message.body = std::as_bytes(std::span(text->data(), text->size()));
  message.body_owner = text;
  message.eager = true;
  endpoints_.send(endpoint, std::move(message));
}

void UcxAnswering::send_more(const AnswerPtr& answer) {
  // A chunk that leaves at once comes back here through chunk_left().
  if (answer->sending) return;
  answer->sending = true;
  const Payload& payload = answer->payload;
  const int64_t free =
      payload.bytes() - (payload.has_check() ? std::min({payload.bytes(), options_.chunk_bytes, kCheckedBytes}) : 0);
  while (!answer->given_up && answer->failed.ok() && answer->next < free &&
         answer->in_flight < options_.chunks_in_flight) {
    const int64_t offset = answer->next;
    if (offset > 0 && payload.has_check()) answer->failed = payload.check();
    if (!answer->failed.ok()) break;
    const int64_t bytes = std::min(options_.chunk_bytes, free - offset);
    answer->next += bytes;
    ++answer->in_flight;
    if (const auto whole = payload.in_place(offset, bytes); !whole.empty()) {
      send_chunk(answer, {.offset = offset, .bytes = bytes, .whole = whole});
    } else if (auto parts = payload.parts_in_place(offset, bytes); !parts.empty()) {
      send_chunk(answer, {.offset = offset, .bytes = bytes, .parts = std::move(parts)});
    } else {
      gather(answer, offset, bytes);
    }
  }
  // What is under way arrives first: the asker is not told while UCX still writes into its memory.
  if (!answer->given_up && !answer->failed.ok() && answer->in_flight == 0) {
    fail(answer, answer->failed);
  } else if (!answer->given_up && answer->next == free && free < payload.bytes() && answer->in_flight == 0) {
    send_checked(answer);
  }
  answer->sending = false;
}

void UcxAnswering::send_checked(const AnswerPtr& answer) {
  Chunk chunk{.offset = answer->next, .bytes = answer->payload.bytes() - answer->next};
  chunk.gathered = take_buffer();
  chunk.whole = std::span(chunk.gathered.get(), static_cast<size_t>(chunk.bytes));
  answer->payload.gather(chunk.offset, std::span(chunk.gathered.get(), static_cast<size_t>(chunk.bytes)));
  if (const absl::Status status = answer->payload.check(); !status.ok()) {
    fail(answer, status);
    return;
  }
  answer->next += chunk.bytes;
  ++answer->in_flight;
  send_chunk(answer, std::move(chunk));
}

void UcxAnswering::fail(const AnswerPtr& answer, const absl::Status& status) {
  answer->given_up = true;
  send_error(answer->endpoint, answer->fetch, status);
  answers_.erase({answer->endpoint->address, answer->fetch});
}

void UcxAnswering::gather(const AnswerPtr& answer, int64_t offset, int64_t bytes) {
  // Tasks are copyable functions, so the buffer travels in a shared holder.
  const auto buffer = std::make_shared<Buffer>(take_buffer());
  gatherer_.add([this, answer, offset, bytes, buffer] {
    const std::span<std::byte> out(buffer->get(), static_cast<size_t>(bytes));
    answer->payload.gather(offset, out);
    post_([this, answer, offset, bytes, out, buffer] {
      send_chunk(answer, {.offset = offset, .bytes = bytes, .whole = out, .gathered = std::move(*buffer)});
    });
  });
}

void UcxAnswering::send_chunk(const AnswerPtr& answer, Chunk chunk) {
  if (answer->given_up) {
    chunk_left(answer, /*ok=*/false);
    return;
  }
  UcxMessage message;
  message.id = AnswerHeader::kId;
  AnswerHeader header{
      .fetch = answer->fetch, .offset = chunk.offset, .total = answer->payload.bytes(), .bytes = chunk.bytes};
  header.tag = tag_of(self_.key, self_.number, answer->endpoint->peer, header, "");
  message.set_header(header);
  message.body = chunk.whole;
  message.parts = std::move(chunk.parts);
  const auto buffer = std::make_shared<Buffer>(std::move(chunk.gathered));
  message.sent = [this, answer, buffer](bool ok) {
    if (*buffer && free_buffers_.size() < kMostFreeBuffers) free_buffers_.push_back(std::move(*buffer));
    chunk_left(answer, ok);
  };
  endpoints_.send(answer->endpoint, std::move(message));
}

void UcxAnswering::chunk_left(const AnswerPtr& answer, bool ok) {
  --answer->in_flight;
  if (!ok) answer->given_up = true;
  const bool over = answer->given_up || answer->next == answer->payload.bytes();
  if (!over) {
    send_more(answer);
  } else if (answer->in_flight == 0) {
    answers_.erase({answer->endpoint->address, answer->fetch});
  }
}

UcxAnswering::Buffer UcxAnswering::take_buffer() {
  if (free_buffers_.empty())
    return std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(options_.chunk_bytes));
  Buffer buffer = std::move(free_buffers_.back());
  free_buffers_.pop_back();
  return buffer;
}

void UcxAnswering::lost(const EndpointPtr& endpoint) {
  if (endpoint->last_asker > 0) broken_[endpoint->address] = endpoint->last_asker;
  std::erase_if(answers_, [&](const auto& entry) {
    if (entry.second->endpoint != endpoint) return false;
    entry.second->given_up = true;
    return true;
  });
}

void UcxAnswering::stop() {
  gatherer_.stop();
  for (const auto& [key, answer] : answers_) answer->given_up = true;
}

}  // namespace scalai::executor::transport::internal
