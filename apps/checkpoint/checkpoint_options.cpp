#include "apps/checkpoint/checkpoint_options.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "ptc/base/status.h"
#include "ptc/model/catalogue.h"
#ifdef SCALAI_WITH_CURL
#include "vfs/remote/http_client.h"
#include "vfs/remote/remote_source.h"
#endif

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

namespace {

// Nothing for a local path.
absl::StatusOr<SourceOpener> opener_of(const std::string& path) {
  if (path.find("://") == std::string::npos) return SourceOpener();
#ifdef SCALAI_WITH_CURL
  const std::string shown = vfs::display_name(path);
  if (!vfs::is_remote(path)) return invalid(fmt::format("{}: not an http, https or s3 address", shown));
  if (shown != path)
    return invalid(
        fmt::format("{}: an address of a checkpoint has no user, query or fragment; s3:// takes credentials "
                    "from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                    shown));
  return vfs::make_opener();
#else
  return missing("this program was built without libcurl, which reads from servers");
#endif
}

}  // namespace

absl::StatusOr<checkpoint::OpenOptions> open_options_of(const Arguments& arguments, const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(SourceOpener opener, opener_of(path));
  checkpoint::OpenOptions options = {.names = arguments.text("names"),
                                     .from = arguments.text("from"),
                                     .config = arguments.text("config"),
                                     .model = arguments.text("model"),
                                     .families = arguments.text("families"),
                                     .opener = std::move(opener)};
  return options;
}

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // what cannot be opened says so
}

}  // namespace scalai::apps
