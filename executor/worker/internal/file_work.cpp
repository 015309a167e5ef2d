#include "executor/worker/internal/file_work.h"

#include <fmt/format.h>

#include "executor/state/available_memory.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

namespace {

void tell(const Written& written, ReplyBody& reply) {
  for (const std::string& part : written.parts) reply.add_parts(part);
  reply.set_bytes(written.bytes);
}

// In place of what the worker has read for a rank: what its trainers were given. A step that none of them told of, as
// those of a lost host or of a program that reads in its own way, counts as the rank's share, and as assumed.
absl::Status count_trained(const CommandBody::Read& read, const SampleReading& samples, const Training& training,
                           int rank, SampleReading::Account& account) {
  account.read = {};
  for (int64_t step = read.from_step(); step < read.until_step(); ++step) {
    if (const std::optional<datasets::SampleAccount> told = training.read(step, rank, read.dp())) {
      account.read.add(*told);
      continue;
    }
    SCALAI_ASSIGN_OR_RETURN(const std::vector<SampleReading::Account> share,
                            samples.read(step, step + 1, read.dp(), {rank}, 1));
    account.read.add(share.front().read);
    account.assumed += share.front().read.samples;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FileWork::write(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Write& write = body.write();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(write.job(), write.version()));
  const collection::Collection& side = held.side;
  Places& places = holdings_.places();
  Writing& writing = writing_[write.job()];
  if (write.in_background() && writing.is(write)) return absl::OkStatus();  // once more
  const std::vector<int> ranks(write.ranks().begin(), write.ranks().end());
  for (const int rank : ranks) {
    if (rank < 0 || rank >= side.ranks()) return invalid(fmt::format("there is no rank {}", rank));
  }
  SCALAI_ASSIGN_OR_RETURN(store::Writer writer,
                          store::Writer::join(write.folder(), side, {write.name(), write.step()}));
  const ReadState read = [&](LogicalRank rank, TensorId tensor, const tensor::Box& box, std::byte* dst) {
    const Location place = Location::device(side.device_of_rank[static_cast<size_t>(rank.value)]);
    return places.read(place, held.key, tensor, box, {box, side.tensors[static_cast<size_t>(tensor.value)].dtype, dst});
  };
  if (!write.in_background()) {
    SCALAI_ASSIGN_OR_RETURN(const Written written, write_ranks(writer, ranks, read));
    tell(written, reply);
    return absl::OkStatus();
  }
  writing = {};  // which waits for an earlier one
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<BackgroundWrite> files,
      BackgroundWrite::begin(std::move(writer), ranks, read, holdings_.threads(), state::available_memory()));
  writing = {write.folder(), write.tag(), std::move(files)};
  return absl::OkStatus();
}

absl::Status FileWork::written(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Written& asked = body.written();
  const Writing& writing = writing_[asked.job()];
  if (!writing.is(asked))
    return absl::NotFoundError(fmt::format("{}: this worker is not writing there", asked.folder()));
  const std::optional<absl::StatusOr<Written>> found = writing.files->poll();
  reply.set_busy(!found.has_value());
  if (!found) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(found->status());
  tell(**found, reply);
  return absl::OkStatus();
}

absl::Status FileWork::read(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Read& read = body.read();
  const Training* const training = holdings_.job(read.job()).training.get();
  SCALAI_ASSIGN_OR_RETURN(const SampleReading* samples, samples_[read.job()].of(read.dataset(), read.index()));
  const std::vector<int> ranks(read.ranks().begin(), read.ranks().end());
  SCALAI_ASSIGN_OR_RETURN(std::vector<SampleReading::Account> accounts,
                          samples->read(read.from_step(), read.until_step(), read.dp(), ranks, holdings_.threads()));
  for (size_t i = 0; training != nullptr && i < accounts.size(); ++i) {
    SCALAI_RETURN_IF_ERROR(count_trained(read, *samples, *training, ranks[i], accounts[i]));
  }
  for (size_t i = 0; i < accounts.size(); ++i) {
    proto::SampleAccount& out = *reply.add_accounts();
    out.set_rank(ranks[i]);
    out.set_samples(accounts[i].read.samples);
    out.set_sum_low(accounts[i].read.sum_low);
    out.set_sum_high(accounts[i].read.sum_high);
    out.set_bytes(accounts[i].bytes);
    out.set_assumed(accounts[i].assumed);
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor::worker
