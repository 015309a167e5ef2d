#include "apps/schema/templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/software.h"

namespace scalai::apps {
namespace {

// What a template is filled with.
struct Fill {
  std::string model;
  int gpus = 0, hosts = 0;
  cluster::Host host;      // of the catalogue, or made up around a GPU kind
  std::string host_group;  // hosts { … }
};

std::string storage_text(const Fill& fill) {
  // A tenth of what the NICs of all hosts carry together, at least 10 GB/s.
  const double nics_bytes_per_s = fill.hosts * fill.host.nics * fill.host.nic_bytes_per_s;
  const int rate = std::max(10, static_cast<int>(nics_bytes_per_s / 10 / 1e9));
  return fmt::format(
      R"(storage {{ read: "{0}GB/s" write: "{0}GB/s" }}   # shared by all; leave it out if there is none)", rate);
}

std::string cluster_text(const Fill& fill, bool storage = true) {
  return fmt::format(R"(cluster {{
  {}
  # fabric {{ kind: FAT_TREE leaf_hosts: 4 group_hosts: 16 oversubscription: 2 }}   # default: one non-blocking switch
{}}}
)",
                     fill.host_group, storage ? "  " + storage_text(fill) + "\n" : "");
}

// A batch that many numbers of replicas divide.
int batch_of(int gpus) { return std::max(240, (gpus + 15) / 16 * 120); }

std::string job_text(const Fill& fill, const std::string& more) {
  return fmt::format(R"(jobs {{
  name: "job"
  model: "{}"              # `scalai models`; or model_config: "config.json" beside this file
  precision: "bf16"
  global_batch: {}              # samples a step, of the model's own sequence
  gpus: {}
  # software: "torchtitan"      # the program that trains; else {}, as such GPUs run today
  parallel: choose              # the best layout at each event; or list them: configs {{ layout: "tp8,dp2" }}
{}}}
)",
                     fill.model, batch_of(fill.gpus), fill.gpus, step::default_software(fill.host.gpu.name).name(),
                     more);
}

std::string head(const std::string& name, const std::string& question, const std::string& commands,
                 const std::string& until) {
  return fmt::format(R"(# {}
{}# What a field means: `scalai explain jobs.checkpoint`; all fields: `scalai schema`; words: docs/glossary.md.
schema_version: 1
name: "{}"
description: "{}"
seed: 1
{})",
                     question, commands, name, question, until.empty() ? "" : fmt::format("until: \"{}\"\n", until));
}

std::string elastic(const Fill& fill) {
  const int less = std::max(1, fill.gpus / 2);
  return head("elastic", "GPUs are taken from my job and given back: what does each change cost?",
              "#   scalai sim FILE --strategy=reshard,tenplex,dp-only\n", "12h") +
         cluster_text(fill) + "strategy: \"reshard\"               # in place; others: `scalai explain strategy`\n" +
         job_text(fill, "  checkpoint { every_steps: 200 }   # to storage\n") +
         fmt::format(R"(events {{ at: "3h" resize {{ job: "job" gpus: {} }} }}
events {{ at: "8h" resize {{ job: "job" gpus: {} }} }}
)",
                     less, fill.gpus);
}

std::string failure(const Fill& fill) {
  return head("failure", "A host dies and is back three hours later: what is lost, and how long do we stand still?",
              "#   scalai sim FILE --strategy=reshard,checkpoint-restart\n", "8h") +
         cluster_text(fill) + "strategy: \"reshard\"\n" + job_text(fill, R"(  checkpoint { every_steps: 50 }
  # Survive host losses without going back to a checkpoint: state that lies on one host only is copied to another one.
  # redundancy { copies: 1 where: OTHER_HOST every_steps: 20 }
)") +
         fmt::format(
             R"(events {{ at: "2h" fail {{ hosts: [{0}] }} }}     # hosts count from 0; racks, devices, links and switches fail, too
events {{ at: "5h" repair {{ hosts: [{0}] }} }}
)",
             fill.hosts - 1);
}

std::string spot(const Fill& fill) {
  return head("spot",
              "My job runs on spot hosts that come and go: how much of its time is training, and what does it cost?",
              "#   scalai sim FILE --strategy=reshard,checkpoint-restart\n", "2d") +
         cluster_text(fill) +
         R"(strategy: "reshard"
# Made up here: each host is taken every 12 hours on average, for an hour. A trace of yours: file: "trace.csv" and its
# format, see `scalai import --list`.
availability { generator: "poisson" set: "host-mtbf=12h" set: "repair=1h" set: "span=2d" }
)" + job_text(fill, R"(  checkpoint { every_steps: 50 }
)" + std::string(fill.hosts > 1 ? "  redundancy { copies: 1 where: OTHER_HOST every_steps: 20 }\n" : ""));
}

std::string many_jobs(const Fill& fill) {
  return head("many-jobs",
              "Many jobs share my cluster under a policy: how long do they wait, and how long do they take?",
              "#   scalai sim FILE --set=policy.name=tiresias      (all policies: `scalai policies`)\n"
              "#   scalai sweep FILE --set=policy.name=fifo,srtf,afs-l --metrics=avg_jct_s --out=policies.csv\n"
              "#   scalai breakeven FILE --policies=afs-l,srtf --range=0s,4h    (by the cost of a change)\n",
              "") +
         cluster_text(fill, /*storage=*/false) +
         fmt::format(
             R"(# Made up here, with the shares of a published trace. A trace of yours: file: "jobs.csv" and its format.
workload {{ generator: "philly-like" set: "jobs=500" set: "interval={}s" }}
# With other numbers of GPUs than a job asks for, a quarter to four times of them, speed goes with the square root.
throughputs {{ source: "duration" beyond: "sqrt" set: "elastic-min=0.25" set: "elastic-max=4" }}
policy {{ name: "srtf" }}
changes {{ seconds: "30s" }}                          # what each change of GPUs costs a job
)",
             std::max(1, 3000 / fill.gpus));
}

std::string training(const Fill& fill) {
  const int less = std::max(1, fill.gpus / 2), both = std::lcm(fill.gpus, less);
  const int batch = (47 + both) / both * both;  // replicas of both sizes divide it
  return head("training", "Does a change of GPUs work with real bytes, and how long does it take on this machine?",
              "#   scalai exec FILE --scale-model=1/4 --out=out/training     (moves and checks real state in host "
              "memory)\n"
              "#   scalai sim FILE                                           (what the model of this cluster says)\n"
              "# A program of yours trains: `scalai launch --layout=tp1,dp4 -- python train.py`, "
              "docs/howto/training.md.\n",
              "10min") +
         cluster_text(fill) + "strategy: \"reshard\"\n" +
         fmt::format(R"(jobs {{
  name: "job"
  model: "{}"
  global_batch: {}
  gpus: {}
  configs {{ layout: "dp{}" step_time: "1s" }}
  configs {{ layout: "dp{}" step_time: "2s" }}
}}
events {{ at_step {{ job: "job" step: 60 }} resize {{ job: "job" gpus: {} }} }}
events {{ at_step {{ job: "job" step: 120 }} resize {{ job: "job" gpus: {} }} }}
)",
                     fill.model, batch, fill.gpus, fill.gpus, less, less, fill.gpus);
}

struct Known {
  Template what;
  std::string model;
  int gpus;
  std::string gpu;
  int fewest;
  std::string (*text)(const Fill&);
};

const std::vector<Known>& known() {
  static const std::vector<Known> kKnown = {
      {{"elastic", "GPUs are taken and given back: what does each change cost?"},
       "llama3-8b",
       32,
       "dgx-h100",
       2,
       elastic},
      {{"failure", "a host dies and returns: what is lost?"}, "llama3-8b", 32, "dgx-h100", 2, failure},
      {{"spot", "hosts come and go: how much training, for what money?"}, "llama3-8b", 64, "p4de.24xlarge", 2, spot},
      {{"many-jobs", "many jobs under a policy: waiting and completion times"}, "", 64, "dgx-a100-80g", 1, many_jobs},
      {{"training", "a change with real bytes on this machine"}, "gpt2", 4, "t4-16g", 2, training}};
  return kKnown;
}

// Hosts of the catalogue that have GPUs of this kind and NICs, else plain ones of eight.
absl::Status find_host(const std::string& name, int gpus, Fill& fill) {
  const cluster::HostKind* kind = cluster::find_host_kind(name);
  const cluster::GpuKind* gpu = cluster::find_gpu_kind(name);
  if (kind == nullptr && gpu == nullptr) {
    return invalid(fmt::format("there is no host or GPU \"{}\"; {}", name,
                               cluster::hint_for_unknown(name, cluster::machine_names())));
  }
  for (const std::string& other : cluster::host_kind_names()) {
    const cluster::HostKind* candidate = cluster::find_host_kind(other);
    if (kind == nullptr && candidate->host.gpu.name == name && candidate->host.nic_bytes_per_s > 0) kind = candidate;
  }
  const bool whole = kind != nullptr && kind->host.nic_bytes_per_s > 0 && gpus % kind->host.gpus == 0;
  if (whole) {
    fill.host = kind->host;
    fill.hosts = gpus / fill.host.gpus;
    fill.host_group =
        fmt::format(R"(hosts {{ count: {} kind: "{}" }}   # `scalai machines` lists hosts and cloud instances)",
                    fill.hosts, kind->name);
    return absl::OkStatus();
  }
  // Equal hosts of at most eight GPUs.
  int each = std::min(gpus, 8);
  while (gpus % each != 0) --each;
  if (each == gpus && gpus > 1 && gpus % 2 == 0) each = gpus / 2;  // two hosts, so that one may go
  const double nic = kind != nullptr && kind->host.nic_bytes_per_s > 0 ? kind->host.nic_bytes_per_s * 8 / 1e9 : 100;
  fill.host = {.gpus = each, .nics = 1, .nic_bytes_per_s = nic * 1e9 / 8};
  fill.hosts = gpus / each;
  fill.host_group = fmt::format(
      R"(hosts {{ count: {} gpus: {} gpu: "{}" nic: "{:g}Gbps" }}   # `scalai machines` lists GPUs, hosts and cloud instances)",
      fill.hosts, each, gpu != nullptr ? gpu->name : kind->host.gpu.name, nic);
  return absl::OkStatus();
}

}  // namespace

const std::vector<Template>& templates() {
  static const std::vector<Template> kTemplates = [] {
    std::vector<Template> all;
    for (const Known& one : known()) all.push_back(one.what);
    return all;
  }();
  return kTemplates;
}

absl::StatusOr<std::string> scenario_text(const TemplateRequest& request) {
  const auto found =
      std::find_if(known().begin(), known().end(), [&](const Known& one) { return one.what.name == request.name; });
  if (found == known().end()) {
    std::vector<std::string> names;
    for (const Known& one : known()) names.push_back(one.what.name);
    return invalid(fmt::format("there is no template \"{}\"; there are {}", request.name, fmt::join(names, ", ")));
  }
  Fill fill{.model = request.model.empty() ? found->model : request.model,
            .gpus = request.gpus > 0 ? request.gpus : found->gpus};
  if (fill.gpus < found->fewest)
    return invalid(
        fmt::format("template {} needs at least {} GPUs, found {}", found->what.name, found->fewest, fill.gpus));
  SCALAI_RETURN_IF_ERROR(find_host(request.gpu.empty() ? found->gpu : request.gpu, fill.gpus, fill));
  return found->text(fill);
}

}  // namespace scalai::apps
