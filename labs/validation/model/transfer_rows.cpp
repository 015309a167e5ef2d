#include "labs/validation/model/transfer_rows.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "labs/validation/model/internal/printed.h"
#include "ptc/base/status.h"
#include "ptc/cost/change/stages.h"
#include "ptc/plan/planner.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step::validation {
namespace {

using collection::Collection;
using collection::ParallelConfig;

constexpr const char* kMatrix = ".weight";
constexpr int kLayers = 8;  // of a mixture are planned, at least

// A state of the parameters: a layout on GPUs that follow one another.
struct State {
  ParallelConfig config;
  int first_device = 0;
};
struct Move {
  State from, to;
};

struct Transfer {
  // Of a mixture some layers stand for all, which are alike: `layers` and `bytes` times those of the model.
  model::Model model;
  double layers = 1, bytes = 1;
  bool fp8 = false, through_host = false, relay = true;
  cluster::Cluster cluster;
  std::vector<Move> moves;
  change::Costs costs;
};

absl::StatusOr<Collection> collection_of(const Transfer& transfer, const State& state) {
  std::vector<DeviceId> devices;
  for (int rank = 0; rank < state.config.world(); ++rank) devices.emplace_back(state.first_device + rank);
  const model::Recipe recipe = {
      .param = tensor::DType::kBF16, .master = false, .optimizer = model::Optimizer::kSgdMomentum};
  SCALAI_ASSIGN_OR_RETURN(Collection all,
                          collection::megatron_collection(transfer.model, recipe, state.config, std::move(devices)));
  std::erase_if(all.tensors, [](const auto& tensor) { return tensor.kind != model::StateKind::kParam; });
  for (collection::LogicalTensor& tensor : all.tensors) {
    if (transfer.fp8 && tensor.name.starts_with("layers.") && tensor.name.ends_with(kMatrix))
      tensor.dtype = tensor::DType::kF8E4M3;
  }
  return all;
}

// The part of its state that each GPU sends, once, to or from its host's memory.
std::vector<change::BulkFlow> host_flows(const plan::Plan& plan, const cluster::Cluster& cluster) {
  std::map<DeviceId, int64_t> sent;
  for (const plan::Instance& instance : plan.instances()) {
    std::set<DeviceId> senders;
    for (const plan::Leg& leg : plan.patterns().legs(instance.pattern)) {
      if (leg.hop == 0 && leg.transfer_class != plan::TransferClass::kKept) senders.emplace(leg.src.index);
    }
    int64_t bytes = 0;
    for (const TensorId id : plan.tensors_of(instance))
      bytes += plan.tensor(id).element_bytes(plan::TransferClass::kCrossHost) * instance.box.volume();
    for (const DeviceId device : senders) sent[device] += bytes;
  }
  std::vector<change::BulkFlow> flows;
  for (const auto& [device, bytes] : sent)
    flows.push_back({plan::Location::device(device), plan::Location::host_memory(cluster.host_of(device)), bytes});
  return flows;
}

// Of the transfer alone: nothing is planned, started again, connected or verified.
change::Costs moving_alone(change::Costs costs) {
  costs.plan_s = costs.restart_s = costs.communicator_s = costs.compile_s = 0;
  costs.allocate_bytes_per_s = costs.verify_bytes_per_s = 0;
  return costs;
}

change::Costs preset() {
  const auto strategy = scenario::find_strategy("reshard", {});
  SCALAI_CHECK(strategy.ok(), message_of(strategy.status()));
  return moving_alone(strategy->costs);
}

// Of all moves, with the costs of the row and with the preset.
struct Seconds {
  double by_row = 0, by_preset = 0;
};

// A host has the NICs of those of its GPUs that take part: a lone GPU sends by its own.
cluster::Cluster cluster_of(const Transfer& transfer, const Move& move) {
  cluster::Cluster cluster = transfer.cluster;
  std::set<DeviceId> part;
  for (const State& state : {move.from, move.to}) {
    for (int rank = 0; rank < state.config.world(); ++rank) part.emplace(state.first_device + rank);
  }
  for (cluster::Host& host : cluster.hosts) {
    const auto gpus = std::distance(part.lower_bound(DeviceId(host.first_device)),
                                    part.lower_bound(DeviceId(host.first_device + host.gpus)));
    host.nics = std::max(1, host.nics * static_cast<int>(gpus) / host.gpus);
  }
  return cluster;
}

absl::Status add_move(const Transfer& transfer, const Move& move, Seconds& sum) {
  const cluster::Cluster cluster = cluster_of(transfer, move);
  SCALAI_ASSIGN_OR_RETURN(const Collection from, collection_of(transfer, move.from));
  SCALAI_ASSIGN_OR_RETURN(const Collection to, collection_of(transfer, move.to));
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan,
                          plan::make_plan({from, to, cluster, {}, {.name = "reshard", .relay = transfer.relay}}));
  if (!plan.feasible()) return invalid("those that send do not have all of it");
  const std::vector<change::BulkFlow> host = host_flows(plan, cluster);
  const auto seconds = [&](change::Costs costs) {
    costs.messages.box_s *= transfer.layers;
    change::Change change{.plan = plan, .cluster = cluster, .costs = costs};
    if (transfer.through_host) change.stage = host;
    return change::estimate(change, transfer.bytes).total();
  };
  sum.by_row += seconds(transfer.costs);
  sum.by_preset += seconds(preset());
  return absl::OkStatus();
}

change::Costs read_costs(RowReader& row) {
  change::Costs costs = preset();
  costs.transfer_start_s = row.number("start_ms", costs.transfer_start_s * 1e3) / 1e3;
  costs.messages.box_s = row.number("box_us", costs.messages.box_s * 1e6) / 1e6;
  costs.messages.peer_s = row.number("peer_us", costs.messages.peer_s * 1e6) / 1e6;
  return costs;
}

using Layouts = std::map<std::string, ParallelConfig>;  // by column

Layouts read_layouts(RowReader& row) {
  Layouts layouts;
  for (const std::string column : {"from", "gather", "send", "to"}) {
    if (column != "from" && column != "to" && !row.has(column)) continue;
    const std::string text = row.text(column);
    const auto config = collection::parse_layout(text);
    if (config.ok()) layouts[column] = *config;
    if (!config.ok() && !text.empty()) row.problem(column, message_of(config.status()));
  }
  return layouts;
}

// Of a mixture a few layers, as many on each pipeline stage, and as much less vocabulary.
void set_model(ModelShape shape, const Layouts& layouts, Transfer& transfer) {
  const auto parameters = static_cast<double>(shape.parameters());
  int stages = 1;
  for (const auto& [column, config] : layouts) stages = std::max(stages, config.pp);
  const int all = shape.layers, few = (kLayers + stages - 1) / stages * stages;
  if (shape.experts > 0 && few < all) {
    shape.layers = few;
    shape.vocab = shape.vocab * few / all;
    transfer.layers = static_cast<double>(all) / few;
  }
  transfer.model = model_of(shape, transfer.fp8);
  if (few < all && shape.experts > 0)
    transfer.bytes = parameters / static_cast<double>(transformer_shape(shape).parameters());
}

void check_layouts(RowReader& row, const Layouts& layouts, const model::Model& model) {
  for (const auto& [column, config] : layouts) {
    if (const absl::Status fits = collection::check_fit(model, config); !fits.ok())
      row.problem(column, message_of(fits));
  }
  const int gpus = layouts.at("from").world();
  const auto gather = layouts.find("gather"), send = layouts.find("send");
  if (gather != layouts.end() && gather->second.world() != gpus)
    row.problem("gather", fmt::format("{} GPUs, but `from` has {}", gather->second.world(), gpus));
  if (send != layouts.end() && send->second.world() > gpus)
    row.problem("send", fmt::format("{} GPUs, but `from` has {}", send->second.world(), gpus));
}

// On whole hosts, `other` ones behind those of `from`.
void set_moves(const Layouts& layouts, bool onto_others, const cluster::Host& host, Transfer& transfer) {
  const State from{layouts.at("from")};
  State sender = from;
  if (const auto gather = layouts.find("gather"); gather != layouts.end()) {
    sender.config = gather->second;
    transfer.moves.push_back({from, sender});
  }
  if (const auto send = layouts.find("send"); send != layouts.end()) sender.config = send->second;
  const auto whole_hosts = [&](int gpus) { return (gpus + host.gpus - 1) / host.gpus * host.gpus; };
  const int old = from.config.world();
  const State to{layouts.at("to"), onto_others ? whole_hosts(old) : 0};
  transfer.moves.push_back({sender, to});
  const int gpus = whole_hosts(std::max(old, to.first_device + to.config.world()));
  for (int first = 0; first < gpus; first += host.gpus) {
    transfer.cluster.hosts.push_back(host);
    transfer.cluster.hosts.back().first_device = first;
  }
}

Transfer read_transfer(RowReader& row, const Models& models) {
  Transfer transfer;
  const std::string precision = row.text("precision", "bf16"), name = row.text("model"),
                    onto = row.text("onto", "other");
  transfer.fp8 = precision == "fp8";
  if (!transfer.fp8 && precision != "bf16")
    row.problem("precision", fmt::format("unknown precision \"{}\"", precision), "known: bf16, fp8");
  if (onto != "other" && onto != "same")
    row.problem("onto", fmt::format("unknown place \"{}\"", onto), "known: other, same");
  const auto shape = models.find(name);
  if (shape == models.end() && !name.empty())
    row.problem("model", fmt::format("unknown model \"{}\"", name), "a table of kind \"models\" has to have it");
  transfer.through_host = row.flag("through_host", false);
  transfer.relay = row.flag("relay", true);
  transfer.costs = read_costs(row);
  const Layouts layouts = read_layouts(row);
  const cluster::Host host = read_host(row);
  if (!row.ok()) return transfer;
  set_model(shape->second, layouts, transfer);
  check_layouts(row, layouts, transfer.model);
  if (row.ok()) set_moves(layouts, onto == "other", host, transfer);
  return transfer;
}

}  // namespace

std::vector<std::string> transfer_columns() {
  return {"label",    "source", "model",   "precision", "gpu",    "memory_gib", "gpus_per_host", "nics",
          "nic_gbps", "from",   "gather",  "send",      "to",     "onto",       "through_host",  "relay",
          "start_ms", "box_us", "peer_us", "published", "fitted", "note"};
}

model::Model model_of(const ModelShape& shape, bool scales) {
  using model::Param, model::TpRule;
  model::Model model = {.name = shape.name,
                        .family = "llama",
                        .layers = shape.layers,
                        .hidden = shape.hidden,
                        .heads = shape.heads,
                        .kv_heads = shape.kv_heads,
                        .ffn = shape.ffn,
                        .vocab = shape.vocab,
                        .sequence = shape.sequence,
                        .experts = shape.experts,
                        .experts_per_token = shape.experts_per_token,
                        .tied = shape.tied};
  const auto add = [&](int layer, int expert, const std::string& name, const tensor::Shape& size,
                       TpRule rule = TpRule::kReplicated) {
    const std::string prefix = layer < 0 ? "" : fmt::format("layers.{}.", layer);
    const std::string whole = prefix + (expert < 0 ? "" : fmt::format("experts.{}.", expert)) + name;
    model.params.push_back({.name = whole, .shape = size, .rule = rule, .layer = layer, .expert = expert});
    if (scales && layer >= 0 && rule != TpRule::kReplicated)
      model.params.push_back({.name = whole + ".scale", .shape = {1}, .layer = layer, .expert = expert});
  };
  const auto add_mlp = [&](int layer, int expert, const std::string& name, int64_t ffn) {
    if (shape.gated) add(layer, expert, name + "gate" + kMatrix, {ffn, shape.hidden}, TpRule::kColumn);
    add(layer, expert, name + "up" + kMatrix, {ffn, shape.hidden}, TpRule::kColumn);
    add(layer, expert, name + "down" + kMatrix, {shape.hidden, ffn}, TpRule::kRow);
  };
  const int64_t queries = shape.heads * shape.head_dim;
  add(shape.tied ? Param::kBothEnds : Param::kFirst, -1, "embedding", {shape.vocab, shape.hidden}, TpRule::kVocab);
  for (int layer = 0; layer < shape.layers; ++layer) {
    add(layer, -1, "attention_norm", {shape.hidden});
    add(layer, -1, std::string("attention.qkv") + kMatrix,
        {queries + 2 * shape.kv_heads * shape.head_dim, shape.hidden}, TpRule::kColumn);
    add(layer, -1, std::string("attention.dense") + kMatrix, {shape.hidden, queries}, TpRule::kRow);
    add(layer, -1, "mlp_norm", {shape.hidden});
    if (shape.experts == 0) add_mlp(layer, -1, "mlp.", shape.ffn);
    if (shape.experts > 0) add(layer, -1, "router", {shape.experts, shape.hidden});
    if (shape.shared_ffn > 0) add_mlp(layer, -1, "shared.", shape.shared_ffn);
    for (int expert = 0; expert < shape.experts; ++expert) add_mlp(layer, expert, "", shape.ffn);
  }
  add(Param::kLast, -1, "final_norm", {shape.hidden});
  if (!shape.tied) add(Param::kLast, -1, "head", {shape.vocab, shape.hidden}, TpRule::kVocab);
  return model;
}

RowResult transfer_result(RowReader& row, const Models& models) {
  RowResult result{.label = row.text("label"),
                   .unit = "s",
                   .published_text = row.text("published"),
                   .published = row.number("published"),
                   .fitted = row.flag("fitted", false)};
  result.source = row.text("source");
  const Transfer transfer = read_transfer(row, models);
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if (!row.ok()) return result;
  result.machine = transfer.cluster.hosts.front().gpu.name + " transfers";
  result.group = "transfers";
  result.held_out = !result.fitted && PublishedTable::is_held_out(result.source);
  Seconds seconds;
  for (const Move& move : transfer.moves) {
    if (const absl::Status status = add_move(transfer, move, seconds); !status.ok()) {
      result.problem = message_of(status);
      return result;
    }
  }
  conclude(result, seconds.by_row, seconds.by_row / result.published - 1);
  result.guessed_error = seconds.by_preset / result.published - 1;
  return result;
}

}  // namespace scalai::step::validation
