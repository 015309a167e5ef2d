#include "executor/worker/sample_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/data_files.h"

namespace scalai::executor::worker {

namespace {

constexpr int64_t kPart = 1 << 15;  // samples at a time

// An address's server: what else it has may be secret.
std::string without_secrets(const std::string& url) {
  const std::string host = url.substr(0, url.find_first_of("/?#", url.find("://") + 3));
  const size_t at = host.rfind('@');
  return at == std::string::npos ? host : host.substr(0, host.find("://") + 3) + host.substr(at + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SampleReading>> SampleReading::open(const std::string& state,
                                                                         const std::string& index) {
  SCALAI_ASSIGN_OR_RETURN(const datasets::State parsed, datasets::parse_state(state));
  std::unique_ptr<SampleReading> reading(new SampleReading(parsed));
  if (index.empty()) return reading;
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<const datasets::Index> opened, datasets::Index::open(index));
  for (const datasets::DataFile& file : opened->files()) {
    if (datasets::is_local(file.location)) continue;
    return invalid(
        fmt::format("{}: its data lie on a server ({}): workers read local files only; copy them and index "
                    "the copies",
                    index, without_secrets(file.location)));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<const datasets::Samples> samples,
                          datasets::Samples::make(opened, parsed.sequence));
  if (opened->digest() != parsed.index || samples->count() != parsed.samples)
    return invalid(fmt::format("{}: {} samples, digest {}: another dataset than the job's, which has {}, digest {}",
                               index, samples->count(), opened->digest(), parsed.samples, parsed.index));
  reading->reader_ =
      std::make_unique<const datasets::Reader>(samples, open_file_source, datasets::Reader::Options{.check_crc = true});
  return reading;
}

// Of one pass after the other, in parts that threads can share out.
std::vector<SampleReading::Part> SampleReading::parts_of(int64_t from_step, int64_t until_step, int dp,
                                                         const std::vector<int>& ranks) const {
  std::vector<Part> parts;
  for (int64_t step = from_step; step < until_step;) {
    const int64_t end_step = std::min(until_step, steps_.pass_end(step));
    for (size_t i = 0; i < ranks.size(); ++i) {
      const datasets::RankShare share(steps_, step, {.rank = ranks[i], .dp = dp});
      const int64_t count = share.count_before(end_step);
      for (int64_t begin = 0; begin < count; begin += kPart)
        parts.push_back({i, share, begin, std::min(count, begin + kPart)});
    }
    step = end_step;
  }
  return parts;
}

absl::StatusOr<SampleReading::Account> SampleReading::read_part(const Part& part) const {
  Account account;
  for (int64_t k = part.begin; k < part.end; ++k) {
    const int64_t position = part.share.position(k);
    const int64_t sample = order_.at(part.share.pass(), position);
    account.read.add(part.share.pass(), position, sample);
    if (reader_ == nullptr) continue;
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes, reader_->read(sample));
    account.bytes += static_cast<int64_t>(bytes.size());
  }
  return account;
}

absl::StatusOr<std::vector<SampleReading::Account>> SampleReading::read(int64_t from_step, int64_t until_step, int dp,
                                                                        const std::vector<int>& ranks,
                                                                        int threads) const {
  if (from_step < 0 || until_step < from_step || until_step > datasets::kMostInState)
    return invalid(fmt::format("there are no steps from {} to {}", from_step, until_step));
  const bool all_there = std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return rank >= 0 && rank < dp; });
  if (!all_there) return invalid(fmt::format("not all of these ranks are among {} data-parallel ones", dp));
  const std::vector<Part> parts = parts_of(from_step, until_step, dp, ranks);
  std::vector<Account> accounts(ranks.size());
  std::mutex mutex;  // guards accounts
  SCALAI_RETURN_IF_ERROR(try_parallel_for(threads, parts.size(), [&](size_t i) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const Account account, read_part(parts[i]));
    const std::lock_guard lock(mutex);
    accounts[parts[i].rank].read.add(account.read);
    accounts[parts[i].rank].bytes += account.bytes;
    return absl::OkStatus();
  }));
  return accounts;
}

absl::StatusOr<const SampleReading*> OpenSamples::of(const std::string& state, const std::string& index) {
  if (reading_ == nullptr || state != state_ || index != index_) {
    reading_ = nullptr;
    SCALAI_ASSIGN_OR_RETURN(reading_, SampleReading::open(state, index));
    state_ = state;
    index_ = index;
  }
  return reading_.get();
}

}  // namespace scalai::executor::worker
