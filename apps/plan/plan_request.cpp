#include "apps/plan/plan_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "apps/common/cluster_limits.h"
#include "apps/common/model_options.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/collection/id_list.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::apps {
namespace {

using collection::Collection;
using collection::ParallelConfig;
using Devices = std::vector<DeviceId>;

constexpr size_t kMaxNamesListed = 5;

// One side of the change: a layout of the model, or a collection file.
struct Side {
  std::string option, devices_option;
  std::optional<ParallelConfig> config;
  std::optional<Collection> file;
  std::optional<Devices> devices;  // in rank order
};

class RequestReader {
 public:
  RequestReader(const Arguments& arguments, Problems& problems) : arguments_(arguments), problems_(problems) {}

  std::optional<PlanRequest> run() {
    read_options();
    read_side(from_);
    read_side(to_);
    read_model();
    read_cluster();
    read_devices();
    check_strategy();
    check_effects();
    if (problems_.empty()) complete_cluster();
    if (problems_.empty()) check_copies();
    if (problems_.empty()) build();
    if (!problems_.empty()) return std::nullopt;
    return std::move(request_);
  }

 private:
  void read_options() {
    const std::string name = arguments_.has("strategy") ? arguments_.text("strategy") : "reshard";
    const auto strategy = scenario::find_strategy(name, {});
    SCALAI_CHECK(strategy.ok(), "the command layer checks choices");
    strategy_ = *strategy;
    request_.options = strategy->planner;
    request_.placement = strategy->placement;
    request_.options.derive_params = arguments_.flag("derive-params");
    request_.options.relay = !arguments_.flag("no-relay");
    read_placement();
    read_caps();
    request_.residency.storage = arguments_.flag("storage");
  }

  // A file of the new state says which device has which rank; the strategies that model other systems, that ranks stay
  // in order. Where --placement or --spread is given, it decides.
  void read_placement() {
    using plan::PlacementRule, plan::SpreadRule;
    PlacementRule& rule = request_.placement.rule;
    SpreadRule& spread = request_.placement.spread;
    if (is_file(to_)) rule = PlacementRule::kIdentity;
    if (arguments_.has("spread")) {
      spread = arguments_.text("spread") == "rack" ? SpreadRule::kRack : SpreadRule::kHost;
      if (rule == PlacementRule::kIdentity) rule = PlacementRule::kHosts;
    }
    if (!arguments_.has("placement")) return;
    const std::string name = arguments_.text("placement");
    rule = name == "identity" ? PlacementRule::kIdentity
           : name == "free"   ? PlacementRule::kFree
                              : PlacementRule::kHosts;
    if (rule == PlacementRule::kIdentity && spread != SpreadRule::kNone)
      problems_.malformed("--spread chooses devices, which --placement=identity forbids");
  }

  void read_caps() {
    if (!arguments_.has("memory-cap")) return;
    request_.options.memory_cap = arguments_.bytes("memory-cap");
    if (!request_.options.in_place || request_.options.sources == plan::SourceRule::kStorage)
      problems_.misfit(
          fmt::format("--memory-cap: --strategy={} does not work in place; only plans that do keep "
                      "a cap",
                      strategy_.name));
  }

  bool is_file(const Side& side) const {
    const std::string text = arguments_.text(side.option);
    return text.ends_with(".textproto") || text.ends_with(".json");
  }

  void read_side(Side& side) {
    const std::string text = arguments_.text(side.option);
    if (text.empty()) return problems_.malformed(fmt::format("--{0} is missing, as in --{0}=tp8,pp4,dp2", side.option));
    if (is_file(side)) return read_file(side, text);
    const auto config = collection::parse_layout(text);
    if (!config.ok()) return problems_.malformed(fmt::format("--{}: {}", side.option, message_of(config.status())));
    if (config->world() > kMostDevices)
      return problems_.misfit(
          fmt::format("--{}: {} devices are more than the {} possible", side.option, config->world(), kMostDevices));
    side.config = *config;
  }

  // What the old state's file says of its residency holds beside --fail and --storage; the new state has none yet.
  void read_file(Side& side, const std::string& path) {
    using collection::FileRole;
    auto file = collection::load_collection(path, &side == &to_ ? FileRole::kPlanned : FileRole::kExists);
    if (!file.ok()) return problems_.file(file.status());
    side.devices = file->collection.device_of_rank;
    side.file = std::move(file->collection);
    if (arguments_.has(side.devices_option))
      problems_.misfit(fmt::format("--{}: {} says itself which devices there are", side.devices_option, path));
    if (&side == &to_) return;
    request_.residency.lost = std::move(file->residency.lost);
    request_.residency.extra = std::move(file->residency.extra);
    request_.residency.storage |= file->residency.storage;
  }

  void read_model() {
    if (is_file(from_) && is_file(to_)) {
      for (const char* option : {"model", "precision", "optimizer"}) {
        if (arguments_.has(option))
          problems_.misfit(fmt::format("--{}: both sides are files, which describe the state themselves", option));
      }
      return;
    }
    if (!arguments_.has("model")) return problems_.malformed("--model is missing: say whose state is to move");
    const auto model = load_model(arguments_.text("model"));
    if (!model.ok()) return problems_.status("--model: ", model.status());
    model_ = *model;
    request_.model = model_->name;
    for (const Side* side : {&from_, &to_}) {
      if (side->config)
        problems_.status(fmt::format("--{}: ", side->option), collection::check_fit(*model_, *side->config));
    }
  }

  void read_cluster() {
    if (arguments_.has("gpus-per-host")) {
      gpus_per_host_ = static_cast<int>(std::min(arguments_.count("gpus-per-host"), kMostDevices));
      if (gpus_per_host_ == 0) problems_.malformed("--gpus-per-host: a host has at least one");
      if (arguments_.has("cluster")) problems_.malformed("--gpus-per-host and --cluster exclude each other");
    }
    if (!arguments_.has("cluster")) return;
    auto cluster = scenario::load_cluster(arguments_.text("cluster"));
    if (!cluster.ok()) return problems_.file(cluster.status());
    request_.cluster = *std::move(cluster);
    cluster_devices_ = request_.cluster.device_count();
  }

  std::optional<Devices> list(const std::string& option) {
    const std::optional<std::vector<int>> ids = problems_.ids(arguments_, option);
    if (!ids) return std::nullopt;
    Devices devices(ids->begin(), ids->end());
    check_inside(option, devices);
    return devices;
  }

  void check_inside(const std::string& option, const Devices& devices) {
    std::vector<int> outside;
    for (const DeviceId device : devices) {
      if (device.value >= cluster_devices_) outside.push_back(device.value);
    }
    if (!outside.empty())
      problems_.misfit(fmt::format("--{}: the cluster has devices 0-{}, not {}", option, cluster_devices_ - 1,
                                   collection::id_list_of(outside)));
  }

  void read_devices() {
    const std::optional<Devices> failing = list("fail");
    for (Side* side : {&from_, &to_}) {
      if (!is_file(*side)) side->devices = list(side->devices_option);
      if (side->file) check_inside(side->option, *side->devices);
    }
    if (from_.config && !arguments_.has("from-devices")) place_from();
    check_count(from_);
    if (failing && from_.devices) fail(*failing);
    if (to_.config && !arguments_.has("devices") && from_.devices) find_candidates();
    if (to_.config && arguments_.has("devices") && to_.devices && from_.devices) choose_devices();
    check_count(to_);
    if (to_.devices) check_alive();
  }

  void place_from() {
    const int world = from_.config->world();
    if (world > cluster_devices_)
      return problems_.misfit(fmt::format("--from needs {} devices, the cluster has {}", world, cluster_devices_));
    from_.devices.emplace();
    for (int device = 0; device < world; ++device) from_.devices->push_back(DeviceId(device));
  }

  // The old devices that live, in order, then further ones: as many as it takes, and those that a spread may choose
  // from.
  void find_candidates() {
    const std::set<DeviceId>& lost = request_.residency.lost;
    const std::set<DeviceId> old(from_.devices->begin(), from_.devices->end());
    const auto world = static_cast<size_t>(to_.config->world());
    Devices devices;
    std::copy_if(from_.devices->begin(), from_.devices->end(), std::back_inserter(devices),
                 [&](DeviceId device) { return !lost.contains(device); });
    const size_t wanted = std::max(world, devices_to_spread_over());
    for (DeviceId next(0); devices.size() < wanted && next.value < cluster_devices_; ++next.value) {
      if (!old.contains(next)) devices.push_back(next);
    }
    if (devices.size() < world)
      return problems_.misfit(fmt::format("--to needs {} devices, {} of the cluster live", world, devices.size()));
    request_.candidates = devices;
    devices.resize(world);
    to_.devices = std::move(devices);
  }

  // --devices may name more than it takes: those that live and have state come first, each in the order given.
  void choose_devices() {
    const auto world = static_cast<size_t>(to_.config->world());
    if (to_.devices->size() <= world) return;
    const std::set<DeviceId>& lost = request_.residency.lost;
    const std::set<DeviceId> old(from_.devices->begin(), from_.devices->end());
    std::erase_if(*to_.devices, [&](DeviceId device) { return lost.contains(device); });
    if (request_.placement.rule != plan::PlacementRule::kIdentity)
      std::stable_partition(to_.devices->begin(), to_.devices->end(),
                            [&](DeviceId device) { return old.contains(device); });
    request_.candidates = *to_.devices;
    to_.devices->resize(std::min(to_.devices->size(), world));
  }

  // All of a cluster; of hosts alike, so many that none has to take more than half of the replicas.
  size_t devices_to_spread_over() const {
    if (request_.placement.spread == plan::SpreadRule::kNone || to_.config->dp == 1 || gpus_per_host_ == 0) return 0;
    if (arguments_.has("cluster")) return static_cast<size_t>(cluster_devices_);
    const int64_t world = to_.config->world(), half = (to_.config->dp + 1) / 2 * (world / to_.config->dp);
    const int64_t of_host = std::min<int64_t>(gpus_per_host_, half);
    return static_cast<size_t>((world + of_host - 1) / of_host * gpus_per_host_);
  }

  void check_count(const Side& side) {
    if (!side.devices || !side.config) return;
    const auto given = static_cast<int>(side.devices->size());
    if (given != side.config->world())
      problems_.misfit(fmt::format("--{} lists {} devices, --{}={} needs {}", side.devices_option, given, side.option,
                                   canonical(*side.config), side.config->world()));
  }

  void fail(const Devices& failing) {
    std::vector<int> strangers;
    for (const DeviceId device : failing) {
      if (std::find(from_.devices->begin(), from_.devices->end(), device) == from_.devices->end())
        strangers.push_back(device.value);
      request_.residency.lost.insert(device);
    }
    if (!strangers.empty())
      problems_.misfit(fmt::format("--fail: not among the old devices: {}", collection::id_list_of(strangers)));
  }

  void check_alive() {
    std::vector<int> dead;
    for (const DeviceId device : *to_.devices) {
      if (request_.residency.lost.contains(device)) dead.push_back(device.value);
    }
    if (!dead.empty())
      problems_.misfit(fmt::format("--{}: lost devices cannot hold new state: {}",
                                   is_file(to_) ? to_.option : to_.devices_option, collection::id_list_of(dead)));
  }

  void check_strategy() {
    if (request_.options.sources == plan::SourceRule::kStorage && !request_.residency.storage)
      problems_.misfit(fmt::format("--strategy={} reads all state from storage: add --storage", strategy_.name));
    if (request_.placement.spread == plan::SpreadRule::kRack && !has_racks())
      problems_.misfit("--spread=rack needs a --cluster with racks: rack_hosts, or a fabric with leaves");
    if (!strategy_.data_parallel_only) return;
    if (is_file(from_) || is_file(to_))
      return problems_.misfit(
          "--strategy=dp-only: a collection file does not say what else than dp may change; give two "
          "layouts, or another strategy");
    if (!from_.config || !to_.config) return;
    ParallelConfig same = *to_.config;
    same.dp = from_.config->dp;
    if (!(same == *from_.config))
      problems_.misfit(fmt::format("--strategy=dp-only changes dp alone; {} → {} changes more",
                                   canonical(*from_.config), canonical(*to_.config)));
  }

  void check_effects() {
    const std::string spread = arguments_.text("spread");
    if (!spread.empty() && replicas() == 1)
      problems_.misfit(
          fmt::format("--spread={}: the new state has one data-parallel replica, which has nothing to be "
                      "kept apart from; give --to a larger dp",
                      spread));
    if (request_.options.derive_params && !request_.options.in_place)
      problems_.misfit(fmt::format(
          "--derive-params: --strategy={} pulls all state out of host memory and casts nothing", strategy_.name));
    if (!request_.options.relay &&
        (!request_.options.in_place || request_.options.sources != plan::SourceRule::kNearest))
      problems_.misfit(fmt::format("--no-relay: with --strategy={} nobody passes a box on", strategy_.name));
    if (request_.placement.rule == plan::PlacementRule::kFree && to_.devices &&
        std::ssize(*to_.devices) > plan::kMostFreeRanks)
      problems_.misfit(
          fmt::format("--placement=free tries ranks by themselves up to {} of them, --to has {}; use "
                      "--placement=hosts",
                      plan::kMostFreeRanks, to_.devices->size()));
  }

  // Data-parallel ones of the new state; nothing when that cannot be read.
  std::optional<int> replicas() const {
    if (to_.config) return to_.config->dp;
    if (to_.file) return to_.file->meshes.front().axis_size("dp");
    return std::nullopt;
  }

  bool has_racks() const { return request_.cluster.rack_count() > 0; }

  // Without --cluster: as many hosts as devices and copies need.
  void complete_cluster() {
    if (arguments_.has("cluster")) return;
    int64_t devices = 0;
    for (const Devices* list : {&*from_.devices, &*to_.devices, &request_.candidates}) {
      for (const DeviceId device : *list) devices = std::max<int64_t>(devices, device.value + 1);
    }
    for (const collection::ExtraHolder& copy : request_.residency.extra)
      devices = std::max(devices, (int64_t{copy.host.value} + 1) * gpus_per_host_);
    request_.cluster.name = fmt::format("hosts of {} GPUs", gpus_per_host_);
    for (int first = 0; first < std::min(devices, kMostDevices); first += gpus_per_host_)
      request_.cluster.hosts.push_back({.first_device = first, .gpus = gpus_per_host_});
  }

  void check_copies() {
    const auto hosts = static_cast<int>(request_.cluster.hosts.size());
    for (const collection::ExtraHolder& copy : request_.residency.extra) {
      if (copy.host.value < hosts) continue;
      const std::string& tensor = from_.file->tensors[static_cast<size_t>(copy.tensor.value)].name;
      problems_.misfit(fmt::format("--from: tensor \"{}\" box {} has a copy on host {}; the cluster has hosts 0-{}",
                                   tensor, copy.box.str(), copy.host.value, hosts - 1));
    }
  }

  void build() {
    if (request_.candidates.empty()) request_.candidates = *to_.devices;
    build_side(from_, request_.from);
    build_side(to_, request_.to);
    check_epoch();
    if (!arguments_.has("tensor")) return;
    std::vector<std::string> names;
    for (const collection::LogicalTensor& tensor : request_.to.tensors) names.push_back(tensor.name);
    check_tensor_name(arguments_.text("tensor"), names, problems_);
  }

  // A file of the new state may say its epoch, else it is the next one.
  void check_epoch() {
    const int64_t old = request_.from.epoch;
    int64_t& now = request_.to.epoch;
    if (now == 0 || !is_file(to_)) now = old + 1;
    if (now <= old)
      problems_.misfit(fmt::format("--to: {} is of epoch {}, which must come after the old state's epoch {}",
                                   arguments_.text("to"), now, old));
  }

  void build_side(Side& side, Collection& result) {
    if (side.file) {
      result = *std::move(side.file);
      return;
    }
    auto built = collection::megatron_collection(*model_, recipe_of(arguments_), *side.config, *side.devices);
    if (!built.ok()) return problems_.status(fmt::format("--{}: ", side.option), built.status());
    result = *std::move(built);
  }

  const Arguments& arguments_;
  Problems& problems_;
  PlanRequest request_;
  scenario::Strategy strategy_;
  std::optional<model::Model> model_;
  Side from_{"from", "from-devices", {}, {}, {}};
  Side to_{"to", "devices", {}, {}, {}};
  int gpus_per_host_ = kGpusPerHost;
  int cluster_devices_ = kMostDevices;  // without --cluster there are as many as are named
};

}  // namespace

std::optional<PlanRequest> read_plan_request(const Arguments& arguments, Problems& problems) {
  return RequestReader(arguments, problems).run();
}

void check_tensor_name(const std::string& tensor, const std::vector<std::string>& names, Problems& problems) {
  if (std::find(names.begin(), names.end(), tensor) != names.end()) return;
  std::vector<std::string> near;
  if (const std::string nearest = closest(tensor, names); !nearest.empty()) near.push_back(nearest);
  for (const std::string& name : names) {
    if (near.size() == kMaxNamesListed) break;
    if (name.find(tensor) != std::string::npos && std::find(near.begin(), near.end(), name) == near.end())
      near.push_back(name);
  }
  problems.misfit(fmt::format("--tensor: unknown tensor \"{}\"{}", clipped(tensor, 60),
                              near.empty() ? "; `scalai models` lists a model's tensors"
                                           : fmt::format("; did you mean {}?", fmt::join(near, ", "))));
}

}  // namespace scalai::apps
