#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "apps/common/host_options.h"
#include "apps/common/output.h"
#include "apps/common/run_place.h"
#include "labs/near/annotation.h"
#include "labs/near/answer.h"
#include "labs/near/commands/commands.h"
#include "labs/near/commands/near_explain.h"
#include "labs/near/commands/near_held.h"
#include "labs/near/commands/near_hosts.h"
#include "labs/near/commands/near_run.h"
#include "labs/near/commands/near_source.h"
#include "labs/near/supervise.h"
#include "labs/near/worker.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

constexpr int kUsage = 2;
constexpr int kRunJobs = 4;  // parts of a run at a time on a host, each of which mounts it

// What commands may read of the environment and have to read alike on every host.
constexpr std::array<const char*, 18> kVariables = {
    "LANG",       "LANGUAGE",          "LC_ALL",         "LC_ADDRESS",   "LC_COLLATE",
    "LC_CTYPE",   "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",  "LC_NAME",
    "LC_NUMERIC", "LC_MONETARY",       "LC_PAPER",       "LC_TELEPHONE", "LC_TIME",
    "TZ",         "POSIXLY_CORRECT",   "_POSIX2_VERSION"};

// Programs take the C locale where this machine has not the one that variables name.
bool has_locale() {
  const bool known = std::setlocale(LC_ALL, "") != nullptr;
  std::setlocale(LC_ALL, "C");
  return known;
}

// What commands on other hosts are to find, so that they do what they would do here.
std::vector<near::Variable> environment_here() {
  std::vector<near::Variable> variables;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    variables.push_back({.name = name, .value = value == nullptr ? "" : value, .set = value != nullptr});
    if (name == std::string_view("LC_ALL") && !has_locale()) variables.back() = {.name = name, .value = "C"};
  }
  return variables;
}

// Whether lines that are equal for sort and uniq have the same bytes, and their order is that of bytes.
bool is_byte_locale() {
  if (!has_locale()) return true;
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

// What a command line says, apart from options.
struct Words {
  std::string place;
  std::vector<std::string> pipeline;
  near::Launch launch;
  std::vector<near::Host> hosts;
};

// Work with a folder under TMPDIR ("": none can be made), which goes however the work ends.
int in_scratch(const std::function<int(const std::string&)>& work) {
  near::WorkEnd end;
  {
    const ScratchFolder scratch("scalai-near");
    end = near::supervise([&] { return work(scratch.path()); });
  }
  return near::end_as(end);
}

// One word is read as a shell would; several are words already.
absl::StatusOr<near::Pipeline> read_pipeline(const std::vector<std::string>& words,
                                             const std::vector<std::string>& names) {
  return words.size() == 1 ? near::parse_pipeline(words[0], names) : near::split_pipeline(words);
}

// As sh in the folder of the source finds a script; where that has none, it is one of the caller's folder.
std::string find_script(const near::Question& question, const std::string& name) {
  std::error_code ignored;
  const std::string in_source = question.here + "/" + name;
  if (!name.starts_with("/") && !question.here.empty() && std::filesystem::is_regular_file(in_source, ignored))
    return in_source;
  return question.source.find(name) != nullptr ? "" : absolute_path(name);
}

// InvalidArgument: scripts that declare themselves wrongly, all of them.
absl::Status annotate(near::Question& question, const near::Annotations& annotations) {
  std::string wrong;
  for (size_t i = 0; i < question.pipeline.size(); ++i) {
    question.uses.push_back(annotations.use_of(
        question.pipeline[i], {.first = i == 0, .byte_locale = is_byte_locale(), .find_script = [&](const auto& name) {
                                 return find_script(question, name);
                               }}));
    near::Use& use = question.uses[i];
    if (!use.wrong.empty()) wrong += (wrong.empty() || wrong.ends_with('\n') ? "" : "\n") + use.wrong;
    if (use.script.empty()) continue;
    question.pipeline[i].words[use.script_at] = use.script;
    if (use.script_at < use.other_words.size()) use.other_words[use.script_at] = use.script;
  }
  return wrong.empty() ? absl::OkStatus() : invalid(wrong);
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

// Where the files of a run are, which workers' hosts mount for themselves; nothing of it for other sources.
struct Run {
  std::unique_ptr<HeldStep> step;  // what they all read; null: it is read here alone
  HeldBytes held;
  std::unique_ptr<RunSource> files;
};

absl::StatusOr<Run> open_run(const std::string& place, const Arguments& arguments, std::vector<near::Host>& hosts,
                             const std::string& scratch) {
  Run run;
  const std::string folder = folder_of_source(place);
  if (!is_run(folder)) return run;
  near::RunView view{.job = arguments.text("job"), .view = arguments.has("view") ? arguments.text("view") : "logical"};
  if (!hosts.empty()) {
    SCALAI_ASSIGN_OR_RETURN(run.step, HeldStep::open(folder, view.job));
    view.job = run.step->job();
    view.step = run.step->number();
  }
  SCALAI_ASSIGN_OR_RETURN(run.files, RunSource::open(folder, view, scratch));
  if (run.step != nullptr) {
    SCALAI_ASSIGN_OR_RETURN(run.held, run.step->held(view.view));
  }
  for (near::Host& host : hosts) {
    if (host.here) {
      host.folder = run.files->folder();
    } else {
      host.run = view;
    }
  }
  return run;
}

// Answers the question of a command line whose words are right.
int near_in(const std::string& scratch, const Arguments& arguments, Words words, const near::Annotations& annotations) {
  std::string place = words.place;
  const absl::StatusOr<Run> run = open_run(place, arguments, words.hosts, scratch);
  if (!run.ok()) return report_error(run.status());
  if (run->files != nullptr) {
    place = run->files->folder();
    if (verbose()) say("scalai near: reads {} of the run\n", run->files->step());
  }
  const auto request = read_source(place, std::move(words.hosts));
  if (!request.ok()) return report_error(request.status());
  std::signal(SIGPIPE, SIG_IGN);  // of workers that are gone
  std::vector<std::unique_ptr<near::Session>> waiting;
  auto source = list_source(*request, words.launch, static_cast<int>(arguments.count("jobs")), waiting);
  if (!source.ok()) return report_error(source.status());
  if (run->step != nullptr) {
    keep_where_held(run->held, *source);
    for (int& jobs : source->jobs) jobs = std::min(jobs, kRunJobs);
  }
  auto pipeline = read_pipeline(words.pipeline, source->names());  // its patterns may be refused now
  if (!pipeline.ok()) return usage_error("near", message_of(pipeline.status()));
  near::Question question{.pipeline = *std::move(pipeline),
                          .uses = {},
                          .source = *std::move(source),
                          .launch = words.launch,
                          .environment = environment_here(),
                          .here = request->is_here ? request->folder : "",
                          .scratch = scratch,
                          .waiting = &waiting,
                          .progress = {}};
  for (const near::Host& host : question.source.hosts)
    if (host.here) question.here = host.folder;
  if (const absl::Status annotated = annotate(question, annotations); !annotated.ok()) return report_error(annotated);
  const near::PlaceOptions options{.part_bytes = std::max<int64_t>(1, arguments.bytes("part-size"))};
  if (!arguments.flag("explain")) return run_question(question, options);
  explain_near(question, near::place(question.uses, question.source, options), arguments.text("format"));
  return 0;
}

int near_main(const Arguments& arguments) {
  Words words{.place = arguments.positional()[0], .pipeline = arguments.positional(), .launch = {}, .hosts = {}};
  words.pipeline.erase(words.pipeline.begin());
  near::Annotations annotations = near::Annotations::built_in();
  // What is wrong with the words, before any host is asked: all of it at once.
  std::string problems;
  const auto add = [&](const absl::Status& status) {
    if (status.ok()) return;
    problems += (problems.empty() || problems.ends_with('\n') ? "" : "\n") + message_of(status);
  };
  const std::string folder = folder_of_source(words.place);
  auto launch = read_launch_of_workers(arguments);
  add(launch.status());
  auto hosts = read_hosts(arguments, folder);
  add(hosts.status());
  add(read_pipeline(words.pipeline, {}).status());
  if (arguments.count("jobs") > 1024) add(invalid("--jobs is at most 1024"));
  for (const char* option : {"job", "view"})
    if (!is_run(folder) && arguments.has(option))
      add(invalid(fmt::format("--{} is for the folder of a run that goes on", option)));
  if (!problems.empty()) return usage_error("near", problems);
  words.launch = *std::move(launch);
  words.hosts = *std::move(hosts);
  if (arguments.has("annotations")) {
    if (const absl::Status loaded = annotations.load(arguments.text("annotations")); !loaded.ok())
      return report_error(loaded);
  }
  return in_scratch([&](const std::string& scratch) {
    if (scratch.empty()) return report_error(missing("cannot make a temporary folder; TMPDIR names another place"));
    return near_in(scratch, arguments, std::move(words), annotations);
  });
}

int near_worker_main(const Arguments&) {
  if (::isatty(STDIN_FILENO) != 0) {
    say("scalai near worker: error: it is started by scalai near, and reads its work from standard input\n");
    return kUsage;
  }
  return in_scratch([](const std::string& scratch) {
    std::vector<std::unique_ptr<RunSource>> runs;
    near::serve(STDIN_FILENO, STDOUT_FILENO, scratch,
                [&](const std::string& run, const near::RunView& view) -> absl::StatusOr<std::string> {
                  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<RunSource> opened,
                                          RunSource::open(run, view, fmt::format("{}/run-{}", scratch, runs.size())));
                  runs.push_back(std::move(opened));
                  return runs.back()->folder();
                });
    return 0;
  });
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
of a run that goes on, whose state of now it is, on the hosts of its workers that --host names;
commands name its files relative to it. Commands that have an annotation run on the hosts that have the
files, each on its part, as far as that puts out the same; the others run here. Standard output
is, byte for byte, that of the same pipeline run by a POSIX sh in the folder, and comes when all parts
are whole. The status is that of the last command: 126 if it cannot be run, 127 if it is not there,
128 + N if signal N ended it. 2 to 5, with a message of scalai near, is its own.

One word is read as a shell would: words, quotes, | and patterns of file names, nothing else;
patterns fit files, in the C locale. Several words are taken as they are, and one that is | ends a command. No shell runs.)",
       .options = joined({host_options(), own, launch_options(), {format_option({"table", "json"})}}),
       .examples = {"scalai near out/ -- 'sha256sum *.safetensors'",
                    "scalai near out/ --explain -- 'sha256sum *.safetensors | sort'",
                    "scalai near out/gpt --view=tp2-pp2 --host=n1 --host=n2 -- 'sha256sum *.safetensors'",
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
