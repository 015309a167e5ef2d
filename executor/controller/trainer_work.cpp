#include "executor/controller/trainer_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "executor/worker/places.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

using collection::Collection;
using proto::CommandBody;
using proto::ReplyBody;

namespace {

constexpr int kMostAttempts = 3;  // at one layout, or at one step

std::string said_of(const proto::TrainerState& state) {
  return fmt::format("trainer of g{}: {}", state.device(), state.ended().empty() ? state.problem() : state.ended());
}

}  // namespace

absl::StatusOr<TensorSums> tensor_sums(WorkerPool& pool, int job, const Collection& side, state::StateVersion version,
                                       const std::set<DeviceId>& gone, int64_t& bytes) {
  CommandBody body;
  body.mutable_digest()->set_job(job);
  body.mutable_digest()->set_version(version.wire());
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                          pool.call("digest", pool.living_hosts_of(living(side, gone)), body));
  std::map<std::pair<int32_t, tensor::Box>, uint64_t> pieces;
  for (const ReplyBody& reply : replies) {
    bytes += reply.bytes();
    for (const proto::PieceSum& one : reply.sums()) {
      SCALAI_ASSIGN_OR_RETURN(const tensor::Box box, worker::box_of(one.box()));
      const int32_t tensor = one.box().tensor();
      if (tensor < 0 || static_cast<size_t>(tensor) >= side.tensors.size())
        return failed(fmt::format("a worker has a sum of tensor {} of {}", tensor, side.tensors.size()));
      const auto [found, first] = pieces.emplace(std::pair(tensor, box), one.sum());
      if (!first && found->second != one.sum())
        return absl::DataLossError(fmt::format("two devices hold different content as tensor \"{}\" {} of {}",
                                               side.tensors[static_cast<size_t>(tensor)].name, box.str(),
                                               version.str()));
    }
  }
  std::vector<int64_t> covered(side.tensors.size());
  std::vector<uint64_t> sums(side.tensors.size());
  for (const auto& [piece, sum] : pieces) {
    covered[static_cast<size_t>(piece.first)] += piece.second.volume();
    sums[static_cast<size_t>(piece.first)] += sum;
  }
  TensorSums result(side.tensors.size());
  for (size_t i = 0; i < result.size(); ++i) {
    if (covered[i] == side.tensors[i].shape.elements()) result[i] = sums[i];
  }
  return result;
}

// One line a layout that trainers have taken up. A file for people: what cannot be written is left out.
void TrainerWork::note(const Collection& side, int64_t step, const Begun& begun) {
  if (!make_folders(program_.logs).ok()) return;
  const std::string path = program_.logs + "/take_ups.csv";
  std::error_code ignored;
  const bool begins = !std::filesystem::exists(path, ignored);
  std::ofstream file(path, std::ios::app);
  if (begins) file << "step,layout,processes,attempts,seconds,communicators_s,build_s\n";
  file << fmt::format("{},\"{}\",{},{},{:.6f},{:.6f},{:.6f}\n", step, side.name, side.ranks(), begun.attempts,
                      begun.seconds, begun.group_s, begun.build_s);
}

absl::Status TrainerWork::begin(const Side& side, int64_t step, bool fresh) {
  if (side_ != nullptr && side_->epoch == side->epoch) return absl::OkStatus();
  side_ = nullptr;
  const auto began = std::chrono::steady_clock::now();
  std::string problems;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    CommandBody body;
    CommandBody::Begin& begin = *body.mutable_begin();
    begin.set_job(job_);
    begin.set_version(state::StateVersion::epoch(side->epoch).wire());
    begin.set_step(step);
    begin.set_fresh(fresh);
    begin.set_ask(true);
    const std::set<HostId> hosts = pool_.living_hosts_of(side->device_of_rank);
    SCALAI_ASSIGN_OR_RETURN(std::vector<ReplyBody> replies, pool_.call("begin", hosts, body));
    bool gathered = true;
    for (const ReplyBody& reply : replies) {
      if (!reply.address().empty()) begin.set_address(reply.address());
      gathered = gathered && reply.trainers().empty();
    }
    if (gathered) {  // only now: those that wait for others do not hear that these have ended
      if (begin.address().empty()) return absl::UnavailableError("the host of rank 0 is lost");
      begin.set_ask(false);
      SCALAI_ASSIGN_OR_RETURN(replies, pool_.call("begin", hosts, body));
    }
    problems.clear();
    Begun begun{.attempts = attempt + 1};
    for (const ReplyBody& reply : replies) {
      for (const proto::TrainerState& state : reply.trainers()) {
        begun.build_s = std::max(begun.build_s, state.build_s());
        begun.group_s = std::max(begun.group_s, state.group_s());
        if (!state.ended().empty() || !state.problem().empty()) problems += "\n  " + said_of(state);
      }
    }
    if (problems.empty()) {
      begun.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      note(*side, step, begun);
      side_ = side;
      return absl::OkStatus();
    }
    say("scalai exec: warning: trainers could not take up the layout \"{}\":{}\n", side->name, problems);
  }
  return failed(fmt::format("trainers failed {} times at the layout \"{}\":{}", kMostAttempts, side->name, problems));
}

absl::StatusOr<std::map<DeviceId, TrainerWork::State>> TrainerWork::advance(const Collection& side, int64_t step,
                                                                            const std::set<DeviceId>& gone) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, commands_.advance(side, step, gone));
  std::map<DeviceId, State> states;
  double copy_s = 0;
  for (const ReplyBody& reply : replies) {
    for (const proto::TrainerState& state : reply.trainers()) {
      trained_.asked_gpus = std::max(trained_.asked_gpus, state.asked_gpus());
      trained_.asked_save = trained_.asked_save || state.asked_save();
      copy_s = std::max(copy_s, state.copy_s());
      if (gone.contains(DeviceId(state.device()))) continue;
      const bool ended = !state.ended().empty();
      states[DeviceId(state.device())] = {state.step(), state.torn(), ended,
                                          ended || !state.problem().empty() ? said_of(state) : ""};
    }
  }
  trained_.copy_s += copy_s;
  return states;
}

int64_t steps_of_part(const TrainerWork::Trained& before, int64_t most) {
  constexpr double kPart_s = 1, kLongest_s = 60, kCopyShare = 0.05;
  const double part_s = std::clamp(before.copy_s / kCopyShare, kPart_s, kLongest_s);
  const double step_s = std::max(before.seconds - before.copy_s, 1e-6) / static_cast<double>(before.steps);
  return std::clamp(static_cast<int64_t>(part_s / step_s), int64_t{1}, std::max(most, int64_t{1}));
}

// The step that most whole holders have; a later one where two are held by as many.
Interruption TrainerWork::judge(const std::map<DeviceId, State>& states) {
  std::map<int64_t, int> holders;
  for (const auto& [device, state] : states) {
    if (!state.torn) ++holders[state.step];
  }
  Interruption result;
  int most = 0;
  for (const auto& [step, count] : holders) {
    if (count >= most) {
      most = count;
      result.step = step;
    }
  }
  for (const auto& [device, state] : states) {
    if (most == 0) result.step = std::max(result.step, state.step);  // all is torn
    if (state.torn || state.step != result.step) result.lost.push_back(device);
  }
  return result;
}

absl::StatusOr<std::optional<Interruption>> TrainerWork::train(const Side& side, int64_t from_step, int64_t step,
                                                               const std::set<DeviceId>& gone) {
  int64_t stuck_at = -1;
  for (int attempt = 0;;) {
    SCALAI_RETURN_IF_ERROR(begin(side, std::max(from_step, stuck_at), false));
    const auto began = std::chrono::steady_clock::now();
    SCALAI_ASSIGN_OR_RETURN(const auto states, advance(*side, step, gone));
    const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::string problems;
    for (const auto& [device, state] : states) {
      if (!state.problem.empty()) problems += "\n  " + state.problem;
    }
    const Interruption found = judge(states);
    if (problems.empty() && found.lost.empty() && found.step == step) {
      trained_.steps += step - std::max(from_step, stuck_at);
      trained_.seconds += took_s;
      return std::optional<Interruption>();
    }
    side_ = nullptr;
    if (!problems.empty())
      say("scalai exec: warning: trainers stopped at step {} of {}:{}\n", found.step, step, problems);
    if (!found.lost.empty()) return std::optional(found);
    attempt = found.step == stuck_at ? attempt + 1 : 1;
    stuck_at = found.step;
    if (attempt >= kMostAttempts)
      return failed(fmt::format("trainers stopped {} times at step {} of {}:{}", attempt, found.step, step, problems));
  }
}

absl::StatusOr<Interruption> TrainerWork::settle(const Collection& side, int64_t step, const std::set<DeviceId>& gone) {
  side_ = nullptr;
  SCALAI_ASSIGN_OR_RETURN(const auto states, advance(side, 0, gone));
  return states.empty() ? Interruption{.step = step, .lost = {}} : judge(states);
}

}  // namespace scalai::executor::controller
