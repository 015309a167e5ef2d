#include "apps/common/host_options.h"

namespace scalai::apps {

constexpr const char* kNear = "scalai-near";

std::vector<OptionSpec> host_options() {
  return {answered_by(
              kNear,
              texts_option(
                  "host", "NAME[=PATH]",
                  "A host that has files of the source, all or some, and its folder there if that is another one. The "
                  "name `here` is this machine. Without hosts all is read here.")),
          answered_by(kNear, text_option("hosts", "FILE", "A file with such hosts, NAME or NAME PATH in a line."))};
}

std::vector<OptionSpec> launch_options() {
  return {text_option("launcher", "COMMAND",
                      "Starts a worker on host {}; without it ssh -oBatchMode=yes {}, or srun in a Slurm job."),
          text_option("program", "PATH", "scalai-near on the hosts; without it the path that it has here."),
          seconds_option("timeout", "TIME", "A host that says nothing for so long is given up.", "60s")};
}

}  // namespace scalai::apps
