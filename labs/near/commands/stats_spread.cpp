#include "labs/near/commands/stats_spread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "labs/near/commands/fetched_files.h"
#include "labs/near/commands/stats_parts.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/box_chunks.h"

namespace scalai::apps {
namespace {

using store::Checkpoint;
using store::CopyBlock;
using store::LogicalState;
using store::TensorStats;

constexpr int64_t kElements = int64_t{1} << 20;      // of a chunk, as in checkpoint_stats.cpp
constexpr int64_t kAskedBytes = int64_t{512} << 20;  // of a question, about
constexpr int64_t kLeastAsked = 16;                  // questions of a host, if it has as many parts

struct Placed {
  size_t slot = 0;  // among the wanted tensors
  StatsPart part;
  int64_t bytes = 0;
  std::vector<char> on;  // by host: whether it has all files of the part, and has not failed with it
};

// The blocks' bytes one after the other: statistics know no order.
void make_dense(std::vector<CopyBlock>& blocks) {
  int64_t at = 0;
  for (CopyBlock& block : blocks) {
    block.dst = at;
    int64_t stride = 1;
    for (size_t d = block.dims; d-- > 0; stride *= block.extent[d]) block.dst_stride[d] = stride;
    at += block.bytes();
  }
}

// Which host looks at what.
class Plan {
 public:
  explicit Plan(const SpreadStats& spread) : spread_(spread), hosts_(spread.checkpoint.source.hosts.size()) {
    add_files(spread.checkpoint);
    if (spread.since != nullptr) add_files(*spread.since);
  }

  absl::Status add(size_t slot, size_t tensor) {
    const Checkpoint& now = *spread_.checkpoint.checkpoint;
    const LogicalState& state = now.tensors()[tensor];
    std::optional<size_t> other;
    if (spread_.since != nullptr) other = spread_.since->checkpoint->find(state.name);
    if (other && spread_.since->checkpoint->tensors()[*other].shape != state.shape) other.reset();
    if (other) compared_.insert(slot);
    return tensor::for_each_chunk(tensor::Box::whole(state.shape), kElements, [&](const tensor::Box& box) {
      place(slot, tensor, other, box);
      return absl::OkStatus();
    });
  }

  absl::Status problem() const {
    if (made_.empty()) return absl::OkStatus();
    return invalid(
        fmt::format("{}: these tensors are made of several stored ones while they are read, so a host has "
                    "to have the whole checkpoint: {}",
                    spread_.checkpoint.path, fmt::join(made_, ", ")));
  }
  // Of each part the host that has it and has least to do; hosts(): none has it.
  std::vector<size_t> assigned() const {
    std::vector<int64_t> load(hosts_);
    std::vector<size_t> hosts;
    for (const Placed& placed : parts_) {
      size_t best = hosts_;
      for (size_t host = 0; host < hosts_; ++host)
        if (placed.on[host] != 0 && (best == hosts_ || load[host] < load[best])) best = host;
      if (best < hosts_) load[best] += placed.bytes;
      hosts.push_back(best);
    }
    return hosts;
  }

  size_t hosts() const { return hosts_; }
  std::vector<Placed>& parts() { return parts_; }
  const std::vector<SpreadFile>& files() const { return files_; }
  bool compares(size_t slot) const { return compared_.contains(slot); }

 private:
  void add_files(const SpreadCheckpoint& of) {
    for (size_t i = 0; i < of.checkpoint->files().size(); ++i) files_.push_back({.of = &of, .number = i});
  }

  StatsSide side_of(const SpreadCheckpoint& of, size_t tensor, const tensor::Box& box) {
    const LogicalState& state = of.checkpoint->tensors()[tensor];
    StatsSide side{.dtype = state.dtype, .blocks = {}};
    of.checkpoint->compose(tensor, {.box = box, .offset = 0, .strides = box.shape().strides()}, 0, side.blocks);
    const size_t first = &of == &spread_.checkpoint ? 0 : spread_.checkpoint.checkpoint->files().size();
    for (CopyBlock& block : side.blocks) {
      if (block.file >= of.checkpoint->files().size()) made_.insert(state.name);
      block.file += static_cast<uint32_t>(first);
    }
    return side;
  }

  std::vector<char> hosts_of(const StatsPart& part) const {
    std::vector<char> on(hosts_, 1);
    const auto narrow = [&](const StatsSide& side) {
      for (const CopyBlock& block : side.blocks) {
        if (block.file >= files_.size()) continue;  // made_
        const SpreadFile& file = files_[block.file];
        for (size_t host = 0; host < hosts_; ++host)
          on[host] = on[host] != 0 && file.of->has(host, file.number) ? 1 : 0;
      }
    };
    narrow(part.now);
    if (part.before) narrow(*part.before);
    return on;
  }

  void push(Placed placed, std::vector<char> on) {
    placed.on = std::move(on);
    placed.bytes = placed.part.elements * tensor::size_of(placed.part.now.dtype);
    parts_.push_back(std::move(placed));
  }

  Placed placed(size_t slot, size_t tensor, const std::optional<size_t>& other, const tensor::Box& box) {
    Placed placed{.slot = slot, .part = {.elements = box.volume(), .now = {}, .before = {}}, .bytes = 0, .on = {}};
    placed.part.now = side_of(spread_.checkpoint, tensor, box);
    if (other) placed.part.before = side_of(*spread_.since, *other, box);
    return placed;
  }

  // Whole, or cut: by file, or where elements are compared by the boxes that have one home in either checkpoint.
  void place(size_t slot, size_t tensor, const std::optional<size_t>& other, const tensor::Box& box) {
    Placed whole = placed(slot, tensor, other, box);
    std::vector<char> on = hosts_of(whole.part);
    if (!made_.empty()) return;
    if (std::any_of(on.begin(), on.end(), [](char one) { return one != 0; }))
      return push(std::move(whole), std::move(on));
    if (!other) return cut_by_file(whole);
    spread_.checkpoint.checkpoint->for_each_home(tensor, box, [&](uint32_t, const tensor::Box& now) {
      spread_.since->checkpoint->for_each_home(*other, now, [&](uint32_t, const tensor::Box& both) {
        Placed piece = placed(slot, tensor, other, both);
        std::vector<char> holders = hosts_of(piece.part);
        push(std::move(piece), std::move(holders));
      });
    });
  }

  void cut_by_file(const Placed& whole) {
    const tensor::DType dtype = whole.part.now.dtype;
    std::map<uint32_t, std::vector<CopyBlock>> by_file;
    for (const CopyBlock& block : whole.part.now.blocks) by_file[block.file].push_back(block);
    for (auto& [file, blocks] : by_file) {
      Placed piece{.slot = whole.slot, .part = {}, .bytes = 0, .on = {}};
      int64_t bytes = 0;
      for (const CopyBlock& block : blocks) bytes += block.bytes();
      make_dense(blocks);
      piece.part.now = {.dtype = dtype, .blocks = std::move(blocks)};
      piece.part.elements = bytes / tensor::size_of(dtype);
      std::vector<char> holders = hosts_of(piece.part);
      push(std::move(piece), std::move(holders));
    }
  }

  const SpreadStats& spread_;
  const size_t hosts_;
  std::vector<SpreadFile> files_;  // of the checkpoint, then of the other one
  std::vector<Placed> parts_;
  std::set<std::string> made_;
  std::set<size_t> compared_;  // slots
};

absl::StatusOr<Plan> plan_of(const std::vector<size_t>& tensors, const SpreadStats& spread) {
  Plan plan(spread);
  for (size_t i = 0; i < tensors.size(); ++i) SCALAI_RETURN_IF_ERROR(plan.add(i, tensors[i]));
  SCALAI_RETURN_IF_ERROR(plan.problem());
  return plan;
}

class HostsStats {
 public:
  HostsStats(Plan& plan, const std::vector<size_t>& tensors, const SpreadStats& spread)
      : plan_(plan), tensors_(tensors), spread_(spread), queues_(plan.hosts()), gone_(plan.hosts()) {
    const std::vector<size_t> hosts = plan.assigned();
    found_.resize(hosts.size());
    std::vector<int64_t> bytes(plan.hosts());
    for (size_t i = 0; i < hosts.size(); ++i) {
      total_ += plan.parts()[i].bytes;
      if (hosts[i] == plan.hosts()) {
        left_over_.push_back(i);
        continue;
      }
      queues_[hosts[i]].push_back(i);
      bytes[hosts[i]] += plan.parts()[i].bytes;
      ++open_;
    }
    for (const int64_t some : bytes) asked_.push_back(std::min(kAskedBytes, some / kLeastAsked));
  }

  absl::StatusOr<NearStatsResult> run() {
    SCALAI_RETURN_IF_ERROR(run_concurrently(queues_.size(), [&](size_t host) { serve(host); }));
    SCALAI_RETURN_IF_ERROR(look_here());
    NearStatsResult result{.stats = {}, .notes = std::move(notes_)};
    for (const size_t tensor : tensors_) result.stats.push_back({.tensor = tensor, .elements = {}, .change = {}});
    for (size_t i = 0; i < result.stats.size(); ++i)
      if (plan_.compares(i)) result.stats[i].change.emplace();
    for (size_t i = 0; i < found_.size(); ++i) {
      TensorStats& stats = result.stats[plan_.parts()[i].slot];
      stats.elements.add(found_[i]->elements);
      if (found_[i]->change) stats.change->add(*found_[i]->change);
    }
    return result;
  }

 private:
  // The thread of a host: its parts, and those of hosts that fail, until none is open.
  void serve(size_t host) {
    absl::StatusOr<std::unique_ptr<near::Session>> session = std::unique_ptr<near::Session>();
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return open_ == 0 || !queues_[host].empty(); });
      if (open_ == 0) return;
      const std::vector<size_t> asked = next(host);
      lock.unlock();
      if (*session == nullptr) session = near::Session::start(spread_.checkpoint.source.hosts[host], spread_.launch);
      auto stats =
          session.ok() ? ask(**session, host, asked) : absl::StatusOr<std::vector<PartStats>>(session.status());
      lock.lock();
      if (stats.ok()) {
        for (size_t i = 0; i < asked.size(); ++i) settle(asked[i], std::move((*stats)[i]));
      } else {
        note(message_of(stats.status()));
        gone_[host] = !session.ok() || absl::IsUnavailable(stats.status());
        for (const size_t part : asked) pass_on(part, host);
        if (gone_[host]) {
          for (const size_t part : std::exchange(queues_[host], {})) pass_on(part, host);
          changed_.notify_all();
          return;
        }
      }
      changed_.notify_all();
    }
  }

  absl::StatusOr<std::vector<PartStats>> ask(near::Session& session, size_t host,
                                             const std::vector<size_t>& asked) const {
    const near::Host& where = spread_.checkpoint.source.hosts[host];
    std::vector<StatsFile> files;
    std::vector<StatsPart> parts;
    std::map<uint32_t, uint32_t> numbers;  // of these files, by those of the plan
    const auto renumber = [&](StatsSide& side) {
      for (CopyBlock& block : side.blocks) {
        const auto [known, fresh] = numbers.emplace(block.file, static_cast<uint32_t>(files.size()));
        const SpreadFile& file = plan_.files()[block.file];
        if (fresh) files.push_back({file.of->source.hosts[host].folder + "/" + file.facts().name, file.facts().bytes});
        block.file = known->second;
      }
    };
    for (const size_t i : asked) {
      parts.push_back(plan_.parts()[i].part);
      renumber(parts.back().now);
      if (parts.back().before) renumber(*parts.back().before);
    }
    std::vector<const StatsPart*> pointers;
    for (const StatsPart& part : parts) pointers.push_back(&part);
    SCALAI_ASSIGN_OR_RETURN(const std::string text, checkpoint_output(session, where, spread_.launch,
                                                                      {.words = {"stats-parts", "parts.json"},
                                                                       .script = 1,
                                                                       .script_text = work_text(files, pointers)}));
    auto stats = read_answer(text, pointers);
    if (!stats.ok()) return failed(fmt::format("{}: {}", where.name, message_of(stats.status())));
    return stats;
  }

  // The rest is called under the lock, or by the only thread.

  std::vector<size_t> next(size_t host) {
    std::vector<size_t> asked;
    int64_t bytes = 0;
    while (!queues_[host].empty() && (asked.empty() || bytes < asked_[host])) {
      asked.push_back(queues_[host].front());
      bytes += plan_.parts()[asked.back()].bytes;
      queues_[host].pop_front();
    }
    return asked;
  }

  void settle(size_t part, PartStats stats) {
    found_[part] = std::move(stats);
    --open_;
    done_ += plan_.parts()[part].bytes;
    if (spread_.progress) spread_.progress(done_, total_);
  }

  // To the host that has the part, too, and has least to do.
  void pass_on(size_t part, size_t host) {
    std::vector<char>& on = plan_.parts()[part].on;
    on[host] = 0;
    size_t best = queues_.size();
    for (size_t other = 0; other < queues_.size(); ++other) {
      if (on[other] == 0 || gone_[other]) continue;
      if (best == queues_.size() || queues_[other].size() < queues_[best].size()) best = other;
    }
    if (best < queues_.size()) {
      queues_[best].push_back(part);
      return;
    }
    left_over_.push_back(part);
    --open_;
  }

  void note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }

  absl::Status look_here() {
    if (left_over_.empty()) return absl::OkStatus();
    FetchedFiles here(plan_.files(), plan_.hosts(), spread_.launch);
    std::sort(left_over_.begin(), left_over_.end());
    for (const size_t part : left_over_) {
      auto stats = stats_of_part(plan_.parts()[part].part, here.sources());
      if (!stats.ok()) {
        const size_t tensor = tensors_[plan_.parts()[part].slot];
        std::string text = fmt::format("tensor \"{}\": {}", spread_.checkpoint.checkpoint->tensors()[tensor].name,
                                       message_of(stats.status()));
        for (const std::string& reason : notes_) text += "\n  " + reason;
        return failed(text);
      }
      ++open_;
      settle(part, *std::move(stats));
    }
    note(fmt::format("{} of {} parts were looked at here, of which {} bytes were fetched", left_over_.size(),
                     found_.size(), here.fetched_bytes()));
    return absl::OkStatus();
  }

  Plan& plan_;
  const std::vector<size_t>& tensors_;
  const SpreadStats& spread_;
  std::vector<int64_t> asked_;  // bytes of a question, by host
  std::mutex mutex_;            // guards what follows
  std::condition_variable changed_;
  std::vector<std::deque<size_t>> queues_;  // parts, by host
  std::vector<char> gone_;                  // hosts
  size_t open_ = 0;                         // parts that hosts have to answer
  std::vector<size_t> left_over_;
  std::vector<std::optional<PartStats>> found_;
  std::vector<std::string> notes_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

absl::StatusOr<NearStatsResult> stats_spread(const std::vector<size_t>& tensors, const SpreadStats& spread) {
  SCALAI_ASSIGN_OR_RETURN(Plan plan, plan_of(tensors, spread));
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // of workers that are gone
  auto result = HostsStats(plan, tensors, spread).run();
  std::signal(SIGPIPE, before);
  return result;
}

absl::StatusOr<std::vector<SpreadShare>> shares_of(const std::vector<size_t>& tensors, const SpreadStats& spread) {
  SCALAI_ASSIGN_OR_RETURN(Plan plan, plan_of(tensors, spread));
  std::vector<SpreadShare> shares;
  for (const near::Host& host : spread.checkpoint.source.hosts) shares.push_back({.host = host.name});
  shares.push_back({.host = "here"});
  std::vector<std::set<uint32_t>> files(shares.size());
  const std::vector<size_t> hosts = plan.assigned();
  for (size_t i = 0; i < hosts.size(); ++i) {
    SpreadShare& share = shares[hosts[i]];
    ++share.parts;
    share.bytes += plan.parts()[i].bytes;
    const StatsPart& part = plan.parts()[i].part;
    for (const CopyBlock& block : part.now.blocks) files[hosts[i]].insert(block.file);
    if (!part.before) continue;
    share.bytes += part.elements * tensor::size_of(part.before->dtype);
    for (const CopyBlock& block : part.before->blocks) files[hosts[i]].insert(block.file);
  }
  for (size_t i = 0; i < shares.size(); ++i) shares[i].files = std::ssize(files[i]);
  return shares;
}

}  // namespace scalai::apps
