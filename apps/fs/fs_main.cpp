#include "apps/fs/fs_commands.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-fs",
      .summary = "Shows checkpoints in any layout, and datasets by rank, as files.",
      .commands = {scalai::apps::fs_mount_command(), scalai::apps::fs_unmount_command(),
                   scalai::apps::fs_repartition_command(), scalai::apps::fs_status_command()},
  };
  return scalai::run_program(program, argc, argv);
}
