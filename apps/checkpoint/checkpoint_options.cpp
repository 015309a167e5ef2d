#include "apps/checkpoint/checkpoint_options.h"

#include <sys/resource.h>

#include "ptc/model/catalogue.h"

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options() {
  return {
      text_option("from", "LAYOUT", "Layout of rank files that do not say it, as in tp8,pp4."),
      choice_option("names", "NAMES", "Whose names the tensors of such files have (rank files: megatron if not given).",
                    {"hf", "megatron", "logical"}),
      text_option("config", "FILE", "A config.json that says which model it is."),
      suggesting(text_option("model", "NAME", "The same by the name of a catalogue model."), model::catalogue_names()),
      text_option("families", "DIR",
                  "Folder of naming families (*.textproto) that add to the built-in ones or replace them.")};
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
