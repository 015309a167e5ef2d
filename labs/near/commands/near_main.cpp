#include "labs/near/commands/commands.h"
#include "labs/near/commands/stats_parts.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-near",
      .summary = "Runs pipelines where their input lies.",
      .commands = {scalai::apps::near_command(), scalai::apps::near_worker_command(),
                   scalai::apps::near_stats_command(), scalai::apps::stats_parts_command()},
      .external = {},
      .typed = "scalai",
  };
  return scalai::run_program(program, argc, argv);
}
