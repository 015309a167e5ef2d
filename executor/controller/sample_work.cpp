#include "executor/controller/sample_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

using proto::CommandBody;
using proto::ReplyBody;

namespace {

// About: a command ends well before its deadline. How long samples are shows in what was read so far.
constexpr int64_t kSamplesACommand = int64_t{1} << 22;
constexpr int64_t kBytesACommand = int64_t{4} << 30;
constexpr int64_t kSamplesAtFirst = 1024;  // of which nothing is known

// By data-parallel rank: the device of its first rank, which reads for all of them.
std::vector<DeviceId> readers_of(const collection::Collection& side) {
  const collection::Mesh& mesh = side.meshes.front();
  std::vector<DeviceId> readers(static_cast<size_t>(mesh.axis_size("dp")));
  for (int rank = side.ranks(); rank-- > 0;)
    readers[static_cast<size_t>(mesh.coordinate(LogicalRank(rank), "dp"))] =
        side.device_of_rank[static_cast<size_t>(rank)];
  return readers;
}

std::map<HostId, CommandBody> bodies_of(const std::vector<DeviceId>& readers, const std::set<HostId>& living,
                                        const cluster::Cluster& cluster) {
  std::map<HostId, CommandBody> bodies;
  for (size_t rank = 0; rank < readers.size(); ++rank) {
    const HostId own = cluster.host_of(readers[rank]);
    const HostId host = living.contains(own) ? own : *living.begin();
    bodies[host].mutable_read()->add_ranks(static_cast<int32_t>(rank));
  }
  return bodies;
}

absl::Status add_accounts(const ReplyBody& reply, control::SamplesRead& done) {
  for (const proto::SampleAccount& account : reply.accounts()) {
    if (account.rank() < 0 || static_cast<size_t>(account.rank()) >= done.accounts.size())
      return failed(fmt::format("a worker accounts for dp rank {} of {}", account.rank(), done.accounts.size()));
    datasets::SampleAccount one;
    one.samples = account.samples();
    one.sum_low = account.sum_low();
    one.sum_high = account.sum_high();
    done.accounts[static_cast<size_t>(account.rank())].add(one);
    done.bytes += account.bytes();
    done.assumed += account.assumed();
  }
  return absl::OkStatus();
}

int64_t steps_of_a_command(const control::SamplesRead& done, bool content, int64_t batch) {
  int64_t samples = 0;
  for (const datasets::SampleAccount& account : done.accounts) samples += account.samples;
  int64_t most = kSamplesACommand;
  if (content && samples == 0) most = kSamplesAtFirst;
  if (done.bytes > 0 && samples > 0) {
    const double mean = static_cast<double>(done.bytes) / static_cast<double>(samples);
    most = std::min(most, static_cast<int64_t>(static_cast<double>(kBytesACommand) / mean));
  }
  return std::max<int64_t>(1, most / batch);
}

}  // namespace

absl::StatusOr<control::SamplesRead> read_samples(const scenario::Scenario& scenario, WorkerPool& pool,
                                                  const std::string& index, const control::Read& read) {
  const scenario::JobSpec& job = scenario.jobs[static_cast<size_t>(read.job)];
  SCALAI_CHECK(job.dataset.has_value() && read.collection != nullptr);
  const std::set<HostId> living = pool.living();
  if (living.empty()) return absl::UnavailableError("no worker lives that could read samples");
  const std::vector<DeviceId> readers = readers_of(*read.collection);
  const std::string state = datasets::state_text(job.dataset->state);
  std::map<HostId, CommandBody> bodies = bodies_of(readers, living, scenario.cluster);
  control::SamplesRead done{.job = read.job, .from_step = read.from_step, .step = read.until_step};
  done.accounts.resize(readers.size());
  for (int64_t step = read.from_step, steps = 0; step < read.until_step; step += steps) {
    steps = steps_of_a_command(done, !index.empty(), job.training.global_batch);
    WorkerPool::Calls calls;
    for (auto& [host, body] : bodies) {
      CommandBody::Read& part = *body.mutable_read();
      part.set_job(read.job);
      part.set_dataset(state);
      part.set_index(index);
      part.set_dp(static_cast<int32_t>(readers.size()));
      part.set_from_step(step);
      part.set_until_step(std::min(read.until_step, step + steps));
      calls.emplace_back(host, body);
    }
    SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool.call("read", calls));
    for (const ReplyBody& reply : replies) SCALAI_RETURN_IF_ERROR(add_accounts(reply, done));
  }
  return done;
}

}  // namespace scalai::executor::controller
