#include "apps/fs/fs_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "apps/common/dataset_state.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/index.h"
#include "vfs/checkpoint_tree.h"
#include "vfs/folder.h"
#include "vfs/mounts.h"
#ifdef SCALAI_WITH_CURL
#include "vfs/remote/remote_source.h"
#endif

namespace scalai::apps {
namespace {

constexpr int kMalformed = 2;
constexpr int kFilesChecked = 256;  // data files of a dataset that are looked at before mounting; the others when read

// Collects; a malformed command line decides the exit code, else the first problem does.
class Problems {
 public:
  explicit Problems(FsRefusal& refusal) : refusal_(refusal) {}
  void malformed(const std::string& text) { add(kMalformed, text); }
  void status(const std::string& prefix, const absl::Status& status) {
    std::istringstream lines(message_of(status));
    for (std::string line; std::getline(lines, line);) add(exit_code_of(status), prefix + line);
  }
  bool empty() const { return refusal_.code == 0; }

 private:
  void add(int code, const std::string& text) {
    refusal_.text += fmt::format("scalai fs mount: error: {}\n", text);
    if (refusal_.code == 0 || code == kMalformed) refusal_.code = code;
  }
  FsRefusal& refusal_;
};

absl::Status check_empty(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return invalid(directory + ": is not a folder");
  const bool empty = std::filesystem::is_empty(directory, error);
  if (error) return missing(fmt::format("{}: {}", directory, error.message()));
  if (!empty) return invalid(directory + ": is not empty; mounting would hide its content");
  return absl::OkStatus();
}

absl::StatusOr<std::string> place_to_mount(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string directory, vfs::mount_directory(path));
  SCALAI_RETURN_IF_ERROR(vfs::clean_dead_mounts(directory).status());
  const auto there = vfs::mount_at(directory);
  if (there && there->ours())
    return invalid(fmt::format("{0}: is mounted by scalai fs already; `scalai fs unmount {0}` ends that", directory));
  SCALAI_RETURN_IF_ERROR(check_empty(directory));
  return directory;
}

void read_server(const Arguments& arguments, Problems& problems, vfs::ServerOptions& server) {
  auto directory = place_to_mount(arguments.positional()[0]);
  if (directory.ok()) {
    server.directory = std::move(*directory);
  } else {
    problems.status("", directory.status());
  }
  if (arguments.flag("daemonize") && !arguments.has("log"))
    problems.malformed("--daemonize needs --log=FILE: a background process has no terminal for its errors");
  server.allow_other = arguments.flag("allow-other");
  const std::string reads = arguments.text("reads");
  server.reads = reads == "direct"   ? vfs::ReadPath::kDirect
                 : reads == "cached" ? vfs::ReadPath::kCached
                                     : vfs::ReadPath::kAuto;
  server.threads = std::clamp<int>(static_cast<int>(hardware_threads()) * 2, 4, 32);
  if (!arguments.has("threads")) return;
  const int64_t threads = arguments.count("threads");
  if (threads < 1 || threads > vfs::kMostThreads)
    return problems.malformed(fmt::format("--threads={}: from 1 to {}", threads, vfs::kMostThreads));
  server.threads = static_cast<int>(threads);
}

const std::vector<std::string>& checkpoint_options() {
  static const std::vector<std::string> names = {"families", "config", "model", "from", "names", "drop"};
  return names;
}

absl::StatusOr<SourceOpener> remote_opener(const Arguments& arguments) {
#ifdef SCALAI_WITH_CURL
  vfs::RemoteOptions options;
  options.cache_folder = arguments.text("cache-dir");
  options.require_version = true;  // what is shown is never read again
  options.trust_source = arguments.flag("trust-source");
  if (arguments.has("cache-size")) options.cache_bytes = arguments.bytes("cache-size");
  return vfs::make_opener(options);
#else
  (void)arguments;
  return missing("data on a server need libcurl, without which this program was built");
#endif
}

void read_checkpoint(const Arguments& arguments, Problems& problems, FsRequest& request) {
  if (!arguments.has("checkpoint")) {
    for (const std::string& name : checkpoint_options()) {
      if (arguments.has(name)) problems.malformed(fmt::format("--{} is for --checkpoint, which is missing", name));
    }
    return;
  }
  store::OpenOptions options{.names = arguments.text("names"),
                             .from = arguments.text("from"),
                             .config = arguments.text("config"),
                             .model = arguments.text("model"),
                             .families = arguments.text("families"),
                             .opener = {}};
  store::add_drop(arguments.list("drop"), options);
  if (arguments.text("checkpoint").find("://") != std::string::npos) {
    absl::StatusOr<SourceOpener> opener = remote_opener(arguments);
    if (!opener.ok()) return problems.status("", opener.status());
    options.opener = *std::move(opener);
  }
  auto checkpoint = store::Checkpoint::open(arguments.text("checkpoint"), options);
  problems.status("", checkpoint.status());
  if (checkpoint.ok()) request.checkpoint = std::move(*checkpoint);
}

class DatasetReader {
 public:
  DatasetReader(const Arguments& arguments, Problems& problems) : arguments_(arguments), problems_(problems) {}

  std::vector<vfs::Dataset> read() {
    const std::vector<std::string> paths = arguments_.list("dataset");
    const std::vector<std::string> names = vfs::dataset_names(paths);
    std::vector<vfs::Dataset> datasets;
    for (size_t i = 0; i < paths.size(); ++i) {
      auto dataset = open(paths[i], names[i]);
      problems_.status("", dataset.status());
      if (dataset.ok()) datasets.push_back(std::move(*dataset));
    }
    return datasets;
  }

 private:
  absl::StatusOr<vfs::Dataset> open(const std::string& path, const std::string& name) {
    SCALAI_ASSIGN_OR_RETURN(auto index, datasets::Index::open(path));
    if (const absl::Status inside = datasets::check_inside(*index); !inside.ok() && !arguments_.flag("allow-outside")) {
      return invalid(message_of(inside) + "\n  hint: --allow-outside shows it, if you trust the index");
    }
    SCALAI_ASSIGN_OR_RETURN(const std::optional<datasets::State> said, said_state(arguments_));
    const int64_t sequence = said ? said->sequence : arguments_.has("sequence") ? arguments_.count("sequence") : 0;
    auto samples = datasets::Samples::make(index, sequence);
    if (!samples.ok()) return invalid(fmt::format("{}: {}", path, message_of(samples.status())));
    vfs::Dataset dataset;
    dataset.name = name;
    dataset.samples = std::move(*samples);
    SCALAI_ASSIGN_OR_RETURN(dataset.first, first_state(arguments_, said, *dataset.samples));
    if (const absl::Status state = validate(dataset.first); !state.ok())
      return invalid(fmt::format("{}: {}", path, message_of(state)));
    SCALAI_ASSIGN_OR_RETURN(const SourceOpener opener, opener_of(*index, dataset));
    dataset.files = std::make_shared<datasets::DataFiles>(index, opener);
    SCALAI_RETURN_IF_ERROR(check_files(*dataset.files));
    return dataset;
  }

  // One opener and one read-ahead for all datasets, made when the first of them needs it.
  absl::StatusOr<SourceOpener> opener_of(const datasets::Index& index, vfs::Dataset& dataset) {
    const bool local = std::all_of(index.files().begin(), index.files().end(),
                                   [](const datasets::DataFile& file) { return datasets::is_local(file.location); });
    if (local) return SourceOpener(open_file_source);
    if (remote_ == nullptr) {
      SCALAI_ASSIGN_OR_RETURN(remote_, remote_opener(arguments_));
      read_ahead_ = std::make_shared<datasets::ReadAhead>();
    }
    dataset.read_ahead = read_ahead_;
    return remote_;
  }

  static absl::Status check_files(const datasets::DataFiles& files) {
    std::string problems;
    absl::Status first;
    const int count = std::min(kFilesChecked, static_cast<int>(files.index().files().size()));
    for (int file = 0; file < count; ++file) {
      const absl::Status status = files.source(file).status();
      if (status.ok()) continue;
      if (first.ok()) first = status;
      problems += (problems.empty() ? "" : "\n") + message_of(status);
    }
    return first.ok() ? first : absl::Status(first.code(), problems);
  }

  const Arguments& arguments_;
  Problems& problems_;
  SourceOpener remote_;
  std::shared_ptr<const datasets::ReadAhead> read_ahead_;
};

void check_dataset_options(const Arguments& arguments, Problems& problems) {
  const bool with = arguments.has("dataset");
  for (const char* name : {"sequence", "global-batch", "state", "dp", "step", "cache-dir", "cache-size"}) {
    if (!with && arguments.has(name)) problems.malformed(fmt::format("--{} is for --dataset, which is missing", name));
  }
  for (const char* name : {"no-shuffle", "drop-last", "allow-outside"}) {
    if (!with && arguments.flag(name)) problems.malformed(fmt::format("--{} is for --dataset, which is missing", name));
  }
  if (const std::string problem = problem_beside_state(arguments); !problem.empty()) problems.malformed(problem);
  if (with && !arguments.has("global-batch") && !arguments.has("state"))
    problems.malformed("--dataset needs --global-batch or --state: which samples a rank reads depends on it");
  if (arguments.has("step") && !arguments.has("dp")) problems.malformed("--step is for --dp, which is missing");
  if (arguments.has("cache-size") && !arguments.has("cache-dir"))
    problems.malformed("--cache-size is for --cache-dir, which is missing");
}

void read_datasets(const Arguments& arguments, Problems& problems, FsRequest& request) {
  check_dataset_options(arguments, problems);
  if (!arguments.has("dataset")) return;
  std::vector<vfs::Dataset> datasets = DatasetReader(arguments, problems).read();
  if (!problems.empty() || datasets.empty()) return;
  request.datasets = std::make_unique<vfs::DatasetTree>(std::move(datasets));
  if (!arguments.has("dp")) return;
  const auto said = said_state(arguments);
  const int64_t first = said.ok() && *said ? (*said)->step : 0;
  const int64_t step = arguments.has("step") ? arguments.count("step") : first;
  problems.status("", request.datasets->repartition(arguments.count("dp"), step));
}

void read_run(const Arguments& arguments, Problems& problems, FsRequest& request) {
  if (!arguments.has("run")) {
    if (arguments.flag("optimizer")) problems.malformed("--optimizer is for --run, which is missing");
    for (const char* one : {"consistency", "kept-step"})
      if (arguments.has(one)) problems.malformed(fmt::format("--{} is for --run, which is missing", one));
    return;
  }
  constexpr double kLeast_s = 0.1;  // or a step goes between the look at the link and that at the folder
  if (arguments.seconds("keep") < kLeast_s)
    problems.malformed(fmt::format("--keep={}: at least 100ms", arguments.text("keep")));
  if (!problems.empty()) return;
  auto live =
      LiveMount::open(arguments.text("run"), {.optimizer = arguments.flag("optimizer"),
                                              .fleeting = arguments.text("consistency") == "fail",
                                              .version = arguments.has("kept-step") ? arguments.count("kept-step") : 0,
                                              .keep_s = arguments.seconds("keep"),
                                              .refresh_s = arguments.seconds("refresh"),
                                              .kept_bytes = arguments.bytes("keep-size")});
  problems.status("", live.status());
  if (live.ok()) request.live = *std::move(live);
}

}  // namespace

std::string FsRequest::what() const {
  const auto count = static_cast<int64_t>(datasets == nullptr ? 0 : datasets->count());
  const std::string some = count == 0 ? "" : count == 1 ? "a dataset" : fmt::format("{} datasets", count);
  std::vector<std::string> all;
  if (checkpoint != nullptr) all.emplace_back("a checkpoint");
  if (!some.empty()) all.push_back(some);
  if (live != nullptr) all.emplace_back("the jobs of a run");
  return fmt::format("{}", fmt::join(all, " and "));
}

std::shared_ptr<vfs::Directory> FsRequest::root() const {
  std::vector<std::pair<std::string, vfs::Node>> children;
  if (checkpoint != nullptr) children.emplace_back("views", vfs::views_directory(checkpoint));
  if (datasets != nullptr) children.emplace_back("dataset", datasets->directory());
  if (live != nullptr) children.emplace_back("jobs", live->directory());
  return std::make_shared<vfs::FixedFolder>(std::move(children));
}

std::optional<FsRequest> read_fs_request(const Arguments& arguments, FsRefusal& refusal) {
  Problems problems(refusal);
  FsRequest request;
  if (!arguments.has("checkpoint") && !arguments.has("dataset") && !arguments.has("run"))
    problems.malformed("nothing to show; give --checkpoint, --dataset or --run");
  read_server(arguments, problems, request.server);
  read_checkpoint(arguments, problems, request);
  read_datasets(arguments, problems, request);
  read_run(arguments, problems, request);
  if (!problems.empty()) return std::nullopt;
  return request;
}

}  // namespace scalai::apps
