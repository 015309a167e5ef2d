#include "labs/bounds/offload/internal/step_graph.h"

#include <algorithm>
#include <cmath>

#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/schedule.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step::offload::internal {
namespace {

using Operands = std::vector<int32_t>;

// Sizes are whole bytes, rounded down; what is there has at least one.
int64_t whole(double bytes) { return std::max<int64_t>(1, static_cast<int64_t>(std::floor(bytes))); }

// What one layer keeps of a micro-batch, recomputed so.
double kept_bytes(const Workload& w, const Recompute& recompute) {
  Training training = w.training;
  training.recompute = recompute;
  return layer_activation_bytes({w.model, w.config, training});
}

// Bytes of a layer, of the embedding and of the head.
struct Sizes {
  double parameters = 0, gradients = 0, optimizer = 0;
};

struct Layer {
  Sizes sizes;
  double kept = 0;                          // k of a micro-batch; 0 = none
  int32_t parameters = -1, optimizer = -1;  // values
  int32_t gradients = -1;                   // as summed up so far
};

class Builder {
 public:
  Builder(const Workload& workload, int stage, int micro_batches)
      : w_(workload),
        stage_(stage),
        first_(stage == 0),
        last_(stage == workload.config.pp - 1),
        micro_batches_(micro_batches),
        between_(kept_bytes(workload, Recompute::kFull)) {
    make_layers();
  }

  StepGraph build() {
    for (std::vector<Layer>& chunk : chunks_) {
      for (Layer& layer : chunk) add_state(layer);
    }
    if (last_) add_state(head_);
    if (first_ && embedding_.sizes.parameters > 0) add_state(embedding_);
    forward_.assign(chunks_.size(), {});
    backward_ = forward_;
    for (int j = 0; j < micro_batches_; ++j) add_micro_batch();
    const PipelineShape shape = {w_.training.schedule, w_.config.pp, w_.config.vpp,
                                 w_.training.micro_batches(w_.config.dp)};
    for (const Slot& slot : slots_of(shape, stage_)) {
      if (slot.micro_batch >= micro_batches_) continue;
      const auto& lists = (slot.backward ? backward_ : forward_)[static_cast<size_t>(slot.chunk)];
      const Operands& list = lists[static_cast<size_t>(slot.micro_batch)];
      out_.order.insert(out_.order.end(), list.begin(), list.end());
    }
    add_updates();
    return std::move(out_);
  }

 private:
  void make_layers() {
    const MemoryEstimate memory = memory_of(w_);
    const StageMemory& here = memory.stages[static_cast<size_t>(stage_)];
    const StageElements elements = stage_elements(w_, stage_);
    const collection::ParallelConfig& config = w_.config;
    const Precision& precision = w_.training.precision;
    // The ends are dense: cut as memory.cpp cuts them.
    const auto of_end = [&](double count) {
      const double shards = collection::zero_shards(config, false);
      return Sizes{precision.param_bytes * count / (config.zero >= 3 ? shards : 1),
                   precision.gradient_bytes * count / (shards_gradients(config) ? shards : 1),
                   precision.optimizer_bytes * count / (config.zero >= 1 ? shards : 1)};
    };
    const double ends = elements.dense + elements.experts - elements.layers;
    embedding_.sizes = of_end(elements.first);
    head_.sizes = of_end(ends - elements.first);
    const Sizes both = of_end(ends);
    const std::vector<int> all = collection::layers_per_stage(config, w_.model.layers);
    int count = 0;
    for (int c = 0; c < config.vpp; ++c) count += all[static_cast<size_t>(c * config.pp + stage_)];
    const Sizes layer = {(here.bytes(memory_term::kParameters) - both.parameters) / count,
                         (here.bytes(memory_term::kGradients) - both.gradients) / count,
                         (here.bytes(memory_term::kOptimizer) - both.optimizer) / count};
    const Recompute& recompute = w_.training.recompute;
    const double kept = std::max(0.0, kept_bytes(w_, recompute) - between_);
    const double kept_whole = std::max(0.0, kept_bytes(w_, Recompute::kNone) - between_);
    for (int c = 0; c < config.vpp; ++c) {
      const int layers = all[static_cast<size_t>(c * config.pp + stage_)];
      const int again = recompute.kind == Recompute::Kind::kLayers ? recompute.whole_layers(layers) : layers;
      std::vector<Layer>& chunk = chunks_.emplace_back();
      for (int l = 0; l < layers; ++l) chunk.push_back({.sizes = layer, .kept = l < again ? kept : kept_whole});
    }
  }

  void add_state(Layer& layer) {
    layer.parameters = out_.graph.input(whole(layer.sizes.parameters));
    layer.optimizer = out_.graph.input(whole(layer.sizes.optimizer));
    out_.state_bytes += out_.graph.size(layer.parameters) + out_.graph.size(layer.optimizer);
  }

  int32_t value(double bytes, Operands operands, Operands& list, Operands after = {}) {
    std::erase(operands, -1);
    std::erase(after, -1);
    list.push_back(out_.graph.computed(whole(bytes), operands, after));
    return list.back();
  }

  void add_micro_batch() {
    std::vector<Operands> inputs(chunks_.size()), kept(chunks_.size());  // of the layers: x before, k
    int64_t activations = 0;
    int32_t x = -1;
    std::vector<int32_t> ends;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      Operands& list = forward_[c].emplace_back();
      x = value(between_, {}, list, {x});  // from another stage, once the chunk before it has been sent on
      for (const Layer& layer : chunks_[c]) {
        inputs[c].push_back(x);
        kept[c].push_back(layer.kept < 1 ? -1 : value(layer.kept, {x, layer.parameters}, list));
        activations += whole(between_) + (layer.kept < 1 ? 0 : whole(layer.kept));
        x = value(between_, {x, layer.parameters}, list, {kept[c].back()});
      }
      ends.push_back(x);
    }
    out_.activation_bytes = activations;
    int32_t dx = -1;
    for (size_t c = chunks_.size(); c-- > 0;) {
      Operands& list = backward_[c].emplace_back();
      const bool loss = last_ && c + 1 == chunks_.size();
      if (loss) head_.gradients = value(head_.sizes.gradients, {head_.gradients, ends[c]}, list);
      dx = loss ? value(between_, {ends[c], head_.parameters}, list) : value(between_, {}, list, {dx, ends[c]});
      for (size_t l = chunks_[c].size(); l-- > 0;) {
        Layer& layer = chunks_[c][l];
        layer.gradients = value(layer.sizes.gradients, {layer.gradients, dx, kept[c][l], inputs[c][l]}, list);
        dx = value(between_, {dx, kept[c][l], layer.parameters}, list);
      }
    }
    embedding_.gradients = dx;
  }

  // `read`: the next step reads the parameters as a whole. Rows of an embedding are looked up wherever the table lies,
  // so its new parameters are stored.
  void update(const Layer& layer, bool read = true) {
    const Operands operands = {layer.gradients, layer.optimizer};
    for (const int32_t old : {layer.parameters, layer.optimizer}) {  // the last one in the place of the old state
      const int32_t made = out_.graph.result(out_.graph.size(old), operands);
      if (read || old == layer.optimizer) out_.carried.emplace_back(old, made);
      out_.order.push_back(made);
    }
  }
  void add_updates() {
    if (embedding_.parameters >= 0) update(embedding_, /*read=*/false);
    for (const std::vector<Layer>& chunk : chunks_) {
      for (const Layer& layer : chunk) update(layer);
    }
    if (last_) update(head_);
  }

  const Workload& w_;
  const int stage_;
  const bool first_, last_;
  const int micro_batches_;
  const double between_;  // bytes of x
  std::vector<std::vector<Layer>> chunks_;
  Layer embedding_, head_;
  std::vector<std::vector<Operands>> forward_, backward_;  // by chunk and micro-batch: operations in order
  StepGraph out_;
};

}  // namespace

StepGraph step_graph(const Workload& workload, int stage, int micro_batches) {
  return Builder(workload, stage, micro_batches).build();
}

}  // namespace scalai::step::offload::internal
