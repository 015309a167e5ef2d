#include "ptc/cost/step/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/internal/layer_memory.h"
#include "ptc/cost/step/schedule.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step {
namespace {

using internal::divisor;
using internal::layer_bytes;
using internal::tokens;

constexpr int64_t kVocabMultiple = 128;  // Megatron's make-vocab-size-divisible-by, times tp
constexpr double kFullLogitBytes = 4;    // the loss is computed in fp32
constexpr double kLargeBucket = 5e8;     // DeepSpeed's reduce_bucket_size, Scaling's allreduce_bucket_size; elements
// Elements that ResNet-50's convolutions put out for an image (Radosavovic et al. 2020, "Designing Network Design
// Spaces"); as many again come out of the norms and go into the next convolution.
constexpr double kConvolutionElements = 2 * 11.1e6;

std::string size_text(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }
std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string micro_batches(double count) {
  return fmt::format("{} micro-batch{}", number(count), count == 1 ? "" : "es");
}

int64_t padded(int64_t rows, int tp) {
  const int64_t multiple = kVocabMultiple * tp;
  return (rows + multiple - 1) / multiple * multiple;
}

// Of one rank: the rows of an embedding or of a head that tp cuts.
double embedding_elements(const Workload& w) {
  return static_cast<double>(padded(w.model.vocab, w.config.tp) / w.config.tp * w.model.hidden);
}

// What tp makes of a layer: a key-value head is never cut, so ranks beyond their number repeat them.
double layer_elements(const Workload& w) {
  const ModelShape& m = w.model;
  const double kv = m.latent ? 0
                             : 2.0 * m.blocks.attention *
                                   static_cast<double>(m.kv_heads * m.head_dim * (m.hidden + (m.biases ? 1 : 0)));
  const double rest = static_cast<double>(m.layer_cut_params) - kv;
  return rest / w.config.tp + kv / std::min(w.config.tp, m.kv_heads) + static_cast<double>(m.layer_replicated_params);
}

double layer_expert_elements(const Workload& w) {
  if (w.model.experts == 0) return 0;
  const double held = static_cast<double>(w.model.experts) / w.config.ep;
  return held * static_cast<double>(w.model.layer_expert_params) / w.config.etp;
}

// What a stage has before its first layer and behind its last: a tied embedding is at both ends.
struct EndElements {
  double first = 0, last = 0;
};
EndElements end_elements(const Workload& w, int stage) {
  const ModelShape& m = w.model;
  EndElements ends;
  if (stage == 0)
    ends.first = static_cast<double>(m.first_params) + (m.embedding_params > 0 ? embedding_elements(w) : 0);
  if (stage == w.config.pp - 1) {
    ends.last = static_cast<double>(m.last_params) + (m.head_params > 0 || m.tied ? embedding_elements(w) : 0);
  }
  return ends;
}

// Layers of each chunk of a stage, first chunk first.
std::vector<int> chunks_of(const Workload& w, int stage) {
  const std::vector<int> all = layers_per_stage(w);
  std::vector<int> chunks;
  for (int c = 0; c < w.config.vpp; ++c) chunks.push_back(all[static_cast<size_t>(c * w.config.pp + stage)]);
  if (stage == w.config.pp - 1) chunks.back() += w.training.mtp;  // their layers are behind the last
  return chunks;
}

int layers_of(const std::vector<int>& chunks) { return std::accumulate(chunks.begin(), chunks.end(), 0); }

// What goes over all stages and terms. Texts are made only where someone reads them, so `text` is a function.
class Sizer {
 public:
  explicit Sizer(const Workload& workload)
      : w_(workload),
        shape_{.schedule = w_.training.schedule,
               .pp = w_.config.pp,
               .vpp = w_.config.vpp,
               .micro_batches = w_.training.micro_batches(w_.config.dp)},
        again_bytes_(w_.model.heads > 0 ? layer_bytes(w_, w_.training.recompute) : 0),
        whole_bytes_(w_.model.heads > 0 ? layer_bytes(w_, Recompute::kNone) : 0) {}

  // Calls add(name, bytes, text) for each term of a stage.
  template <class Add>
  void state(int stage, const Add& add) const;
  template <class Add>
  void working(int stage, const Add& add) const;
  double margin(double comes_and_goes) const {
    return kFragmentation * comes_and_goes + context() + communicators() * kCommunicatorBytes;
  }
  double context() const { return w_.training.runs_in() == Framework::kDeepSpeed ? kEagerContextBytes : kContextBytes; }
  int communicators() const;

 private:
  template <class Add>
  void kept(std::string_view name, double each, bool sharded, const StageElements& elements, const Add& add) const;
  template <class Add>
  void optimizer(const StageElements& elements, double trained, const Add& add) const;
  template <class Add>
  void ends(int stage, const Add& add) const;
  template <class Add>
  void gathered(int stage, const std::vector<int>& chunks, const Add& add) const;
  template <class Add>
  void messages(double flying, const Add& add) const;
  template <class Add>
  void deepspeed(int stage, const Add& add) const;
  template <class Add>
  void scaling(int stage, const Add& add) const;
  template <class Add>
  void convolutions(int stage, const Add& add) const;
  std::string again_text() const;
  // A micro-batch's, of a chunk with so many layers.
  double chunk_bytes(int layers) const;
  double most_in_flight(const std::vector<double>& chunks, int stage) const;

  const Workload& w_;
  PipelineShape shape_;
  double again_bytes_, whole_bytes_;  // of a layer with recomputation, and without
};

template <class Add>
void Sizer::kept(std::string_view name, double each, bool sharded, const StageElements& elements,
                 const Add& add) const {
  const double dense = sharded ? collection::zero_shards(w_.config, false) : 1,
               experts = sharded ? collection::zero_shards(w_.config, true) : 1;
  add(name, each * (elements.dense / dense + elements.experts / experts), [&] {
    std::string text = fmt::format("{} B · {}", each, number(elements.dense));
    if (sharded) text += fmt::format(" / {} (dp·cp)", dense);
    if (elements.experts > 0) text += fmt::format(" + {} B · {} of experts", each, number(elements.experts));
    if (elements.experts > 0 && sharded) text += fmt::format(" / {} (edp)", experts);
    return text;
  });
}

// Muon's second moment is missing for the layers; norms and biases in them, which have it, are not worth a term.
template <class Add>
void Sizer::optimizer(const StageElements& elements, double trained, const Add& add) const {
  const Precision& precision = w_.training.precision;
  const bool sharded = w_.config.zero >= 1;
  const double saved = precision.saved_by_matrices();
  if (saved == 0 || trained < 1)
    return kept(memory_term::kOptimizer, trained * precision.optimizer_bytes, sharded, elements, add);
  double all = 0, layers = 0;
  const StageElements ends = {.dense = elements.dense + elements.experts - elements.layers};
  kept("", precision.optimizer_bytes, sharded, ends, [&](std::string_view, double bytes, const auto&) { all = bytes; });
  const StageElements inside = {.dense = elements.layers - elements.experts, .experts = elements.experts};
  kept("", precision.optimizer_bytes - saved, sharded, inside,
       [&](std::string_view, double bytes, const auto&) { layers = bytes; });
  add(memory_term::kOptimizer, all + layers, [&] {
    return fmt::format("{} of layers ({} B a parameter), {} of both ends ({} B)", size_text(layers),
                       precision.optimizer_bytes - saved, size_text(all), precision.optimizer_bytes);
  });
}

template <class Add>
void Sizer::state(int stage, const Add& add) const {
  const StageElements elements = stage_elements(w_, stage);
  const Precision& precision = w_.training.precision;
  kept(memory_term::kParameters, precision.param_bytes, w_.config.zero >= 3, elements, add);
  const double trained = trained_share(w_, stage);
  kept(memory_term::kGradients, trained * precision.gradient_bytes, shards_gradients(w_.config), elements, add);
  optimizer(elements, trained, add);
  // DualPipe has the parameters of two stages on a rank, and their gradients.
  if (w_.training.schedule == Schedule::kDualPipe && w_.config.pp > 1)
    kept(memory_term::kPrevious, precision.param_bytes + trained * precision.gradient_bytes, false, elements, add);
  if (w_.training.schedule == Schedule::kTwoBW) {
    kept(memory_term::kPrevious, precision.param_bytes, w_.config.zero >= 3, elements, add);
  }
}

double Sizer::chunk_bytes(int layers) const {
  const Recompute& recompute = w_.training.recompute;
  const int again = recompute.kind == Recompute::Kind::kLayers ? recompute.whole_layers(layers) : layers;
  return again * again_bytes_ + (layers - again) * whole_bytes_;
}

std::string Sizer::again_text() const {
  const Recompute& recompute = w_.training.recompute;
  return recompute == Recompute::kNone ? "" : fmt::format(" (computed again: {})", name_of(recompute));
}

// Of what each chunk holds for a micro-batch, the most that is there at once. Where a stage's chunks differ, what is in
// flight of which decides.
double Sizer::most_in_flight(const std::vector<double>& chunks, int stage) const {
  const bool alike = std::all_of(chunks.begin(), chunks.end(), [&](double chunk) { return chunk == chunks.front(); });
  if (alike) return in_flight(shape_, stage) * chunks.front() * w_.config.vpp;
  double now = 0, most = 0;
  for (const Slot& slot : slots_of(shape_, stage)) {
    now += (slot.backward ? -1 : 1) * chunks[static_cast<size_t>(slot.chunk)];
    most = std::max(most, now);
  }
  return most;
}

template <class Add>
void Sizer::working(int stage, const Add& add) const {
  if (w_.model.heads == 0) return convolutions(stage, add);
  const std::vector<int> chunks = chunks_of(w_, stage);
  std::vector<double> bytes;
  for (const int layers : chunks) bytes.push_back(chunk_bytes(layers));
  const int layers = layers_of(chunks);
  const double here = std::max(0, layers - w_.training.offloaded_layers) / static_cast<double>(layers);
  const double flying = most_in_flight({chunks.begin(), chunks.end()}, stage) * here / layers;
  const double activations = most_in_flight(bytes, stage) * here;
  add(memory_term::kActivations, activations, [&] {
    return fmt::format("{} · {} in flight · {} a layer{}", counted(layers, "layer"), micro_batches(flying),
                       size_text(activations / flying / layers), again_text());
  });
  ends(stage, add);
  const double again = std::max(0.0, whole_bytes_ - again_bytes_);
  add(memory_term::kRecomputed, again, [&] { return fmt::format("{} of one layer", size_text(again)); });
  gathered(stage, chunks, add);
  messages(flying, add);
  if (w_.training.runs_in() == Framework::kDeepSpeed) deepspeed(stage, add);
  if (w_.training.runs_in() == Framework::kScaling) scaling(stage, add);
}

// Of a layer. Gated feed-forward blocks have two matrices side by side.
double largest_matrix(const Workload& w) {
  const ModelShape& m = w.model;
  const double h = static_cast<double>(m.hidden), experts = static_cast<double>(m.experts) / w.config.ep;
  const double block = h * static_cast<double>(m.experts > 0 ? m.ffn : m.dense_ffn) * (m.gated ? 2 : 1);
  const double attention = h * static_cast<double>((m.heads + 2 * m.kv_heads) * m.head_dim) / w.config.tp;
  return std::max(attention, m.experts > 0 ? experts * block / w.config.etp : block / w.config.tp);
}

// What ZeRO-3 makes whole for a while: the layer at work and the next one, or on demand a matrix.
template <class Add>
void Sizer::gathered(int stage, const std::vector<int>& chunks, const Add& add) const {
  if (w_.config.zero < 3) return;
  const Precision& precision = w_.training.precision;
  const bool on_demand = w_.training.data_overlap == DataOverlap::kNone;
  const double one = on_demand ? largest_matrix(w_) : layer_elements(w_) + layer_expert_elements(w_);
  const EndElements ends = end_elements(w_, stage);
  const double end = std::max(ends.first, ends.last), largest = std::max(one, end);
  const bool with_end = layers_of(chunks) < 2 || end > one;
  const double whole = on_demand ? largest : with_end ? one + end : 2 * one;
  add(memory_term::kGathered, precision.param_bytes * whole, [&] {
    const std::string what = on_demand  ? number(largest)
                             : with_end ? fmt::format("({} + {})", number(one), number(end))
                                        : "2 · " + number(one);
    return fmt::format("{} B · {}", precision.param_bytes, what);
  });
  add(memory_term::kWholeGradients, (precision.param_bytes + precision.gradient_bytes) * largest, [&] {
    return fmt::format("({} + {}) B · {}", precision.param_bytes, precision.gradient_bytes, number(largest));
  });
}

// Of one layer at work; a micro-batch's between stages.
template <class Add>
void Sizer::messages(double flying, const Add& add) const {
  const ModelShape& m = w_.model;
  const double a = w_.training.precision.activation_bytes, whole = tokens(w_) * a * static_cast<double>(m.hidden);
  const auto text = [&](double times, double each) { return fmt::format("{} · {}", number(times), size_text(each)); };
  if (w_.config.tp > 1 && w_.training.sequence_parallel)
    add(memory_term::kGatheredInput, whole, [&] { return fmt::format("{} of one layer", size_text(whole)); });
  const double keys =
      tokens(w_) * a * static_cast<double>(m.kv_heads * m.head_dim) / std::min(w_.config.tp, m.kv_heads);
  if (w_.config.cp > 1) add(memory_term::kRing, 4 * keys, [&] { return text(4, keys); });
  if (w_.config.pp == 1) return;
  const double between = whole / divisor(w_);
  add(memory_term::kMessages, 2 * between, [&] { return text(2, between); });
  const Framework framework = w_.training.runs_in();
  if (framework != Framework::kDeepSpeed && framework != Framework::kScaling) return;
  add(memory_term::kOutputs, flying * between, [&] { return text(flying, between); });
}

template <class Add>
void Sizer::deepspeed(int stage, const Add& add) const {
  const StageElements elements = stage_elements(w_, stage);
  const double bucket = std::min(kLargeBucket, elements.dense + elements.experts);
  const double bytes = w_.training.precision.gradient_bytes;
  if (w_.config.zero > 0 && w_.config.dp > 1)
    add(memory_term::kBuckets, 2 * bytes * bucket, [&] { return fmt::format("2 · {} B · {}", bytes, number(bucket)); });
  double share = 0;
  kept("", 1, w_.config.zero >= 1, elements, [&](std::string_view, double count, const auto&) { share = count; });
  const EndElements ends = end_elements(w_, stage);
  const double largest = std::max({largest_matrix(w_), ends.first, ends.last});
  const bool norm = w_.config.zero >= 1 && w_.training.precision.deepspeed;
  const double of_share = (bytes + 4) * share, of_part = norm ? 8 * std::min(largest, share) : 0, search = 4 * largest;
  const double most = w_.config.zero >= 3 ? of_share : std::max({of_share, of_part, search});
  add(memory_term::kStep, most, [&] {
    if (most == of_share) return fmt::format("{} B · {}", bytes + 4, number(share));
    return fmt::format("{} B · {} of the largest tensor", most == search ? 4 : 8,
                       number(most / (most == search ? 4 : 8)));
  });
}

template <class Add>
void Sizer::scaling(int stage, const Add& add) const {
  if (w_.config.dp * w_.config.cp == 1) return;
  const StageElements elements = stage_elements(w_, stage);
  const double bucket = std::min(kLargeBucket, elements.dense + elements.experts);
  const double bytes = w_.training.precision.gradient_bytes + w_.training.summed_gradient_bytes();
  add(memory_term::kBuckets, bytes * bucket, [&] { return fmt::format("{} B · {}", bytes, number(bucket)); });
}

template <class Add>
void Sizer::ends(int stage, const Add& add) const {
  const double share = tokens(w_), h = static_cast<double>(w_.model.hidden);
  const double a = w_.training.precision.activation_bytes;
  const double m = shape_.micro_batches;
  if (stage == 0 && w_.model.dropout) {
    // The first chunk alone: pp micro-batches of the next group follow the first group before a backward pass ends.
    const double flying = shape_.vpp == 1 ? in_flight(shape_, 0) : std::min(2.0 * shape_.pp - 1, m);
    add(memory_term::kEmbedding, flying * share * h / divisor(w_),
        [&] { return fmt::format("{} · {}", micro_batches(flying), size_text(share * h / divisor(w_))); });
  }
  if (stage != w_.config.pp - 1) return;
  const double flying = shape_.schedule == Schedule::kGPipe ? m : 1;
  add(memory_term::kHead, flying * share * 2 * a * h / divisor(w_),
      [&] { return fmt::format("{} · {}", micro_batches(flying), size_text(share * 2 * a * h / divisor(w_))); });
  const double logits =
      (1 + w_.training.mtp) * share * static_cast<double>(padded(w_.model.vocab, w_.config.tp)) / w_.config.tp;
  const bool fused = w_.training.loss_kernels() == Loss::kFused;
  const double copies = flying + (w_.training.kernels == Kernels::kEager && !fused ? 2 : 0);
  const double each = fused ? a : kFullLogitBytes;
  add(memory_term::kLogits, (copies * each + a) * logits,
      [&] { return fmt::format("({} · {} B + {} B) · {} logits", number(copies), each, a, number(logits)); });
}

// Its layers differ and are all counted as on the first stage (model_shape.h).
template <class Add>
void Sizer::convolutions(int stage, const Add& add) const {
  if (stage != 0) return;
  const double image = kConvolutionElements * w_.training.precision.activation_bytes;
  const double flying = in_flight(shape_, 0);
  add(memory_term::kActivations, flying * w_.training.micro_batch * image, [&] {
    return fmt::format("{} · {} · {}", micro_batches(flying), counted(w_.training.micro_batch, "image"),
                       size_text(image));
  });
}

int Sizer::communicators() const {
  const collection::ParallelConfig& c = w_.config;
  return (c.world() > 1) + (c.tp * c.pp > 1) + (w_.model.tied && c.pp > 1) + (c.tp > 1) + (c.cp > 1) +
         (c.dp * c.cp > 1) + (c.pp > 1) + (c.ep > 1) + (c.etp > 1) + (w_.model.experts > 0 && c.edp() > 1);
}

// Two walks over the same terms: sums alone, and with the texts.
struct Sums {
  double state = 0, working = 0;
  double bytes() const { return state + working; }
};
Sums sums_of(const Sizer& sizer, int stage) {
  Sums sums;
  sizer.state(stage, [&](std::string_view, double bytes, const auto&) { sums.state += bytes; });
  sizer.working(stage, [&](std::string_view, double bytes, const auto&) { sums.working += bytes; });
  return sums;
}

Sums worst_of(const Sizer& sizer, int stages) {
  Sums worst = sums_of(sizer, 0);
  for (int stage = 1; stage < stages; ++stage) {
    const Sums sums = sums_of(sizer, stage);
    if (sums.bytes() > worst.bytes()) worst = sums;
  }
  return worst;
}

void check(const Workload& workload) {
  const absl::Status status = check_workload(workload);
  SCALAI_CHECK(status.ok(), message_of(status));
}

}  // namespace

double StageMemory::bytes() const {
  return std::accumulate(terms.begin(), terms.end(), 0.0,
                         [](double sum, const MemoryTerm& term) { return sum + term.bytes; });
}

double StageMemory::bytes(std::string_view term) const {
  for (const MemoryTerm& one : terms) {
    if (one.name == term) return one.bytes;
  }
  return 0;
}

const StageMemory& MemoryEstimate::worst() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const StageMemory& a, const StageMemory& b) { return a.bytes() < b.bytes(); });
}

double MemoryEstimate::bytes() const { return worst().bytes() + margin_bytes; }

bool shards_gradients(const collection::ParallelConfig& config) {
  return config.zero >= 3 || (config.zero == 2 && config.pp == 1);
}

double trained_share(const Workload& w, int stage) {
  if (w.training.lora == 0) return 1;
  const ModelShape& m = w.model;
  const StageElements elements = stage_elements(w, stage);
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.heads * m.head_dim);
  const double kv = static_cast<double>(2 * m.kv_heads * m.head_dim), ffn = static_cast<double>(m.dense_ffn);
  const bool all = !w.training.lora_qkv;
  const double attention = (h + q + kv) + (all ? q + h : 0);
  const double dense = all ? (h + (m.gated ? 2 : 1) * ffn) + (ffn + h) : 0;
  const double adapters = w.training.lora * (m.blocks.attention * attention + m.blocks.dense * dense) / w.config.tp;
  return layers_of(chunks_of(w, stage)) * adapters / (elements.dense + elements.experts);
}

MemoryEstimate memory_of(const Workload& workload) {
  check(workload);
  const Sizer sizer(workload);
  MemoryEstimate estimate;
  for (int stage = 0; stage < workload.config.pp; ++stage) {
    StageMemory memory;
    memory.stage = stage;
    const auto add = [&](std::string_view name, double bytes, const auto& text) {
      if (bytes > 0) memory.terms.push_back({std::string(name), bytes, text()});
    };
    sizer.state(stage, add);
    sizer.working(stage, add);
    estimate.stages.push_back(std::move(memory));
  }
  const double comes_and_goes = worst_of(sizer, workload.config.pp).working;
  estimate.margin_bytes = sizer.margin(comes_and_goes);
  estimate.fragmentation_bytes = kFragmentation * comes_and_goes;
  estimate.margin_formula =
      fmt::format("{:g} % of {} + {} + {} communicators · {}", 100 * kFragmentation, size_text(comes_and_goes),
                  size_text(sizer.context()), sizer.communicators(), size_text(kCommunicatorBytes));
  return estimate;
}

double memory_bytes(const Workload& workload) {
  check(workload);
  const Sizer sizer(workload);
  const Sums worst = worst_of(sizer, workload.config.pp);
  return worst.bytes() + sizer.margin(worst.working);
}

double layer_activation_bytes(const Workload& workload) {
  check(workload);
  return workload.model.heads > 0 ? layer_bytes(workload, workload.training.recompute) : 0;
}

StageElements stage_elements(const Workload& w, int stage) {
  StageElements elements;
  if (w.model.heads > 0) {
    const std::vector<int> chunks = chunks_of(w, stage);
    const int layers = layers_of(chunks);
    elements.dense = layers * layer_elements(w);
    elements.experts = layers * layer_expert_elements(w);
    elements.layers = elements.dense + elements.experts;
  }
  const EndElements ends = end_elements(w, stage);
  elements.dense += ends.first + ends.last;
  elements.first = ends.first;
  // Both ends on one stage share a tied embedding.
  if (w.model.tied && w.config.pp == 1) {
    elements.dense -= embedding_elements(w);
    elements.first -= embedding_elements(w);
  }
  return elements;
}

}  // namespace scalai::step
