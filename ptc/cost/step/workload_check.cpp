#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/cost/step/training.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::step {
namespace {

// Collects what is wrong, one a line. Texts are made where something is: searches ask about every point.
class Checker {
 public:
  explicit Checker(const Workload& workload) : m_(workload.model), c_(workload.config), t_(workload.training) {}

  absl::Status check() {
    check_sizes();
    if (problems_.empty()) check_divisions();  // they divide by the sizes
    return problems_.empty() ? absl::OkStatus() : invalid(problems_);
  }

 private:
  void problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "\n") + text; }
  void at_least_one(int64_t value, std::string_view what) {
    if (value < 1) problem(fmt::format("{} must be at least 1, is {}", what, value));
  }
  void cuts(int parts, std::string_view axis, int64_t whole, std::string_view what) {
    if (whole % parts != 0)
      problem(fmt::format("{}{} does not divide the {} {} of {}", axis, parts, whole, what, m_.name));
  }
  bool transformer() const { return m_.heads != 0; }

  void check_sizes();
  void check_divisions();
  void check_heads();
  void check_sequence();
  void check_stages();
  void check_interleaving();
  void check_experts();
  void check_batch();

  const ModelShape& m_;
  const collection::ParallelConfig& c_;
  const Training& t_;
  std::string problems_;
};

void Checker::check_sizes() {
  at_least_one(m_.layers, "the number of layers");
  if (transformer()) {
    at_least_one(m_.heads, "the number of attention heads");
    at_least_one(m_.hidden, "the hidden size");
    at_least_one(m_.kv_heads, "the number of key-value heads");
    at_least_one(m_.head_dim, "the size of a head");
    at_least_one(m_.ffn, "the feed-forward size");
    at_least_one(m_.vocab, "the vocabulary");
    at_least_one(t_.sequence, "the sequence length");
    if (m_.experts != 0 && (m_.experts_per_token < 1 || m_.experts_per_token > m_.experts)) {
      problem(fmt::format("a token must choose 1 to {} experts, it chooses {}", m_.experts, m_.experts_per_token));
    }
  }
  const std::pair<std::string_view, int> axes[] = {{"tp", c_.tp}, {"pp", c_.pp},   {"dp", c_.dp},  {"cp", c_.cp},
                                                   {"ep", c_.ep}, {"etp", c_.etp}, {"vpp", c_.vpp}};
  for (const auto& [axis, size] : axes) at_least_one(size, axis);
  if (c_.zero < 0 || c_.zero > 3) problem(fmt::format("the ZeRO stage must be 0 to 3, is {}", c_.zero));
  at_least_one(t_.global_batch, "the global batch");
  at_least_one(t_.micro_batch, "the micro-batch");
}

void Checker::check_divisions() {
  if (transformer()) {
    check_heads();
    check_sequence();
    check_experts();
  }
  check_stages();
  check_interleaving();
  check_batch();
}

void Checker::check_heads() {
  cuts(c_.tp, "tp", m_.heads, "attention heads");
  if (c_.tp <= m_.kv_heads) cuts(c_.tp, "tp", m_.kv_heads, "key-value heads");
  if (c_.tp > m_.kv_heads && c_.tp % m_.kv_heads != 0) {
    problem(fmt::format("tp{} is not a multiple of the {} key-value heads of {}", c_.tp, m_.kv_heads, m_.name));
  }
  if (m_.experts == 0) cuts(c_.tp, "tp", m_.ffn, "feed-forward columns");
  if (m_.blocks.state_space > 0) cuts(c_.tp, "tp", m_.state_space.groups / m_.state_space.state, "groups of states");
}

void Checker::check_sequence() {
  if (t_.sequence % c_.cp != 0) {
    problem(fmt::format("cp{} does not divide a sequence of {} tokens", c_.cp, t_.sequence));
  } else if (t_.sequence_parallel && t_.sequence / c_.cp % c_.tp != 0) {
    problem(fmt::format("sequence parallelism needs tp{} to divide the {} tokens that cp{} leaves a rank", c_.tp,
                        t_.sequence / c_.cp, c_.cp));
  }
  if (m_.positions && m_.sequence > 0 && t_.sequence > m_.sequence) {
    problem(fmt::format("a sequence of {} tokens is longer than the {} positions of {}", t_.sequence, m_.sequence,
                        m_.name));
  }
}

void Checker::check_stages() {
  const int64_t stages = int64_t{c_.pp} * c_.vpp;
  if (stages > collection::most_virtual_stages(c_, m_.layers)) {
    problem(fmt::format("{} pipeline stages are more than the {} layers of {}", stages, m_.layers, m_.name));
  }
  if (c_.stages.empty()) return;
  if (static_cast<int64_t>(c_.stages.size()) != stages) {
    problem(fmt::format("{} stages are listed, pp · vpp is {}", c_.stages.size(), stages));
  }
  const int sum = std::accumulate(c_.stages.begin(), c_.stages.end(), 0);
  if (sum != m_.layers) problem(fmt::format("stages sum to {} layers, {} has {}", sum, m_.name, m_.layers));
  if (std::any_of(c_.stages.begin(), c_.stages.end(), [](int layers) { return layers < 1; })) {
    problem("each pipeline stage needs a layer");
  }
}

void Checker::check_interleaving() {
  if (c_.vpp == 1) return;
  if (c_.pp == 1) problem(fmt::format("vpp{} needs a pipeline, pp is 1", c_.vpp));
  if (t_.schedule != Schedule::kOneFOneB) {
    problem(fmt::format("vpp{} goes with schedule 1f1b, not with {}", c_.vpp, name_of(t_.schedule)));
  }
}

void Checker::check_experts() {
  if (m_.experts == 0) {
    if (c_.ep > 1) problem(fmt::format("ep{} needs experts, {} has none", c_.ep, m_.name));
    if (c_.etp > 1) problem(fmt::format("etp{} needs experts, {} has none", c_.etp, m_.name));
    return;
  }
  cuts(c_.ep, "ep", m_.experts, "experts");
  cuts(c_.etp, "etp", m_.ffn, "feed-forward columns");
  const int64_t ranks = int64_t{c_.tp} * c_.cp * c_.dp, expert_ranks = int64_t{c_.etp} * c_.ep;
  if (ranks % expert_ranks != 0) {
    problem(fmt::format("etp · ep = {} does not divide the {} ranks of a pipeline stage", expert_ranks, ranks));
  }
  if (c_.order.front() != "pp" && c_.order.back() != "pp") {
    problem("a model with experts needs pp first or last in order=");
  }
}

void Checker::check_batch() {
  if (!t_.whole_batches) return;
  const int64_t share = int64_t{c_.dp} * t_.micro_batch;
  if (t_.global_batch % share != 0) {
    problem(fmt::format("a global batch of {} is no multiple of dp · micro-batch = {}", t_.global_batch, share));
  } else if (c_.vpp > 1 && t_.global_batch / share % c_.pp != 0) {
    problem(fmt::format("interleaving (vpp{}) needs pp{} to divide the {} micro-batches", c_.vpp, c_.pp,
                        t_.global_batch / share));
  }
}

}  // namespace

absl::Status check_workload(const Workload& workload) { return Checker(workload).check(); }

}  // namespace scalai::step
