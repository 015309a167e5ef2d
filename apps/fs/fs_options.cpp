#include "apps/fs/fs_request.h"

namespace scalai::apps {
namespace {

std::vector<OptionSpec> checkpoint_part() {
  return {
      {.name = "checkpoint",
       .value_name = "SRC",
       .help = "Checkpoint to show under views/LAYOUT: a folder or a safetensors file, as `scalai reshard` takes it."},
      {.name = "families",
       .value_name = "DIR",
       .help = "Folder of naming families that add to the built-in ones or replace them."},
      {.name = "config", .value_name = "FILE", .help = "config.json of a checkpoint that has none."},
      {.name = "model", .value_name = "NAME", .help = "Catalogue model, in place of a config.json."},
      {.name = "from", .value_name = "LAYOUT", .help = "Layout of rank files that do not say it, as in tp8,pp4."},
      {.name = "names",
       .type = ValueType::kChoice,
       .value_name = "WHOSE",
       .help = "Whose names the tensors of such files have.",
       .choices = {"hf", "megatron", "logical"}}};
}

std::vector<OptionSpec> dataset_part() {
  return {
      {.name = "dataset",
       .type = ValueType::kList,
       .value_name = "INDEX,…",
       .help = "Indexes made by `scalai data index`, to show under dataset/; several lie in folders named after them."},
      {.name = "global-batch",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "Samples of a step over all ranks; needed with --dataset."},
      {.name = "sequence",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "A sample is a packed window of N + 1 tokens (if not given: a document)."},
      {.name = "seed",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "Of the order in which a pass reads the samples.",
       .default_value = "0"},
      {.name = "no-shuffle", .type = ValueType::kFlag, .help = "Read the samples in the order of the index."},
      {.name = "drop-last", .type = ValueType::kFlag, .help = "Leave out the short batch at the end of a pass."},
      {.name = "dp",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "Point dataset/current to this data-parallel degree (if not given: `scalai fs repartition` does)."},
      {.name = "step", .type = ValueType::kCount, .value_name = "S", .help = "And to this step (0 if not given)."},
      {.name = "cache-dir", .value_name = "DIR", .help = "Folder for blocks of data that lie on a server."},
      {.name = "cache-size",
       .type = ValueType::kBytes,
       .value_name = "SIZE",
       .help = "Most bytes in that folder (10 GiB if not given)."}};
}

std::vector<OptionSpec> server_part() {
  return {
      {.name = "daemonize",
       .type = ValueType::kFlag,
       .help = "Go into the background once the mount answers; needs --log."},
      {.name = "log",
       .value_name = "FILE",
       .help = "File for messages, in place of stderr; with --daemonize it is needed."},
      {.name = "allow-other",
       .type = ValueType::kFlag,
       .help = "Let other users read, too (not root: needs user_allow_other in /etc/fuse.conf)."},
      {.name = "threads",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "Threads that answer requests (if not given: twice the cores, from 4 to 32)."},
      {.name = "reads",
       .type = ValueType::kChoice,
       .value_name = "PATH",
       .help = "How files are read: past the kernel's page cache, which is faster for readers, through it, or auto: "
               "past it where such files can still be mapped (Linux 6.6).",
       .default_value = "auto",
       .choices = {"auto", "direct", "cached"}}};
}

}  // namespace

std::vector<OptionSpec> fs_mount_options() {
  std::vector<OptionSpec> options;
  for (const auto& part : {checkpoint_part(), dataset_part(), server_part()})
    options.insert(options.end(), part.begin(), part.end());
  return options;
}

}  // namespace scalai::apps
