#include <sys/stat.h>

#include <cstring>
#include <map>
#include <utility>

#include "apps/doctor/doctor_command.h"
#include "apps/exec/exec_commands.h"

// `scalai exec SCENARIO` is the command itself; a first word of these is another one.
int main(int argc, char** argv) {
  using namespace scalai::apps;
  ::umask(::umask(0) | S_IWGRP | S_IWOTH);  // checkpoints and logs of a run decide what the next controller does
  const std::map<std::string, scalai::Command (*)()> others = {
      {"launch", exec_launch_command}, {"worker", exec_worker_command}, {"ctl", exec_ctl_command},
      {"sync", exec_sync_command},     {"bench", exec_bench_command},   {"calibrate", exec_calibrate_command},
      {"doctor", exec_doctor_command}};
  if (argc > 1 && std::strcmp(argv[1], "checkpoint") == 0)  // scalai hands over what needs runs or GPUs
    return scalai::run_program({.name = "scalai-exec",
                                .summary = "Measures runs, and reshards checkpoints on GPUs.",
                                .commands = exec_checkpoint_commands(),
                                .external = {},
                                .typed = "scalai"},
                               argc, argv);
  const bool about = argc > 2 && (std::strcmp(argv[1], "man") == 0 || std::strcmp(argv[1], "complete") == 0);
  // The last word of `complete` is not whole yet.
  if (about && others.contains(argv[2]) && (argc > 3 || argv[1][0] == 'm')) std::swap(argv[1], argv[2]);
  const auto other = argc > 1 ? others.find(argv[1]) : others.end();
  const bool is_other = other != others.end();
  const scalai::Program program{.name = is_other ? "scalai-exec " + other->first : "scalai-exec",
                                .summary = "Runs a scenario on worker processes.",
                                .commands = {is_other ? other->second() : exec_run_command()},
                                .single = true};
  return scalai::run_program(program, argc - (is_other ? 1 : 0), argv + (is_other ? 1 : 0));
}
