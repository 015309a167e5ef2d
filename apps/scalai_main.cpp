#include "apps/commands.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai",
      .summary = "Plans, simulates and executes reconfigurations of deep-learning jobs.",
      .commands = {scalai::apps::validate_command(), scalai::apps::models_command(), scalai::apps::plan_command(),
                   scalai::apps::compare_command(), scalai::apps::replay_command()},
      .external = {{"exec", "run a scenario for real, on worker processes"},
                   {"sim", "run a scenario in virtual time on a modelled cluster"}},
  };
  return scalai::run_program(program, argc, argv);
}
