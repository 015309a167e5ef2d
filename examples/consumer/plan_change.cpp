// Plans a change of a GPT-3 XL job from 16 GPUs to 12 and prints what it moves.
#include <fmt/format.h>

#include "ptc/cluster/catalogue.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/planner.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

using namespace scalai;

int main() {
  cluster::Cluster cluster{.name = "four DGX A100"};
  for (int i = 0; i < 4; ++i) {
    cluster.hosts.push_back(cluster::find_host_kind("dgx-a100-80g")->host);
    cluster.hosts.back().first_device = 8 * i;
  }
  const auto collection = [&](const char* layout) {
    const collection::ParallelConfig config = collection::parse_layout(layout).value();
    std::vector<DeviceId> devices;
    for (int rank = 0; rank < config.world(); ++rank) devices.emplace_back(rank);
    return collection::megatron_collection(model::find_model("gpt3-xl").value(), {}, config, devices).value();
  };
  const collection::Collection from = collection("tp4,pp2,dp2"), to = collection("tp4,pp3");
  const absl::StatusOr<plan::Plan> plan =
      plan::make_plan({.from = from, .to = to, .cluster = cluster, .residency = {}, .options = {}});
  if (!plan.ok()) return fmt::print(stderr, "{}\n", plan.status().ToString()), 1;
  fmt::print("plan {}: {} B kept, {} B inside hosts, {} B between hosts (at least {} B), {:.3f} s\n", plan->digest(),
             plan->bytes().kept, plan->bytes().same_host, plan->bytes().cross_host, plan->lower_bound().cross_host,
             plan::estimate_seconds(*plan, cluster));
}
