#include "apps/commands.h"
#include "apps/parallelize/host_traffic.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai",
      .summary = "Plans, simulates and executes reconfigurations of deep-learning jobs.",
      .commands = {scalai::apps::validate_command(), scalai::apps::models_command(), scalai::apps::machines_command(),
                   scalai::apps::plan_command(), scalai::apps::parallelize_command(), scalai::apps::compare_command(),
                   scalai::apps::report_command(), scalai::apps::replay_command(), scalai::apps::init_command(),
                   scalai::apps::explain_command(), scalai::apps::schema_command()},
      .external = {{"accuracy", "how far each kind of answer may be trusted: published numbers beside ours"},
                   {"breakeven", "the restart cost at which two policies change places"},
                   {"checkpoint", "show, verify, measure and reshard checkpoints"},
                   {"data", "index a dataset, show which rank reads what"},
                   {"doctor", "say what this machine has for runs on GPUs and between machines"},
                   {"exec", "run a scenario for real, on worker processes"},
                   {"fs", "show checkpoints in any layout, and datasets by rank, as files"},
                   {"import", "read public traces of jobs, spot instances and prices; make some up"},
                   {"launch", "train a program whose GPUs change, without a scenario"},
                   {"near", "run a pipeline where its input lies"},
                   {"policies", "list scheduler policies and recovery designs with their parameters"},
                   {"sim", "run a scenario in virtual time on a modelled cluster"},
                   {"sync", "push the weights of a run that trains to receivers in another layout"},
                   {"sweep", "run a scenario with all combinations of some values, one row each"}},
      .external_of = {{"accuracy", "accuracy"},
                      {"breakeven", "jobs"},
                      {"checkpoint", "checkpoint"},
                      {"doctor", "exec"},
                      {"import", "jobs"},
                      {"launch", "exec"},
                      {"near", "near"},
                      {"policies", "jobs"},
                      {"sync", "exec"},
                      {"sweep", "jobs"}},
      .former = {{"reshard", {"checkpoint", "reshard"}},
                 {"validate-model", {"accuracy", "model"}},
                 {"validate-policies", {"accuracy", "policies"}}},
  };
  return scalai::run_program(program, argc, argv);
}
