#include <memory>

#include "apps/checkpoint/commands.h"
#include "apps/checkpoint/stats.h"
#include "apps/commands.h"
#include "apps/data/data_command.h"
#include "apps/jobs/commands.h"
#include "apps/parallelize/host_traffic.h"
#include "apps/sim/sim_command.h"

namespace scalai::apps {
namespace {

std::shared_ptr<const Part> checkpoint_part() {
  const Program program{
      .name = "scalai-checkpoint",
      .summary = "Shows, verifies, measures and reshards checkpoints.",
      .commands = {checkpoint_command(), stats_command(), {stats_parts_spec(), nullptr}, reshard_command()},
      .external = {},
      .former = {{"reshard", {"checkpoint", "reshard"}}},
      .typed = "scalai"};
  return std::make_shared<const Part>(Part{"show, verify, measure and reshard checkpoints", program});
}

std::shared_ptr<const Part> data_part() {
  const Program program{.name = "scalai-data",
                        .summary = "Indexes a dataset, and shows which data-parallel rank reads what.",
                        .commands = {data_index_command(), data_show_command()},
                        .external = {}};
  return std::make_shared<const Part>(Part{"index a dataset, show which rank reads what", program});
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai",
      .summary = "Plans, simulates and executes reconfigurations of deep-learning jobs.",
      .commands = {scalai::apps::validate_command(), scalai::apps::models_command(), scalai::apps::machines_command(),
                   scalai::apps::plan_command(), scalai::apps::parallelize_command(), scalai::apps::sim_command(),
                   scalai::apps::compare_command(), scalai::apps::report_command(), scalai::apps::replay_command(),
                   scalai::apps::policies_command(), scalai::apps::import_command(), scalai::apps::sweep_command(),
                   scalai::apps::breakeven_command(), scalai::apps::init_command(), scalai::apps::explain_command(),
                   scalai::apps::schema_command()},
      .external = {{"accuracy", "how far each kind of answer may be trusted: published numbers beside ours"},
                   {"doctor", "say what this machine has for runs on GPUs and between machines"},
                   {"exec", "run a scenario for real, on worker processes"},
                   {"fs", "show checkpoints in any layout, and datasets by rank, as files"},
                   {"launch", "train a program whose GPUs change, without a scenario"},
                   {"near", "run a pipeline where its input lies"},
                   {"sync", "push the weights of a run that trains to receivers in another layout"}},
      .parts = {scalai::apps::checkpoint_part(), scalai::apps::data_part()},
      .external_of =
          {{"accuracy", "accuracy"}, {"doctor", "exec"}, {"launch", "exec"}, {"near", "near"}, {"sync", "exec"}},
      .former = {{"reshard", {"checkpoint", "reshard"}},
                 {"validate-model", {"accuracy", "model"}},
                 {"validate-policies", {"accuracy", "policies"}}},
  };
  return scalai::run_program(program, argc, argv);
}
