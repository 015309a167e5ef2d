#include "apps/parallelize/parallelize_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>

#include "apps/common/cluster_limits.h"
#include "apps/common/model_options.h"
#include "apps/parallelize/parallelize_software.h"
#include "apps/parallelize/parallelize_storage.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/devices.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::apps {
namespace {

using collection::ParallelConfig;
using step::SearchSpace;
using Devices = std::vector<DeviceId>;

constexpr int64_t kMostSamples = int64_t{1} << 24;  // of a batch, and tokens of a sequence
// What a host has for a network NIC when nothing says it: the slowest that clusters of GPUs are built with.
constexpr double kPlainNic = 12.5e9;
constexpr const char* kPlainHost = "a plain host has, assumed for want of the kind's own";

std::string or_nearest(std::string_view name, const std::vector<std::string>& names) {
  const std::string near = closest(name, names);
  return near.empty() ? fmt::format("choose among {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near);
}

class Reader {
 public:
  Reader(const Arguments& arguments, Problems& problems) : arguments_(arguments), problems_(problems) {}

  std::optional<ParallelizeRequest> run() {
    read_model();
    read_training();
    read_tried();
    read_layouts();
    read_machines();
    read_software(arguments_, problems_, request_);
    read_storage(arguments_, problems_, request_);
    if (machines_known_) {
      read_devices();
      check_memory();
    } else {
      check_device_options();
    }
    if (model_known_ && machines_known_ && request_.space.gpus > 0) check();
    if (!problems_.empty()) return std::nullopt;
    return std::move(request_);
  }

 private:
  SearchSpace& space() { return request_.space; }
  step::Training& base() { return request_.space.base; }

  int positive(const std::string& option, int otherwise, int64_t most) {
    if (!arguments_.has(option)) return otherwise;
    const int64_t count = arguments_.count(option);
    if (count < 1 || count > most) problems_.malformed(fmt::format("--{} is a number from 1 to {}", option, most));
    return static_cast<int>(std::clamp<int64_t>(count, 1, most));
  }

  void read_model() {
    if (!arguments_.has("model")) return problems_.malformed("--model is missing, as in --model=llama3-70b");
    auto model = load_model(arguments_.text("model"));
    if (!model.ok()) return problems_.status("--model: ", model.status());
    request_.model = *std::move(model);
    request_.shape = step::shape_of(request_.model);
    model_known_ = true;
  }

  void read_training() {
    if (!arguments_.has("global-batch")) problems_.malformed("--global-batch is missing: samples a step");
    const model::Optimizer optimizer = model::find_optimizer(arguments_.text("optimizer")).value();
    base().global_batch = positive("global-batch", 1, kMostSamples);
    base().sequence = positive(
        "sequence", model_known_ ? static_cast<int>(std::max<int64_t>(1, request_.model.sequence)) : 1, kMostSamples);
    base().precision = step::find_precision(arguments_.text("precision"), optimizer).value();
    base().schedule = step::find_schedule(arguments_.text("schedule")).value();
    base().whole_batches = !arguments_.flag("partial-batches");
    read_batch_tolerance();
    const std::string& name = base().precision.name;
    request_.recipe = {.param = name == "fp32"                          ? tensor::DType::kF32
                                : name == "fp16" || name == "zero-fp16" ? tensor::DType::kF16
                                                                        : tensor::DType::kBF16,
                       .master = name != "fp32",
                       .optimizer = optimizer,
                       .previous = base().schedule == step::Schedule::kTwoBW};
  }

  void read_batch_tolerance() {
    if (!arguments_.has("batch-tolerance")) return;
    const std::string text = arguments_.text("batch-tolerance");
    double share = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    if (!whole || !(share >= 0 && share < 1)) {
      return problems_.malformed(
          fmt::format("--batch-tolerance: \"{}\" is not a share from 0 to below 1, as in 0.02", text));
    }
    if (!base().whole_batches) problems_.malformed("--batch-tolerance and --partial-batches exclude each other");
    if (arguments_.text("planner") != "scalai") problems_.malformed("--batch-tolerance is not for --planner");
    space().batch_tolerance = share;
  }

  std::vector<int> counts(const std::string& option, int least, int most) {
    std::vector<int> numbers;
    for (const std::string& text : arguments_.list(option)) {
      const auto count = parse_count(text);
      if (!count.ok() || *count < least || *count > most) {
        problems_.malformed(fmt::format("--{}: \"{}\" is not a number from {} to {}", option, text, least, most));
      } else {
        numbers.push_back(static_cast<int>(*count));
      }
    }
    return numbers;
  }

  void read_tried() {
    if (arguments_.has("micro-batches")) space().micro_batches = counts("micro-batches", 1, kMostSamples);
    if (arguments_.has("zero")) space().zero_stages = counts("zero", 0, 3);
    if (arguments_.has("recompute")) {
      space().recomputes.clear();
      for (const std::string& name : arguments_.list("recompute")) {
        const auto found = step::find_recompute(name);
        if (!found.ok()) problems_.malformed("--recompute: " + message_of(found.status()));
        if (found.ok()) space().recomputes.push_back(*found);
      }
    }
    space().objective = step::find_objective(arguments_.text("objective")).value();
    if (arguments_.has("horizon")) space().horizon_s = arguments_.seconds("horizon");
    const bool thrifty = space().objective == step::Objective::kCost || space().objective == step::Objective::kEnergy;
    space().all_gpus = !arguments_.flag("any-gpus") && !thrifty;
    space().explain_idle = true;
    space().keep = positive("top", 10, kMostSamples);
    // One layout is priced as full as `validate` lets it be, and --memory says what may be used.
    if (arguments_.text("planner") == "scalai" && !arguments_.has("memory"))
      space().headroom = arguments_.has("layout") ? -step::kMemoryError : step::kHeadroom;
    if (arguments_.has("memory")) space().memory_bytes = arguments_.bytes("memory");
    if (arguments_.has("memory") && space().memory_bytes == 0) problems_.malformed("--memory: 0 bytes hold nothing");
    read_offload();
    const bool pays = space().objective == step::Objective::kPayOff;
    if (pays && !arguments_.has("from")) problems_.malformed("--objective=pay-off needs --from: where the job is now");
    if (!pays && arguments_.has("horizon"))
      problems_.malformed("--horizon applies to --objective=pay-off only: give both");
    if (pays && space().horizon_s <= 0) problems_.malformed("--horizon: a change needs time to pay off");
  }

  void read_offload() {
    if (!arguments_.has("offload")) return;
    request_.offload_bytes = arguments_.bytes("offload");
    if (request_.offload_bytes == 0) problems_.malformed("--offload: 0 bytes on a GPU compute nothing");
    if (!arguments_.has("layout"))
      problems_.malformed("--offload needs --layout: the traffic is that of one configuration");
    if (arguments_.has("from")) problems_.malformed("--offload and --from exclude each other");
  }

  std::optional<ParallelConfig> layout(const std::string& option) {
    if (!arguments_.has(option)) return std::nullopt;
    const auto config = collection::parse_layout(arguments_.text(option));
    if (config.ok() && config->world() <= kMostDevices) return *config;
    if (!config.ok()) problems_.malformed(fmt::format("--{}: {}", option, message_of(config.status())));
    if (config.ok())
      problems_.misfit(fmt::format("--{}: {} GPUs are more than {}", option, config->world(), kMostDevices));
    return std::nullopt;
  }

  void read_layouts() {
    if (arguments_.has("pin")) {
      const auto pins = step::parse_pins(arguments_.text("pin"));
      if (!pins.ok()) problems_.malformed(fmt::format("--pin: {}", message_of(pins.status())));
      if (pins.ok()) space().pins = *pins;
      if (arguments_.has("layout")) problems_.malformed("--pin and --layout exclude each other");
    }
    request_.layout = layout("layout");
    if (request_.layout) space().pins = step::pins_of(*request_.layout);
    if (const auto config = layout("from")) {
      request_.from = {.config = *config};
      if (model_known_) problems_.status("--from: ", collection::check_fit(request_.model, *config));
      if (!arguments_.has("zero")) space().zero_stages.push_back(config->zero);
    }
    for (const char* option : {"from-devices", "fail"}) {
      if (arguments_.has(option) && !arguments_.has("from"))
        problems_.malformed(fmt::format("--{} speaks of devices that the job has: give --from", option));
    }
  }

  // --- machines ------------------------------------------------------------------------------------------------------

  void read_machines() {
    int given = 0;
    for (const char* option : {"gpu", "host", "cluster"}) given += arguments_.has(option) ? 1 : 0;
    if (given != 1)
      problems_.malformed(
          "say once which GPUs: --gpu=h100-80g, --host=KIND (scalai machines lists them), or --cluster=FILE");
    if (arguments_.has("cluster")) return read_cluster();
    cluster::Host& host = space().host;
    host.gpus = kGpusPerHost;
    bool known = given == 1;
    if (arguments_.has("host")) known = read_host(host) && known;
    if (arguments_.has("gpu")) known = read_gpu(host) && known;
    resize_host(host);
    read_network(host);
    machines_known_ = known;
  }

  bool read_host(cluster::Host& host) {
    const std::string name = arguments_.text("host");
    const cluster::HostKind* kind = cluster::find_host_kind(name);
    if (kind == nullptr) {
      problems_.misfit(
          fmt::format("--host: there is no host \"{}\"; {}", name, or_nearest(name, cluster::host_kind_names())));
      return false;
    }
    host = cluster::joined(kind->host);
    request_.segment = segment_of(*kind);
    // An HGX board, a cloud's "high": whoever builds with it chooses the NICs.
    if (host.nic_bytes_per_s <= 0) {
      host.nics = 1;
      host.nic_bytes_per_s = kPlainNic;
      request_.network_of = kPlainHost;
    }
    return true;
  }

  bool read_gpu(cluster::Host& host) {
    const std::string name = arguments_.text("gpu");
    const cluster::GpuKind* gpu = cluster::find_gpu_kind(name);
    if (gpu == nullptr) {
      problems_.misfit(
          fmt::format("--gpu: there is no GPU \"{}\"; {}", name, or_nearest(name, cluster::gpu_kind_names())));
      return false;
    }
    host = {.gpus = kGpusPerHost,
            .gpu = *gpu,
            .gpu_link_bytes_per_s = gpu->link_bytes_per_s,
            .pcie_bytes_per_s = gpu->pcie_bytes_per_s,
            .nics = 1,
            .nic_bytes_per_s = kPlainNic};
    for (const std::string& kind_name : cluster::host_kind_names()) {
      const cluster::HostKind& kind = *cluster::find_host_kind(kind_name);
      if (kind.host.gpu.name != name || kind.host.nic_bytes_per_s <= 0) continue;
      const cluster::Host whole = cluster::joined(kind.host);
      host.gpus = whole.gpus;
      host.nics = whole.nics;
      host.nic_bytes_per_s = whole.nic_bytes_per_s;
      request_.segment = segment_of(kind);
      request_.network_of = kind.name;
      break;
    }
    if (request_.network_of.empty()) request_.network_of = kPlainHost;
    return true;
  }

  // GPUs that a job takes of each NVLink domain of several hosts when it needs more than one domain: a power of two of
  // the hosts, 16 trays of the 18 of an NVL72 (Slurm's --segment=16), so that groups of ranks end where domains do.
  static int segment_of(const cluster::HostKind& kind) {
    return kind.host.gpus * static_cast<int>(std::bit_floor(static_cast<unsigned>(kind.host.nvlink_hosts)));
  }

  // As many NICs a GPU, and the same price, as the kind has.
  void resize_host(cluster::Host& host) {
    const int64_t wanted = arguments_.has("gpus") ? arguments_.count("gpus")
                           : request_.layout      ? request_.layout->world()
                                                  : 0;
    const bool cut = !arguments_.has("gpus-per-host") && request_.segment > 0 && wanted > host.gpus;
    if (!cut || request_.segment == host.gpus) request_.segment = 0;
    const int gpus = positive("gpus-per-host", request_.segment > 0 ? request_.segment : host.gpus, kMostDevices);
    host.nics = std::max(1, host.nics * gpus / host.gpus);
    host.price_per_hour *= static_cast<double>(gpus) / host.gpus;
    host.gpus = gpus;
  }

  void read_network(cluster::Host& host) {
    if (arguments_.has("nics")) host.nics = positive("nics", 1, kMostDevices);
    if (!arguments_.has("nic")) return;
    request_.network_of.clear();
    const auto rate = parse_bandwidth(arguments_.text("nic"));
    if (!rate.ok()) return problems_.malformed(fmt::format("--nic: {}", message_of(rate.status())));
    if (*rate <= 0) return problems_.malformed("--nic: the bandwidth is 0; leave the option out if it is unknown");
    host.nic_bytes_per_s = *rate;
  }

  void read_cluster() {
    for (const char* option : {"gpus-per-host", "nic", "nics"}) {
      if (arguments_.has(option)) problems_.malformed(fmt::format("--{} and --cluster exclude each other", option));
    }
    auto cluster = scenario::load_cluster(arguments_.text("cluster"));
    if (!cluster.ok()) return problems_.file(cluster.status());
    request_.cluster = *std::move(cluster);
    request_.uniform = false;
    machines_known_ = true;
  }

  // --- devices -------------------------------------------------------------------------------------------------------

  std::optional<Devices> list(const std::string& option) {
    const std::optional<std::vector<int>> ids = problems_.ids(arguments_, option);
    if (!ids) return std::nullopt;
    const int64_t all = request_.uniform ? kMostDevices : request_.cluster.device_count();
    for (const int id : *ids) {
      if (id < all) continue;
      problems_.misfit(fmt::format("--{}: the cluster has devices 0-{}, not {}", option, all - 1, id));
      return std::nullopt;
    }
    return Devices(ids->begin(), ids->end());
  }

  void read_devices() {
    const std::optional<Devices> chosen = list("devices"), failed = list("fail");
    if (request_.from) read_old_devices(failed.value_or(Devices()));
    const std::set<DeviceId> lost = request_.from ? request_.from->residency.lost : std::set<DeviceId>();
    Devices pool = chosen.value_or(Devices());
    for (const DeviceId device : pool) {
      if (lost.contains(device)) problems_.misfit(fmt::format("--devices: device {} is lost", device.value));
    }
    if (!chosen && request_.from) {
      const Devices& old = request_.from->devices;
      std::copy_if(old.begin(), old.end(), std::back_inserter(pool), [&](DeviceId one) { return !lost.contains(one); });
    }
    const int wanted = count_gpus(pool, chosen.has_value(), lost.size());
    if (wanted == 0) return;
    if (!chosen) fill(pool, wanted, lost);
    if (std::ssize(pool) < wanted)
      return problems_.misfit(fmt::format("--gpus: {} are wanted, {} are there", wanted, pool.size()));
    pool.resize(static_cast<size_t>(wanted));
    request_.devices = pool;
    space().gpus = wanted;
    if (request_.uniform) make_cluster();
    if (!failed.value_or(Devices()).empty() || chosen || arguments_.has("from-devices")) request_.uniform = false;
    if (!request_.uniform) describe_devices();
    if (request_.from) {
      const std::set<DeviceId> usable(pool.begin(), pool.end());
      const Devices& old = request_.from->devices;
      request_.from->can_stay =
          std::all_of(old.begin(), old.end(), [&](DeviceId device) { return usable.contains(device); });
    }
  }

  void check_device_options() {
    list("devices");
    const std::optional<Devices> failed = list("fail");
    if (request_.from) read_old_devices(failed.value_or(Devices()));
    if (arguments_.has("gpus")) count_gpus({}, false, 0);
  }

  void read_old_devices(const Devices& failed) {
    OldState& from = *request_.from;
    const int world = from.config.world();
    const int64_t all = request_.uniform ? kMostDevices : request_.cluster.device_count();
    if (const auto given = list("from-devices")) {
      from.devices = *given;
      if (std::ssize(*given) != world)
        problems_.misfit(fmt::format("--from-devices lists {} devices, --from needs {}", given->size(), world));
    } else {
      for (int device = 0; device < std::min<int64_t>(world, all); ++device) from.devices.emplace_back(device);
    }
    if (world > all) problems_.misfit(fmt::format("--from needs {} devices, the cluster has {}", world, all));
    for (const DeviceId device : failed) {
      if (std::find(from.devices.begin(), from.devices.end(), device) == from.devices.end())
        problems_.misfit(fmt::format("--fail: device {} is not among the old ones", device.value));
      from.residency.lost.insert(device);
    }
  }

  // --gpus, or what else says how many; 0 = nothing does.
  int count_gpus(const Devices& pool, bool chosen, size_t lost) {
    if (arguments_.has("gpus")) {
      if (arguments_.count("gpus") == 0) {
        problems_.malformed("--gpus: 0 GPUs leave no choice; give at least 1");
        return 0;
      }
      return positive("gpus", 0, kMostDevices);
    }
    if (request_.layout) return request_.layout->world();
    if (chosen) return static_cast<int>(pool.size());
    if (!request_.uniform) return request_.cluster.device_count() - static_cast<int>(lost);
    problems_.malformed("--gpus is missing: how many there are");
    return 0;
  }

  // Further devices after the old ones that live, of the fastest hosts first; hosts fill up in order.
  void fill(Devices& pool, int wanted, const std::set<DeviceId>& lost) {
    const std::set<DeviceId> old =
        request_.from ? std::set<DeviceId>(request_.from->devices.begin(), request_.from->devices.end())
                      : std::set<DeviceId>();
    const int64_t all = request_.uniform ? kMostDevices : request_.cluster.device_count();
    const int64_t further = wanted - std::ssize(pool);
    Devices rest;
    for (DeviceId next(0); next.value < all && (!request_.uniform || std::ssize(rest) < further); ++next.value) {
      if (!old.contains(next) && !lost.contains(next)) rest.push_back(next);
    }
    if (further <= 0) return;
    if (!request_.uniform) rest = step::fastest_first(rest, request_.cluster, base().precision.math);
    rest.resize(std::min(rest.size(), static_cast<size_t>(further)));
    if (rest.empty()) return;
    pool.insert(pool.end(), rest.begin(), rest.end());
    std::sort(pool.begin(), pool.end());
  }

  void make_cluster() {
    int last = 0;
    for (const DeviceId device : request_.devices) last = std::max(last, device.value);
    if (request_.from) {
      for (const DeviceId device : request_.from->devices) last = std::max(last, device.value);
    }
    cluster::Host host = space().host;
    request_.cluster.name = "hosts alike";
    for (host.first_device = 0; host.first_device <= last; host.first_device += host.gpus)
      request_.cluster.hosts.push_back(host);
  }

  // The fastest GPU stands for all in what is printed, the smallest memory limits the search.
  void describe_devices() {
    cluster::Host& host = space().host;
    space().host_kinds = step::kinds_of_hosts(request_.devices, request_.cluster);
    const step::Math math = base().precision.math;
    int most = 0;
    for (const cluster::Host& one : space().host_kinds) {
      if (host.gpus == 0 || step::matrix_rate(one.gpu, math) > step::matrix_rate(host.gpu, math)) host = one;
      if (one.gpu.peak_flops <= 0)
        problems_.misfit(
            fmt::format("--cluster: the GPU \"{}\" has no peak_tflops to price it by; give one", one.gpu.name));
    }
    for (const cluster::Host& one : cluster::joined_hosts(request_.devices, request_.cluster))
      most = std::max(most, one.gpus);
    host.gpus = most;
  }

  void check_memory() {
    int64_t smallest = space().host.gpu.memory_bytes;
    for (const cluster::Host& one : space().host_kinds) smallest = std::min(smallest, one.gpu.memory_bytes);
    if (arguments_.has("memory") && smallest > 0 && space().memory_bytes > smallest)
      problems_.misfit(fmt::format("--memory: {} are more than the {} that a GPU has",
                                   format_bytes(space().memory_bytes), format_bytes(smallest)));
    if (space().memory_bytes == 0) space().memory_bytes = smallest;
  }

  void check() {
    // How full the layout is does not matter: the host has the rest.
    request_.gpu_memory_bytes = space().memory_bytes;
    if (request_.offload_bytes > 0) space().memory_bytes = std::numeric_limits<int64_t>::max() / 4;
    if (space().host.gpu.memory_bytes == 0 && space().memory_bytes == 0)
      problems_.misfit("the memory of a GPU is unknown: give --memory");
    problems_.status("", step::check_space(request_.shape, space()));
  }

  const Arguments& arguments_;
  Problems& problems_;
  ParallelizeRequest request_;
  bool model_known_ = false, machines_known_ = false;
};

}  // namespace

std::optional<ParallelizeRequest> read_parallelize_request(const Arguments& arguments, Problems& problems) {
  return Reader(arguments, problems).run();
}

}  // namespace scalai::apps
