#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "apps/common/near_hosts.h"
#include "apps/common/output.h"
#include "apps/near/commands.h"
#include "apps/near/near_explain.h"
#include "apps/near/near_run.h"
#include "apps/near/near_source.h"
#include "near/annotation.h"
#include "near/answer.h"
#include "near/worker.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

constexpr int kUsage = 2;

// What commands may read of the environment and have to read alike on every host.
constexpr std::array<const char*, 18> kVariables = {
    "LANG",       "LANGUAGE",          "LC_ALL",         "LC_ADDRESS",   "LC_COLLATE",
    "LC_CTYPE",   "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",  "LC_NAME",
    "LC_NUMERIC", "LC_MONETARY",       "LC_PAPER",       "LC_TELEPHONE", "LC_TIME",
    "TZ",         "POSIXLY_CORRECT",   "_POSIX2_VERSION"};

std::vector<near::Variable> environment_here() {
  std::vector<near::Variable> variables;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    variables.push_back({.name = name, .value = value == nullptr ? "" : value, .set = value != nullptr});
  }
  return variables;
}

// Whether lines that are equal for sort and uniq have the same bytes, and their order is that of bytes.
bool is_byte_locale() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_COLLATE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    locale = value;
    break;
  }
  for (const char* one : {"", "C", "POSIX", "C.UTF-8", "C.utf8"})
    if (locale == one) return true;
  return false;
}

// One word is read as a shell would; several are words already.
absl::StatusOr<near::Pipeline> read_pipeline(const std::vector<std::string>& words,
                                             const std::vector<std::string>& names) {
  return words.size() == 1 ? near::parse_pipeline(words[0], names) : near::split_pipeline(words);
}

// Scripts are looked for where the caller is, and commands run in the folder of the source.
void make_absolute(near::Question& question) {
  for (size_t i = 0; i < question.uses.size(); ++i) {
    near::Use& use = question.uses[i];
    if (use.script.empty()) continue;
    use.script = absolute_path(use.script);
    question.pipeline[i].words[use.script_at] = use.script;
    if (use.script_at < use.other_words.size()) use.other_words[use.script_at] = use.script;
  }
}

int run_question(near::Question& question, const near::PlaceOptions& options) {
  absl::StatusOr<near::Answered> answered;
  {
    Progress line("near");
    question.progress = [&](size_t done, size_t parts) {
      line.update(static_cast<double>(done) / static_cast<double>(parts), fmt::format("{} of {} parts", done, parts));
    };
    answered = near::answer(question, options);
  }
  if (absl::IsFailedPrecondition(answered.status())) return 128 + SIGPIPE;  // as a command whose reader has gone
  if (!answered.ok()) return report_error(answered.status());
  for (const std::string& note : answered->notes) say("scalai near: note: {}\n", note);
  if (verbose()) say("scalai near: {} bytes came from other hosts\n", answered->moved_bytes);
  return answered->status;
}

int near_main(const Arguments& arguments) {
  std::vector<std::string> words = arguments.positional();
  std::string place = words[0];
  words.erase(words.begin());
  near::Annotations annotations = near::Annotations::built_in();
  // What is wrong with the words, before any host is asked: all of it at once.
  std::string problems;
  const auto add = [&](const absl::Status& status) {
    if (status.ok()) return;
    problems += (problems.empty() || problems.ends_with('\n') ? "" : "\n") + message_of(status);
  };
  const auto launch = read_launch_of_workers(arguments);
  add(launch.status());
  auto hosts = read_hosts(arguments, folder_of_source(place));
  add(hosts.status());
  add(read_pipeline(words, {}).status());
  if (arguments.count("jobs") > 1024) add(invalid("--jobs is at most 1024"));
  const bool of_run = is_run(folder_of_source(place));
  if (of_run && hosts.ok() && !hosts->empty()) add(invalid("a run is read on this machine; --host is for folders"));
  for (const char* option : {"job", "view"})
    if (!of_run && arguments.has(option))
      add(invalid(fmt::format("--{} is for the folder of a run that goes on", option)));
  if (!problems.empty()) return usage_error("near", problems);
  if (arguments.has("annotations")) {
    if (const absl::Status loaded = annotations.load(arguments.text("annotations")); !loaded.ok())
      return report_error(loaded);
  }
  const ScratchFolder scratch("scalai-near");
  if (scratch.path().empty())
    return report_error(missing("cannot make a temporary folder; TMPDIR names another place"));
  std::unique_ptr<RunSource> run;
  if (of_run) {
    const std::string view = arguments.has("view") ? arguments.text("view") : "logical";
    auto opened = RunSource::open(folder_of_source(place), arguments.text("job"), view, scratch.path());
    if (!opened.ok()) return report_error(opened.status());
    run = *std::move(opened);
    place = run->folder();
    if (verbose()) say("scalai near: reads {} of the run\n", run->step());
  }
  const auto request = read_source(place, *std::move(hosts));
  if (!request.ok()) return report_error(request.status());
  std::signal(SIGPIPE, SIG_IGN);  // of workers that are gone
  std::vector<std::unique_ptr<near::Session>> waiting;
  auto source = list_source(*request, *launch, static_cast<int>(arguments.count("jobs")), waiting);
  if (!source.ok()) return report_error(source.status());
  auto pipeline = read_pipeline(words, source->names());  // its patterns may be refused now
  if (!pipeline.ok()) return usage_error("near", message_of(pipeline.status()));
  near::Question question{.pipeline = *std::move(pipeline),
                          .uses = {},
                          .source = *std::move(source),
                          .launch = *launch,
                          .environment = environment_here(),
                          .here = request->is_here ? request->folder : "",
                          .scratch = scratch.path(),
                          .waiting = &waiting,
                          .progress = {}};
  for (size_t i = 0; i < question.pipeline.size(); ++i)
    question.uses.push_back(
        annotations.use_of(question.pipeline[i], {.first = i == 0, .byte_locale = is_byte_locale()}));
  make_absolute(question);
  for (const near::Host& host : question.source.hosts)
    if (host.here) question.here = host.folder;
  const near::PlaceOptions options{.part_bytes = std::max<int64_t>(1, arguments.bytes("part-size"))};
  if (!arguments.flag("explain")) return run_question(question, options);
  explain_near(question, near::place(question.uses, question.source, options), arguments.text("format"));
  return 0;
}

int near_worker_main(const Arguments&) {
  if (::isatty(STDIN_FILENO) != 0) {
    say("scalai near worker: error: it is started by scalai near, and reads its work from standard input\n");
    return kUsage;
  }
  near::serve(STDIN_FILENO, STDOUT_FILENO);
  return 0;
}

}  // namespace

Command near_command() {
  const std::vector<OptionSpec> own = {
      text_option("job", "NAME", "Of a run with several jobs, whose state it is."),
      text_option("view", "LAYOUT",
                  "Of a run: its files are those of this layout, as of a mount; logical if not given."),
      flag_option("explain", "Print where each command would run, and run nothing."),
      text_option("annotations", "DIR",
                  "Annotations of your own, *.textproto, before the built-in ones (docs/howto/near.md)."),
      count_option("jobs", "N", "Parts at a time on each host; 0: as many as it has processors.", "0"),
      bytes_option("part-size", "SIZE",
                   "Smaller files share a part; larger ones may be cut into parts that are not smaller.", "16MiB")};
  return {
      {.name = "near",
       .summary = "run a pipeline where its input lies",
       .usage = "scalai near SOURCE [OPTION…] -- 'COMMAND | COMMAND…'\nscalai near SOURCE [OPTION…] -- COMMAND WORD…",
       .description =
           R"(SOURCE is a folder (a checkpoint, a mount of scalai fs, …), the index of a dataset, or the folder
of a run that goes on, whose state of now it is; commands name its files relative to it. Commands that have an annotation run on the hosts that have the
files, each on its part, as far as that puts out the same; the others run here. Standard output
is, byte for byte, that of the same pipeline run by a POSIX sh in the folder, and comes when all parts
are whole. The status is that of the last command: 126 if it cannot be run, 127 if it is not there,
128 + N if signal N ended it. 2 to 5, with a message of scalai near, is its own.

One word is read as a shell would: words, quotes, | and patterns of file names, nothing else;
patterns fit files, in the C locale. Several words are taken as they are, and one that is | ends a command. No shell runs.)",
       .options = joined({host_options(), own, launch_options(), {format_option({"table", "json"})}}),
       .examples = {"scalai near out/ -- 'sha256sum *.safetensors'",
                    "scalai near out/ --explain -- 'sha256sum *.safetensors | sort'",
                    "scalai near /data/logs --host=n1 --host=n2 -- 'grep -h error *.log | sort | uniq -c'"},
       .min_arguments = 2,
       .max_arguments = -1},
      near_main};
}

Command near_worker_command() {
  return {{.name = "worker",
           .summary = "the worker of a host; scalai near starts it",
           .usage = "scalai-near worker",
           .description = "Reads work from standard input and answers on standard output until that is closed.",
           .options = {},
           .examples = {}},
          near_worker_main};
}

}  // namespace scalai::apps
