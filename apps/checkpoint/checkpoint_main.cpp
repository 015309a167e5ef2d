#include "apps/checkpoint/commands.h"
#include "apps/checkpoint/stats.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-checkpoint",
      .summary = "Shows, verifies, measures and reshards checkpoints.",
      .commands = {scalai::apps::checkpoint_command(),
                   scalai::apps::stats_command(),
                   {scalai::apps::stats_parts_spec(), nullptr},
                   scalai::apps::reshard_command()},
      .external = {},
      .former = {{"reshard", {"checkpoint", "reshard"}}},
      .typed = "scalai",
  };
  return scalai::run_program(program, argc, argv);
}
