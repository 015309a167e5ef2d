#include "ptc/cost/step/step_time.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

double sum(const std::vector<ChunkWork>& chunks) {
  double seconds = 0;
  for (const ChunkWork& chunk : chunks) seconds += chunk.seconds();
  return seconds;
}

struct StageSeconds {
  double forward = 0, backward = 0;
  double weights = 0;   // in backward
  double messages = 0;  // in both, of an interleaved pipeline that waits for its messages
  double both() const { return forward + backward; }
};

class ClosedForm {
 public:
  ClosedForm(const Workload& workload, const StepParts& parts)
      : workload_(workload), parts_(parts), vpp_(workload.config.vpp), m_(parts.micro_batches) {
    const int stages = static_cast<int>(parts.stages.size());
    stages_.reserve(parts.stages.size());
    for (int s = 0; s < stages; ++s) stages_.push_back(seconds_of(s, stages));
    for (const StageSeconds& seconds : stages_)
      forward_ += seconds.forward, backward_ += seconds.backward, weights_ += seconds.weights;
  }

  size_t slowest() const {
    const auto less = [](const StageSeconds& a, const StageSeconds& b) { return a.both() < b.both(); };
    return static_cast<size_t>(std::max_element(stages_.begin(), stages_.end(), less) - stages_.begin());
  }
  const StageSeconds& stage_seconds(size_t stage) const { return stages_[stage]; }

  // From the first slot to the last: the slowest stage works without a break once it has begun, the first micro-batch
  // passes through the others before, the last one after.
  // Zero bubble (Qi et al., arXiv 2401.10241) puts gradients of weights, which nothing waits for, where a stage would
  // wait: with the activations of 1F1B, 2 · W of each other stage less (ZB-H1); with twice as many only as far as the
  // backward pass without them outlasts the forward pass, as steps follow one another without a barrier (ZB-H2 and
  // beyond). DualPipe (DeepSeek-AI, arXiv 2412.19437, Table 2) feeds both ends: (pp/2 − 1) · (F + B − 3W) of a stage
  // with all its backward work B beside F, so once more B.
  double pipeline_s() const {
    const double longest = stages_[slowest()].both(), all = forward_ + backward_;
    const double others = all - longest, weights = weights_ - stages_[slowest()].weights;
    switch (workload_.training.schedule) {
      case Schedule::kZeroBubble1: return m_ * longest + std::max(0.0, others - 2 * weights) + waits_s();
      case Schedule::kZeroBubble2: {
        const double forward = forward_ - stages_[slowest()].forward, back = others - forward - weights;
        return m_ * longest + std::max(0.0, back - forward) + waits_s();
      }
      case Schedule::kDualPipe: {
        const double stages = static_cast<double>(stages_.size());
        const double mean = std::max(0.0, (forward_ + 2 * backward_ - 3 * weights_) / stages);
        return m_ * longest + std::max(0.0, stages / 2 - 1) * mean + waits_s();
      }
      case Schedule::kTwoBW: return m_ * longest + waits_s();
      case Schedule::kGPipe: {
        double forward = 0, backward = 0;
        for (const StageSeconds& seconds : stages_) {
          forward = std::max(forward, seconds.forward);
          backward = std::max(backward, seconds.backward);
        }
        return (m_ - 1) * (forward + backward) + all + waits_s();
      }
      case Schedule::kOneFOneB: break;
    }
    return m_ * longest + (all - longest) / vpp_ + waits_s();
  }

  // What messages that nothing hides add to that: the first micro-batch's way forward and the last one's way back. 2BW
  // does neither, its steps follow one another.
  double waits_s() const {
    if (stages_.size() == 1 || parts_.sender_waits(workload_.config.vpp)) return 0;
    double way = 0;
    for (size_t s = 0; s + 1 < stages_.size(); ++s) way += 2 * message_s(s);
    if (way == 0) return 0;
    switch (workload_.training.schedule) {
      case Schedule::kTwoBW: return stalls_s();
      case Schedule::kGPipe: return way;
      default: break;
    }
    return way + (vpp_ > 1 ? 0 : stalls_s());
  }

  // What of the data-parallel synchronisation the work does not hide, and what comes when all stages are done.
  double synchronisation_s() const {
    if (workload_.training.schedule == Schedule::kTwoBW) return steady_synchronisation_s();
    double before = 0, after = 0, embedding = 0, slack_before = 0, slack_after = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageWork& stage = parts_.stages[s];
      const double forward = stage.forward.front().seconds(), backward = stage.backward.front().seconds();
      // Stages behind the first begin later and are done earlier.
      before = std::max(before, left(parts_.parameters_hidden, stage.parameters.seconds, forward) - slack_before);
      after = std::max(after, left(parts_.gradients_hidden, stage.gradients.seconds, backward) - slack_after);
      embedding = std::max(embedding, stage.embedding.seconds);
      slack_before += stages_[s].forward / vpp_;
      slack_after += stages_[s].backward / vpp_;
    }
    return before + after + embedding;
  }

  double optimizer_s() const {
    double longest = 0;
    for (const StageWork& stage : parts_.stages) longest = std::max(longest, stage.optimizer_s);
    return longest;
  }

 private:
  // 2BW's: beside the whole next step, and what cannot be hidden on the stage that it makes the longest.
  double steady_synchronisation_s() const {
    const double longest = m_ * stages_[slowest()].both() + waits_s();
    double most = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageWork& stage = parts_.stages[s];
      const double whole = stage.gradients.seconds + stage.parameters.seconds;
      const double beside =
          parts_.gradients_hidden * stage.gradients.seconds + parts_.parameters_hidden * stage.parameters.seconds;
      const double hidden = std::max(beside, stage.embedding.seconds);
      const double rest = whole - beside;
      most = std::max(most, rest + std::max(m_ * stages_[s].both(), hidden) - longest);
    }
    return most;
  }

  StageSeconds seconds_of(int s, int stages) const {
    const StageWork& stage = parts_.stages[static_cast<size_t>(s)];
    StageSeconds seconds{.forward = sum(stage.forward), .backward = sum(stage.backward)};
    for (const ChunkWork& chunk : stage.backward) seconds.weights += chunk.weights_s;
    if (stages == 1 || !parts_.sender_waits(workload_.config.vpp)) return seconds;
    const size_t before = static_cast<size_t>((s + stages - 1) % stages);
    const double forward = stage.send.seconds * (s == stages - 1 ? vpp_ - 1 : vpp_);
    const double backward = message_s(before) * (s == 0 ? vpp_ - 1 : vpp_);
    seconds.forward += forward;
    seconds.backward += backward;
    seconds.messages = forward + backward;
    return seconds;
  }
  double message_s(size_t stage) const { return parts_.stages[stage].send.seconds; }

  // What the steady phase of 1F1B lacks because messages are under way. Of n neighbouring stages the first one takes a
  // micro-batch for each that comes back, n are under way between them: their period is at least the n-th part of the
  // way through all of them and back. The first one's slots before the steady phase do not wait.
  double stalls_s() const {
    const double longest = stages_[slowest()].both();
    const bool steady = workload_.training.schedule == Schedule::kTwoBW;
    double most = 0;
    for (size_t first = 0; first < stages_.size(); ++first) {
      const double alternating = std::max(0.0, m_ - static_cast<double>(stages_.size() - first));
      double way = 0, n = 0;
      for (size_t s = first; s < stages_.size(); ++s) {
        way += stages_[s].both() + (s > first ? 2 * message_s(s - 1) : 0);
        ++n;
        most = std::max(most, (steady ? m_ / n : std::ceil(alternating / n)) * (way - n * longest));
      }
    }
    return most;
  }

  // Of so much synchronisation: what cannot be hidden, and what outlasts the slots beside it. Chunk by chunk: the first
  // one's share has its own slot, all of them those between the last micro-batch's on the last chunk and on the first.
  double left(double share, double seconds, double slot) const {
    const double hidden = share * seconds;
    const double slots = 1 + (vpp_ - 1) * static_cast<double>(stages_.size());
    return seconds - hidden + std::max({0.0, hidden / vpp_ - slot, hidden - slot * slots});
  }

  const Workload& workload_;
  const StepParts& parts_;
  const double vpp_, m_;
  std::vector<StageSeconds> stages_;
  double forward_ = 0, backward_ = 0, weights_ = 0;  // of all stages
};

void add_chunks(const std::vector<ChunkWork>& chunks, double times, StepTime& time) {
  for (const ChunkWork& chunk : chunks) {
    time.matrix_s += times * chunk.matrix_s;
    time.memory_s += times * chunk.memory_s;
    time.launch_s += times * chunk.launch_s;
    time.tp_s += times * chunk.tp.seconds;
    time.cp_s += times * chunk.cp.seconds;
    time.ep_s += times * chunk.ep.seconds;
    time.gradients_s += times * chunk.dp.seconds;
  }
}

}  // namespace

StepTime step_time(const Workload& workload, const Hardware& hardware) {
  return step_time(workload, hardware, step_parts(workload, hardware));
}

StepTime step_time(const Workload& workload, const Hardware& hardware, const StepParts& parts) {
  const Training& training = workload.training;
  const ClosedForm form(workload, parts);
  Training plain = training;  // nothing computed again
  plain.recompute = Recompute::kNone;
  StepTime time{.model_flops = hardware_flops({workload.model, workload.config, plain}),
                .hardware_flops = hardware_flops(workload)};
  const size_t slowest = form.slowest();
  const StageWork& stage = parts.stages[slowest];
  const double m = parts.micro_batches;
  add_chunks(stage.forward, m, time);
  add_chunks(stage.backward, m, time);
  time.pipeline_s = m * form.stage_seconds(slowest).messages + form.waits_s();
  time.bubble_s = form.pipeline_s() - m * form.stage_seconds(slowest).both() - form.waits_s();
  time.gradients_s += form.synchronisation_s();
  time.optimizer_s = form.optimizer_s();
  time.step_s = time.matrix_s + time.memory_s + time.launch_s + time.tp_s + time.cp_s + time.ep_s + time.pipeline_s +
                time.bubble_s + time.gradients_s + time.optimizer_s;
  const double peak = peak_flops(hardware, workload.config, training.precision.math);
  SCALAI_CHECK(time.step_s > 0 && peak > 0, workload.model.name);
  time.mfu = time.model_flops / (time.step_s * peak);
  time.hfu = time.hardware_flops / (time.step_s * peak);
  return time;
}

}  // namespace scalai::step
