#include "apps/common/dataset_state.h"
#include "apps/fs/fs_request.h"
#include "ptc/store/naming/family.h"

namespace scalai::apps {
namespace {

std::vector<OptionSpec> checkpoint_part() {
  return {
      text_option("checkpoint", "SRC",
                  "Checkpoint to show under views/LAYOUT: a folder or a safetensors file, or the address of one "
                  "(https://, s3://), as `scalai checkpoint reshard` takes it."),
      text_option("families", "DIR", "Folder of naming families that add to the built-in ones or replace them."),
      text_option("config", "FILE", "config.json of a checkpoint that has none."),
      suggesting(text_option("model", "NAME", "Catalogue model, in place of a config.json."), store::model_names()),
      text_option("from", "LAYOUT", "Layout of rank files that do not say it, as in tp8,pp4."),
      list_option("drop", "NAMES", "As of `scalai checkpoint show`: what may be left out, and is refused otherwise."),
      choice_option("names", "WHOSE", "Whose names the tensors of such files have.", {"hf", "megatron", "logical"}),
      flag_option(
          "trust-source",
          "Also show files of a server that tells neither ETag nor Last-Modified, of which a change before they "
          "are first read would not be noticed; also of --dataset.")};
}

std::vector<OptionSpec> dataset_part() {
  return {
      list_option(
          "dataset", "INDEX,…",
          "Indexes made by `scalai data index`, to show under dataset/; several lie in folders named after them."),
      flag_option(
          "allow-outside",
          "Show data outside of an index's folder and on servers, too: the index may name any file that you may "
          "read, so it must be one that you trust."),
      count_option("global-batch", "N", "Samples of a step over all ranks; needed with --dataset, or --state."),
      dataset_state_option(),
      count_option("sequence", "N", "A sample is a packed window of N + 1 tokens (if not given: a document)."),
      count_option("seed", "N", "Of the order in which a pass reads the samples.", "0"),
      flag_option("no-shuffle", "Read the samples in the order of the index."),
      flag_option("drop-last", "Leave out the short batch at the end of a pass."),
      count_option("dp", "N",
                   "Point dataset/current to this data-parallel degree (if not given: `scalai fs repartition` does)."),
      count_option("step", "S", "And to this step (0 if not given, or the next of --state)."),
      text_option("cache-dir", "DIR", "Folder for blocks of data that lie on a server."),
      bytes_option("cache-size", "SIZE", "Most bytes in that folder (10 GiB if not given).")};
}

std::vector<OptionSpec> live_part() {
  return {
      text_option("run", "DIR",
                  "The --out folder of a run that goes on: its jobs, step by step, under jobs/, read from the "
                  "memories of its workers."),
      flag_option("optimizer", "Of these show masters and moments, too, not parameters only."),
      choice_option("consistency", "WHAT",
                    "snapshot (if not given): a step that is read is copied before training rewrites it; fail: it is "
                    "not, and reads of it are then an error (ESTALE).",
                    {"snapshot", "fail"}),
      count_option(
          "kept-step", "NUMBER",
          "Only a step that another reader keeps, by the number that readers know it by: `scalai near` on other "
          "hosts."),
      seconds_option("keep", "TIME", "How long a step stays after its last use, if no file of it is open.", "30s"),
      bytes_option("keep-size", "SIZE",
                   "Most bytes in memory of each step that was fetched from other machines, for reading it again and "
                   "for readers on further ones.",
                   "256MiB"),
      seconds_option("refresh", "TIME", "How long jobs/NAME/step-current stays where it led.", "1s")};
}

std::vector<OptionSpec> server_part() {
  return {flag_option("daemonize", "Go into the background once the mount answers; needs --log."),
          text_option("log", "FILE", "File for messages, in place of stderr; with --daemonize it is needed."),
          flag_option("until-input-ends",
                      "End when standard input does: whoever started it is gone then, whatever ended that."),
          flag_option("allow-other", "Let other users read, too (not root: needs user_allow_other in /etc/fuse.conf)."),
          count_option("threads", "N", "Threads that answer requests (if not given: twice the cores, from 4 to 32)."),
          choice_option(
              "reads", "PATH",
              "How files are read: past the kernel's page cache, which is faster for readers, through it, or auto: "
              "past it where such files can still be mapped (Linux 6.6).",
              {"auto", "direct", "cached"}, "auto")};
}

}  // namespace

std::vector<OptionSpec> fs_mount_options() {
  return joined({checkpoint_part(), dataset_part(), live_part(), server_part()});
}

}  // namespace scalai::apps
