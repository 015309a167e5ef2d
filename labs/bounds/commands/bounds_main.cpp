#include "labs/bounds/commands/offload_output.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-bounds",
      .summary = "Bounds what a training step moves between GPUs and their hosts.",
      .commands = {scalai::apps::parallelize_command(scalai::apps::find_host_traffic)},
      .external = {},
      .typed = "scalai",
  };
  return scalai::run_program(program, argc, argv);
}
