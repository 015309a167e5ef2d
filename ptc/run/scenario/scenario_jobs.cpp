#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/devices.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/chooser.h"
#include "ptc/run/scenario/internal/scenario_collections.h"
#include "ptc/run/scenario/internal/scenario_configs.h"
#include "ptc/run/scenario/internal/scenario_dataset.h"
#include "ptc/run/scenario/internal/scenario_policy.h"
#include "ptc/run/scenario/internal/scenario_training.h"
#include "ptc/run/scenario/scenario_parts.h"

#include "ptc/state/model/scaling.h"
#include "ptc/store/naming/family.h"

namespace scalai::scenario::internal {
namespace {

class JobBuilder {
 public:
  JobBuilder(Context& context, const proto::Job& message, int index, uint64_t seed)
      : context_(context),
        source_(context.source),
        message_(message),
        path_(fmt::format("jobs[{}]", index)),
        seed_(seed),
        errors_before_(context.source.errors()) {}

  JobSpec build();
  bool configs_ok() const { return configs_ok_; }

 private:
  std::string at(const std::string& field) const { return path_ + "." + field; }
  bool chooses() const { return message_.parallel() == proto::Job::choose; }
  void build_model();
  void import_model();
  bool has_collections() const;
  void build_configs();
  void find_first_config();
  bool starts_later() const;
  std::vector<DeviceId> devices_left() const;
  void give_devices();
  bool named_elsewhere(int device) const;
  void scale_model();
  model::CutSizes cuts() const;
  void check_memory(const std::string& path, const ParallelChoice& choice);
  void build_start();
  void build_devices();
  void check_start_config();
  void build_policies();
  void build_redundancy();

  Context& context_;
  Source& source_;
  const proto::Job& message_;
  const std::string path_;
  const uint64_t seed_;  // the scenario's
  JobSpec job_;
  int errors_before_ = 0;  // of others
  bool model_ok_ = false;
  bool configs_ok_ = true;
};

// A Hugging Face config has problems of its own, which are listed under its own name.
void JobBuilder::import_model() {
  const std::string path = beside(context_.file_name, message_.model_config());
  const absl::StatusOr<std::string> text = content_of(context_, message_.model_config(), message_.model_config_text());
  if (!text.ok()) {
    source_.error(at("model_config"), message_of(text.status()));
    return;
  }
  const std::string name = std::filesystem::path(path).stem().string();
  absl::StatusOr<model::Model> model = store::model_of_config(*text, name);
  if (model.ok()) {
    job_.model = *std::move(model);
    job_.model_config = *text;
    model_ok_ = true;
    context_.comments += fmt::format("# {}: digest {}\n", message_.model_config(), digest_of(*text));
    return;
  }
  Diagnostics problems(path, *text);
  std::string lines = message_of(model.status());
  for (size_t end = 0; !lines.empty(); lines.erase(0, end == std::string::npos ? end : end + 1)) {
    end = lines.find('\n');
    if (end != 0) problems.error({}, lines.substr(0, end));
  }
  context_.other_files += problems.render();
  source_.error(at("model_config"), fmt::format("\"{}\" has problems", message_.model_config()),
                "they are listed under its name");
}

// Configurations that name the state themselves, of a job whose model we do not know.
bool JobBuilder::has_collections() const {
  return std::any_of(message_.configs().begin(), message_.configs().end(),
                     [](const proto::ParallelChoice& config) { return !config.collection().empty(); });
}

void JobBuilder::build_model() {
  const bool named = source_.given(at("model"));
  if (has_collections()) {
    const bool imported = source_.given(at("model_config"));
    if (named || imported)
      source_.error(at(named ? "model" : "model_config"), "a model and configs with collections exclude each other");
    if (!context_.scale.whole())
      source_.error("scale_model", fmt::format("job \"{}\" has collections, which cannot be scaled", message_.name()));
    job_.shape.name = "collection";
    return;
  }
  if (named && source_.given(at("model_config"))) {
    source_.error(at("model_config"), "\"model\" and \"model_config\" exclude each other", "",
                  {{at("model"), "the model is named here"}});
  } else if (!named && !source_.given(at("model_config"))) {
    source_.missing(at("model"), "name one of `scalai models`, give a model_config, or a collection in each config");
  } else if (!named) {
    import_model();
  } else if (absl::StatusOr<model::Model> model = store::find_model(message_.model()); model.ok()) {
    job_.model = *std::move(model);
    model_ok_ = true;
  } else {
    source_.error_unknown(at("model"), "model", message_.model(), store::model_names());
  }
}

void JobBuilder::build_configs() {
  if (chooses()) {
    configs_ok_ = job_.choose.has_value();
    return;
  }
  const int before = source_.errors();
  if (message_.configs_size() == 0) {
    source_.missing(
        at("configs"),
        "give at least one, like configs { layout: \"tp4,pp2,dp2\" }, or have it computed: parallel: choose");
  }
  std::map<int, int> config_of_size;
  std::vector<std::string> paths;
  for (int i = 0; i < message_.configs_size(); ++i) {
    const std::string path = fmt::format("{}.configs[{}]", path_, i);
    std::optional<ParallelChoice> choice =
        build_config(message_.configs(i), path, path_, model_ok_ ? &job_ : nullptr, source_);
    if (!choice.has_value()) continue;
    if (has_collections()) build_collection(message_.configs(i), path, job_.configs, *choice, context_);
    const int gpus = choice->config.world();
    const auto [first, fresh] = config_of_size.emplace(gpus, i);
    if (!fresh) {
      source_.error(path + ".layout", fmt::format("two configs of job \"{}\" need {} GPUs", job_.name, gpus),
                    "keep one for each number of GPUs",
                    {{fmt::format("{}.configs[{}].layout", path_, first->second), "the first is here"}});
    }
    paths.push_back(path + ".layout");
    job_.configs.push_back(*choice);
  }
  scale_model();
  for (size_t i = 0; i < paths.size(); ++i) check_memory(paths[i], job_.configs[i]);
  configs_ok_ = source_.errors() == before && !source_.broken(at("configs"));
}

// What the model may be cut into. Where configurations are computed that is whatever fits the model and a host.
model::CutSizes JobBuilder::cuts() const {
  model::CutSizes cuts;
  for (const ParallelChoice& choice : job_.configs) {
    cuts.tp.push_back(choice.config.tp);
    cuts.etp.push_back(choice.config.etp);
  }
  if (!chooses() || !context_.cluster.has_value()) return cuts;
  int most = 1;
  for (const cluster::Host& host : context_.cluster->hosts) most = std::max(most, host.gpus);
  for (int parts = 1; parts <= most; ++parts) {
    if (job_.model.heads > 0 && job_.model.heads % parts == 0 && job_.model.hidden % parts == 0)
      cuts.tp.push_back(parts);
    if (job_.model.experts > 0 && job_.model.ffn % parts == 0) cuts.etp.push_back(parts);
  }
  return cuts;
}

// Only after the configs: they are judged by the sizes of the model that the scenario names.
void JobBuilder::scale_model() {
  if (!model_ok_ || context_.scale.whole()) return;
  const int64_t whole = model::state_bytes(job_.model, job_.recipe, /*per_home=*/false);
  job_.model = model::scaled(job_.model, context_.scale, cuts());
  const int64_t scaled = model::state_bytes(job_.model, job_.recipe, /*per_home=*/false);
  job_.state_ratio = static_cast<double>(whole) / static_cast<double>(scaled);
  context_.whole_bytes += whole;
  context_.scaled_bytes += scaled;
}

// Refuses what cannot fit. Where the scenario gives the step time, or the model is narrower than the one that is timed,
// only the state counts, spread evenly over all ranks that may hold different parts of it; else all that training
// needs.
void JobBuilder::check_memory(const std::string& path, const ParallelChoice& choice) {
  if (!model_ok_ || !context_.cluster.has_value()) return;
  const collection::ParallelConfig& config = choice.config;
  int64_t memory = 0;
  for (const cluster::Host& host : context_.cluster->hosts) memory = std::max(memory, host.gpu.memory_bytes);
  const int64_t distinct = int64_t{config.tp} * config.pp * config.ep * config.etp;
  const int64_t parts = config.zero > 0 ? config.world() : std::min<int64_t>(config.world(), distinct);
  const int64_t share = model::state_bytes(job_.model, job_.recipe, /*per_home=*/false) / parts;
  if (memory == 0) return;
  if (share > memory) {
    source_.error(path,
                  fmt::format("the state of {} takes at least {} a device; the largest GPU has {}", job_.model.name,
                              format_bytes(share), format_bytes(memory)),
                  "cut it over more GPUs (tp, pp, zero), or take a GPU with more memory", {cluster_note(context_)});
    return;
  }
  const bool timed = choice.step_s > 0 || !context_.scale.whole();
  if (timed || !step::check_workload({job_.shape, config, job_.training}).ok()) return;
  check_training_memory({job_.shape, config, job_.training}, memory, path, cluster_note(context_), source_);
}

// It comes later, or a policy says what it gets: who is where then is not known, and it may begin on any devices.
bool JobBuilder::starts_later() const { return source_.given("policy") || source_.given(at("submit")); }

// What a job in this place may begin with: neither given to one before it nor named by another.
std::vector<DeviceId> JobBuilder::devices_left() const {
  std::vector<DeviceId> left;
  for (int i = 0; i < context_.cluster->device_count(); ++i) {
    if (starts_later() || (!named_elsewhere(i) && context_.given.count(DeviceId(i)) == 0)) left.emplace_back(i);
  }
  return left;
}

// A job with a list begins on as many devices as it asks for.
void JobBuilder::give_devices() {
  if (!context_.cluster.has_value() || job_.gpus < 1 || starts_later()) return;
  std::vector<DeviceId> taken = job_.devices.empty() ? devices_left() : job_.devices;
  taken.resize(std::min(taken.size(), static_cast<size_t>(job_.gpus)));
  context_.given.insert(taken.begin(), taken.end());
}

// What it starts with, on what the jobs before it leave.
void JobBuilder::find_first_config() {
  const bool startable = job_.choose.has_value() && model_ok_ && context_.cluster.has_value() && job_.gpus > 0 &&
                         job_.training.global_batch > 0 && source_.errors() == errors_before_;
  if (startable) {
    const cluster::Cluster& cluster = *context_.cluster;
    const step::Math math = job_.training.precision.math;
    const std::map<DeviceId, double> nominal;
    const bool named = !job_.devices.empty();
    const std::vector<DeviceId> devices =
        step::devices_to_use(named ? job_.devices : devices_left(), job_.gpus, named, cluster, math, nominal);
    const absl::StatusOr<Chooser::Choice> choice =
        Chooser(cluster).best({.job = job_, .devices = devices, .speed = nominal});
    if (choice.ok()) {
      job_.configs.push_back(*choice);
      const std::vector<DeviceId> taken = step::devices_for(choice->config, devices, cluster, math);
      if (!starts_later()) context_.given.insert(taken.begin(), taken.end());
    } else {
      report_lines(source_, at(message_.devices_size() > 0 ? "devices" : "gpus"), message_of(choice.status()), "",
                   {cluster_note(context_)});
    }
  }
  scale_model();
  configs_ok_ = !job_.configs.empty();
}

bool JobBuilder::named_elsewhere(int device) const {
  for (const proto::Job& job : context_.message.jobs()) {
    if (&job == &message_) continue;
    if (std::find(job.devices().begin(), job.devices().end(), device) != job.devices().end()) return true;
  }
  return false;
}

void JobBuilder::build_devices() {
  std::map<int, int> first_use;
  for (int i = 0; i < message_.devices_size(); ++i) {
    const std::string path = fmt::format("{}.devices[{}]", path_, i);
    const int device = message_.devices(i);
    const auto [first, fresh] = first_use.emplace(device, i);
    if (!fresh) {
      source_.error(path, fmt::format("device {} is listed twice", device), "",
                    {{fmt::format("{}.devices[{}]", path_, first->second), "the first is here"}});
    }
    if (context_.cluster.has_value() && (device < 0 || device >= context_.cluster->device_count())) {
      source_.error(path, fmt::format("there is no device {}", device),
                    fmt::format("devices are numbered 0 to {}", context_.cluster->device_count() - 1),
                    {cluster_note(context_)});
      continue;
    }
    job_.devices.emplace_back(device);
  }
}

void JobBuilder::check_start_config() {
  if (!configs_ok_ || job_.gpus < 1 || chooses()) return;
  std::vector<int> sizes;
  for (const ParallelChoice& choice : job_.configs) sizes.push_back(choice.config.world());
  if (std::find(sizes.begin(), sizes.end(), job_.gpus) != sizes.end()) return;
  std::sort(sizes.begin(), sizes.end());
  source_.error(at(message_.devices_size() > 0 ? "devices" : "gpus"),
                fmt::format("job \"{}\" starts on {} GPUs, but has no config for {}", job_.name, job_.gpus, job_.gpus),
                fmt::format("its configs need {} GPUs", fmt::join(sizes, ", ")),
                {{at("configs"), "the configs are here"}});
}

void JobBuilder::build_start() {
  build_devices();
  job_.gpus = message_.gpus();
  if (message_.devices_size() == 0) {
    if (!source_.broken(at("devices")) && !source_.at_least(at("gpus"), message_.gpus(), 1)) return;
  } else {
    const int listed = message_.devices_size();
    if (source_.given(at("gpus")) && message_.gpus() != listed) {
      source_.error(at("gpus"), fmt::format("\"gpus\" is {}, but {} devices are listed", message_.gpus(), listed),
                    "leave \"gpus\" out", {{at("devices"), "the devices are here"}});
    }
    job_.gpus = listed;
  }
  if (context_.cluster.has_value() && message_.devices_size() == 0 && job_.gpus > context_.cluster->device_count()) {
    source_.error(at("gpus"), fmt::format("job \"{}\" wants {} GPUs", job_.name, job_.gpus), "",
                  {cluster_note(context_)});
    return;
  }
  check_start_config();
}

void JobBuilder::build_redundancy() {
  const proto::Redundancy& given = message_.redundancy();
  const std::string path = at("redundancy");
  RedundancyPolicy& policy = job_.redundancy;
  if (source_.at_least(path + ".copies", given.copies(), 0)) policy.copies = given.copies();
  policy.other_host = given.where() == proto::Redundancy::OTHER_HOST;
  if (source_.given(path + ".every_steps") && source_.at_least(path + ".every_steps", given.every_steps(), 1)) {
    policy.every_steps = given.every_steps();
  }
  if (!context_.cluster.has_value() || policy.copies == 0 || source_.broken(path + ".where")) return;
  const auto hosts = static_cast<int>(context_.cluster->hosts.size());
  const int places = policy.other_host ? hosts : context_.cluster->device_count();
  if (policy.copies < places) return;
  const char* what = policy.other_host ? "hosts" : "devices";
  source_.error(path + ".copies",
                fmt::format("\"copies\" is {}: that takes {} {}, the cluster has {}", policy.copies,
                            int64_t{policy.copies} + 1, what, places),
                "each copy is kept apart from the original and the other copies", {cluster_note(context_)});
}

void JobBuilder::build_policies() {
  if (source_.at_least(at("steps"), message_.steps(), 0)) job_.steps = message_.steps();
  const proto::Checkpoint& checkpoint = message_.checkpoint();
  if (source_.at_least(at("checkpoint.every_steps"), checkpoint.every_steps(), 0)) {
    job_.checkpoint.every_steps = checkpoint.every_steps();
  }
  // The strategy checkpoint-restart has an error of its own.
  if (job_.checkpoint.every_steps > 0 && context_.cluster.has_value() &&
      context_.cluster->storage_read_bytes_per_s == 0 && context_.message.strategy() != "checkpoint-restart") {
    source_.error(
        at("checkpoint"), fmt::format("job \"{}\" writes checkpoints, and the cluster has no storage", job_.name),
        "add storage { read: \"10GB/s\" } to the cluster, or leave the checkpoints out", {cluster_note(context_)});
  }
  job_.checkpoint.host_memory_copy = checkpoint.host_memory_copy();
  if (checkpoint.has_before_change()) job_.checkpoint.before_change = checkpoint.before_change();
  if (checkpoint.host_memory_copy() && checkpoint.every_steps() == 0) {
    source_.error(at("checkpoint.host_memory_copy"), "a copy in host memory needs checkpoints: every_steps > 0");
  }
  if (message_.has_redundancy()) build_redundancy();
  if (message_.has_dataset()) {
    job_.dataset = build_dataset(message_.dataset(), at("dataset"), job_.training.global_batch, seed_, context_);
  }
}

JobSpec JobBuilder::build() {
  if (source_.is_name(at("name"), message_.name())) {
    job_.name = message_.name();
    if (job_.name.starts_with('.') || job_.name.find('/') != std::string::npos)
      source_.error(at("name"), fmt::format("a job cannot be called \"{}\"", job_.name),
                    "its checkpoints lie in a folder of this name: no \"/\", and no \".\" at the beginning");
  }
  build_model();
  if (model_ok_) job_.shape = step::shape_of(job_.model);
  const bool machines = context_.cluster.has_value() && !context_.cluster->hosts.empty();
  build_training(message_, path_, model_ok_, machines ? context_.cluster->hosts.front().gpu.name : "", job_, source_);
  job_.choose = build_choose(message_, path_, source_);
  build_configs();
  build_start();
  if (chooses()) {
    find_first_config();
  } else {
    give_devices();
  }
  build_policies();
  build_schedule(message_, path_, context_, job_);
  return std::move(job_);
}

// Names tell jobs apart in events and results.
void check_names(Context& context) {
  std::map<std::string, int> first_use;
  for (int j = 0; j < context.message.jobs_size(); ++j) {
    const std::string& name = context.message.jobs(j).name();
    const auto [first, fresh] = first_use.emplace(name, j);
    if (fresh || name.empty()) continue;
    context.source.error(fmt::format("jobs[{}].name", j), fmt::format("two jobs are called \"{}\"", name), "",
                         {{fmt::format("jobs[{}].name", first->second), "the first is here"}});
  }
}

// Jobs that list devices must not share any; all that start together must fit the cluster.
void check_sharing(Context& context, const Scenario& scenario) {
  std::map<DeviceId, std::string> owner;  // path of the entry
  int64_t wanted = 0;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    const JobSpec& job = scenario.jobs[j];
    std::set<DeviceId> own;
    for (size_t i = 0; i < job.devices.size(); ++i) {
      if (!own.insert(job.devices[i]).second) continue;
      const std::string path = fmt::format("jobs[{}].devices[{}]", j, i);
      const auto [first, fresh] = owner.emplace(job.devices[i], path);
      if (fresh) continue;
      context.source.error(path, fmt::format("device {} belongs to another job already", job.devices[i].value), "",
                           {{first->second, "it is given away here"}});
    }
    if (job.submit_s > 0 || context.source.given("policy")) continue;
    const int64_t before = wanted;
    wanted += job.gpus;
    const int available = context.cluster.has_value() ? context.cluster->device_count() : 0;
    if (!context.cluster.has_value() || job.gpus > available || wanted <= available || before > available) continue;
    context.source.error(fmt::format("jobs[{}].{}", j, job.devices.empty() ? "gpus" : "devices"),
                         fmt::format("the jobs up to this one want {} GPUs together", wanted), "",
                         {cluster_note(context)});
  }
}

}  // namespace

void build_jobs(Context& context, Scenario& scenario) {
  if (context.message.jobs_size() == 0) context.source.missing("jobs", "a scenario needs at least one job");
  for (int j = 0; j < context.message.jobs_size(); ++j) {
    JobBuilder builder(context, context.message.jobs(j), j, scenario.seed);
    scenario.jobs.push_back(builder.build());
    context.configs_ok.push_back(builder.configs_ok());
  }
  check_names(context);
  check_sharing(context, scenario);
}

}  // namespace scalai::scenario::internal
