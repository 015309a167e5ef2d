#include "labs/near/commands/near_held.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

#ifdef SCALAI_WITH_EXECUTOR
#include "apps/common/runs/reader_step.h"
#include "executor/rpc/process.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/collection/rank_parts.h"
#include "ptc/store/views/view.h"
#endif

namespace scalai::apps {
namespace {

constexpr double kAsGoodAsMost = 0.9;

// "user@node7.cluster" is "node7".
std::string short_name(const std::string& name) {
  const size_t at = name.find('@');
  const std::string host = at == std::string::npos ? name : name.substr(at + 1);
  return host.substr(0, host.find('.'));
}

}  // namespace

#ifndef SCALAI_WITH_EXECUTOR

absl::StatusOr<std::unique_ptr<HeldStep>> HeldStep::open(const std::string&, const std::string&) {
  return missing("running jobs need the executor, without which this program was built");
}

namespace {
std::string this_machine() { return ""; }
}  // namespace

#else

namespace {

std::string this_machine() { return short_name(executor::rpc::machine_name()); }

class RunningStep final : public HeldStep {
 public:
  explicit RunningStep(std::unique_ptr<ReaderStep> step) : step_(std::move(step)) {}
  std::string job() const override { return state().name(); }
  int64_t number() const override { return state().version(); }
  absl::StatusOr<HeldBytes> held(const std::string& view) const override;

 private:
  // What machines hold of a tensor.
  struct Held {
    tensor::Box box;
    std::set<std::string> machines;
  };
  const proto::LiveState& state() const { return step_->step().state(); }
  absl::StatusOr<std::map<std::string, std::vector<Held>>> boxes() const;
  const std::unique_ptr<ReaderStep> step_;
};

absl::StatusOr<std::map<std::string, std::vector<RunningStep::Held>>> RunningStep::boxes() const {
  SCALAI_ASSIGN_OR_RETURN(const collection::CollectionFile file,
                          collection::parse_collection(state().collection(), step_->step().checkpoint()->info().path,
                                                       collection::FileRole::kPlanned));
  const collection::Collection& side = file.collection;
  std::map<int, std::string> machine_of_host;
  for (const proto::Peer& peer : state().peers()) machine_of_host[peer.host()] = short_name(peer.host_name());
  std::vector<std::string> machine_of_device;
  for (int host = 0; host < state().gpus_of_host_size(); ++host)
    machine_of_device.insert(machine_of_device.end(), static_cast<size_t>(state().gpus_of_host(host)),
                             machine_of_host[host]);
  std::map<std::string, std::vector<Held>> boxes;
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    for (const collection::RankPart& part : collection::rank_parts(side, TensorId(static_cast<int64_t>(i)))) {
      std::set<std::string> machines;
      for (const LogicalRank rank : part.ranks) {
        const auto device = static_cast<size_t>(side.device_of_rank[static_cast<size_t>(rank.value)].value);
        if (device < machine_of_device.size()) machines.insert(machine_of_device[device]);
      }
      for (const tensor::Piece& piece : part.buffer.pieces)
        boxes[side.tensors[i].name].push_back({piece.box, machines});
    }
  }
  return boxes;
}

absl::StatusOr<HeldBytes> RunningStep::held(const std::string& name) const {
  SCALAI_ASSIGN_OR_RETURN(const auto view, store::View::make(step_->step().checkpoint(), name));
  SCALAI_ASSIGN_OR_RETURN(const auto boxes, this->boxes());
  HeldBytes held;
  for (size_t file = 0; file < view->files(); ++file) {
    if (!view->has_tensors(file)) continue;
    SCALAI_ASSIGN_OR_RETURN(const store::ArrangedFile arranged, view->arrangement(file));
    std::map<std::string, int64_t>& machines = held[view->file_name(file)];
    for (const auto& one : arranged.tensors) {
      for (const auto& part : one.pieces) {
        const auto known = boxes.find(part.logical);
        if (known == boxes.end()) continue;
        for (const Held& there : known->second) {
          const auto both = tensor::intersect(there.box, part.piece.box);
          if (!both) continue;
          for (const std::string& machine : there.machines)
            machines[machine] += both->volume() * tensor::size_of(one.dtype);
        }
      }
    }
  }
  return held;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeldStep>> HeldStep::open(const std::string& run, const std::string& job) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ReaderStep> step, ReaderStep::open(run, job, {}));
  return std::make_unique<RunningStep>(std::move(step));
}

#endif

void keep_where_held(const HeldBytes& held, near::Source& source) {
  for (const auto& [file, machines] : held) {
    std::vector<int64_t> bytes;
    for (const near::Host& host : source.hosts) {
      const auto found = machines.find(host.here ? this_machine() : short_name(host.name));
      bytes.push_back(found == machines.end() ? 0 : found->second);
    }
    const int64_t most = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
    if (most == 0) continue;
    for (size_t host = 0; host < bytes.size(); ++host)
      if (static_cast<double>(bytes[host]) < kAsGoodAsMost * static_cast<double>(most))
        source.by_host[host].erase(file);
  }
}

}  // namespace scalai::apps
