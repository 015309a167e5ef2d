#include "executor/bench/link_bench.h"

#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <numeric>

#include "executor/exchange/channel.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {

using nccl::Communicator;
using tensor::Box;

namespace {

constexpr double kJoin_s = 120;

nccl::Deadline in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<nccl::Deadline::duration>(std::chrono::duration<double>(seconds));
}

struct Buffers {
  std::unique_ptr<state::Memory> memory;
  state::Target out, in;
};

// A matrix of 4096 columns, of which the first half travels as a strided box.
struct Shape {
  int64_t rows = 0;
  Box whole, columns;
  explicit Shape(int64_t bytes) : rows(std::max<int64_t>(1, bytes / (4096 * 4))) {
    whole = Box({0, 0}, {rows, 4096});
    columns = Box({0, 0}, {rows, 2048});
  }
};

state::Content content_of(int rank, const Shape& shape) {
  return {{static_cast<uint64_t>(rank) + 1}, {shape.rows, 4096}, 1};
}

absl::StatusOr<Buffers> make_buffers(device::Backend& backend, int rank, const Shape& shape) {
  const int64_t bytes = shape.whole.volume() * 4;
  Buffers buffers;
  SCALAI_ASSIGN_OR_RETURN(buffers.memory,
                          backend.memory_of_device(rank, {.name = "bench", .capacity = 4 * bytes + (64 << 20)}));
  for (state::Target* target : {&buffers.out, &buffers.in}) {
    SCALAI_ASSIGN_OR_RETURN(const uint64_t offset, buffers.memory->allocate(bytes));
    *target = {shape.whole, tensor::DType::kF32, buffers.memory->data(offset)};
  }
  const device::BoxFill fill{content_of(rank, shape), shape.whole, buffers.out};
  SCALAI_RETURN_IF_ERROR(backend.fill({&fill, 1}));
  return buffers;
}

class Rank {
 public:
  Rank(device::Backend& backend, std::shared_ptr<Communicator> communicator, device::Queue& queue, Buffers& buffers,
       const Shape& shape)
      : backend_(backend), communicator_(std::move(communicator)), queue_(queue), buffers_(buffers), shape_(shape) {}

  int next() const { return (communicator_->rank() + 1) % communicator_->size(); }
  int previous() const { return (communicator_->rank() + communicator_->size() - 1) % communicator_->size(); }

  absl::Status plain() {
    const auto bytes = static_cast<size_t>(shape_.whole.volume() * 4);
    SCALAI_RETURN_IF_ERROR(communicator_->start_group());
    SCALAI_RETURN_IF_ERROR(communicator_->send(next(), buffers_.out.data, bytes, queue_.stream()));
    SCALAI_RETURN_IF_ERROR(communicator_->receive(previous(), buffers_.in.data, bytes, queue_.stream()));
    SCALAI_RETURN_IF_ERROR(communicator_->end_group(in(kJoin_s)));
    SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<device::Mark> end, queue_.mark());
    return communicator_->watch([&] { return end->query(); }, in(kJoin_s));
  }
  absl::Status by_channel(exchange::Channel& channel, const Box& part) {
    const std::vector<exchange::Traffic> sends = {{next(), {{part, tensor::DType::kF32, {{part, buffers_.out}}}}}};
    const std::vector<exchange::Traffic> receives = {
        {previous(), {{part, tensor::DType::kF32, {{part, buffers_.in}}}}}};
    return channel.run(sends, receives);
  }
  absl::StatusOr<int64_t> check(const Box& part) {
    const device::BoxCheck check{content_of(previous(), shape_), part, buffers_.in.source()};
    SCALAI_ASSIGN_OR_RETURN(const auto wrong, backend_.check({&check, 1}));
    const device::BoxFill spoil{content_of(999, shape_), shape_.whole, buffers_.in};
    SCALAI_RETURN_IF_ERROR(backend_.fill({&spoil, 1}));
    return wrong.front() ? 1 : 0;
  }

 private:
  device::Backend& backend_;
  const std::shared_ptr<Communicator> communicator_;
  device::Queue& queue_;
  Buffers& buffers_;
  const Shape& shape_;
};

struct Row {
  std::string name;
  int64_t bytes = 0;   // that a rank sends
  size_t channel = 0;  // among those of a rank: one for each size of chunks
  bool plain = false;  // without a channel
  Box part;
};

std::vector<Row> rows_of(const Shape& shape, const std::vector<int64_t>& chunks) {
  const int64_t bytes = shape.whole.volume() * 4;
  std::vector<Row> rows = {{"nccl", bytes, 0, true, shape.whole}};
  for (const bool dense : {true, false}) {
    for (size_t n = 0; n < chunks.size(); ++n) {
      const int64_t mib = chunks[n] >> 20;
      const std::string size = mib > 0 ? fmt::format("{} MiB", mib) : fmt::format("{} KiB", chunks[n] >> 10);
      rows.push_back({fmt::format("nccl {}, {}", dense ? "dense" : "strided", size), dense ? bytes : bytes / 2, n,
                      false, dense ? shape.whole : shape.columns});
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> measure_links(device::Backend& backend, const nccl::NcclApi& api,
                                                       const LinkOptions& options) {
  const Shape shape(options.bytes);
  const std::vector<Row> rows = rows_of(shape, options.chunk_bytes);
  std::vector<Measurement> list;
  for (const Row& row : rows)
    list.push_back({.name = row.name,
                    .devices = options.ranks,
                    .transport = "nccl",
                    .state_bytes = row.bytes * options.ranks,
                    .moved_bytes = row.bytes * options.ranks,
                    .busiest_bytes = row.bytes,
                    .busiest_received = row.bytes});

  SCALAI_ASSIGN_OR_RETURN(const nccl::NcclUniqueId id, nccl::make_unique_id(api));
  std::vector<int> ranks(static_cast<size_t>(options.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  SCALAI_ASSIGN_OR_RETURN(
      std::vector<Communicator> communicators,
      Communicator::join_several(
          api, {.id = id, .size = options.ranks}, ranks, [&](int n) { return backend.make_current(n); }, in(kJoin_s)));

  std::barrier together(options.ranks);
  std::vector<std::atomic<int64_t>> errors(rows.size());
  std::vector<absl::Status> ends(ranks.size());
  std::atomic<bool> over = false;  // after an error of somebody
  const auto serve = [&](size_t n) -> absl::Status {
    const auto communicator = std::make_shared<Communicator>(std::move(communicators[n]));
    const int rank_number = static_cast<int>(n);
    std::vector<std::unique_ptr<exchange::Channel>> channels(options.chunk_bytes.size());
    for (size_t i = 0; i < channels.size(); ++i) {
      SCALAI_ASSIGN_OR_RETURN(channels[i], exchange::Channel::create(backend, rank_number, communicator,
                                                                     {.chunk_bytes = options.chunk_bytes[i]}));
      SCALAI_RETURN_IF_ERROR(channels[i]->reserve(2));
    }
    SCALAI_ASSIGN_OR_RETURN(const auto queue, backend.queue(rank_number));
    SCALAI_ASSIGN_OR_RETURN(Buffers buffers, make_buffers(backend, rank_number, shape));
    Rank rank(backend, communicator, *queue, buffers, shape);
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int i = 0; i <= options.repetitions; ++i) {
        together.arrive_and_wait();
        if (over) return absl::OkStatus();
        const auto began = std::chrono::steady_clock::now();
        SCALAI_RETURN_IF_ERROR(rows[row].plain ? rank.plain()
                                               : rank.by_channel(*channels[rows[row].channel], rows[row].part));
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        if (n == 0 && i > 0) list[row].transfer_s.push_back(seconds);
        SCALAI_ASSIGN_OR_RETURN(const int64_t wrong, rank.check(rows[row].part));
        errors[row] += wrong;
      }
    }
    return absl::OkStatus();
  };
  SCALAI_RETURN_IF_ERROR(run_concurrently(ranks.size(), [&](size_t n) {
    ends[n] = serve(n);
    if (!ends[n].ok()) over = true;
    together.arrive_and_drop();  // nobody waits for one who has left
  }));
  for (const absl::Status& end : ends) SCALAI_RETURN_IF_ERROR(end);
  for (size_t row = 0; row < rows.size(); ++row) list[row].errors = errors[row];
  // By bytes: half as many are to take half as long.
  const double plain_s = list[0].seconds();
  for (size_t row = 1; row < rows.size(); ++row) {
    if (rows[row].bytes == rows[0].bytes) {
      list[row].yardsticks = {{"nccl", plain_s}};
    } else {
      list[row].yardsticks = {{"nccl, as many bytes", plain_s / 2}};
    }
  }
  return list;
}

}  // namespace scalai::executor::bench
