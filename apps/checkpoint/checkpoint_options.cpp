#include "apps/checkpoint/checkpoint_options.h"

#include <sys/resource.h>

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options() {
  return {{.name = "from", .value_name = "LAYOUT", .help = "Layout of rank files that do not say it, as in tp8,pp4."},
          {.name = "names",
           .type = ValueType::kChoice,
           .value_name = "NAMES",
           .help = "Whose names the tensors of such files have (rank files: megatron if not given).",
           .choices = {"hf", "megatron", "logical"}},
          {.name = "config", .value_name = "FILE", .help = "A config.json that says which model it is."},
          {.name = "model", .value_name = "NAME", .help = "The same by the name of a catalogue model."},
          {.name = "families",
           .value_name = "DIR",
           .help = "Folder of naming families (*.textproto) that add to the built-in ones or replace them."}};
}

checkpoint::OpenOptions open_options_of(const Arguments& arguments) {
  return {.names = arguments.text("names"),
          .from = arguments.text("from"),
          .config = arguments.text("config"),
          .model = arguments.text("model"),
          .families = arguments.text("families"),
          .opener = {}};
}

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // what cannot be opened says so
}

}  // namespace scalai::apps
