#include "labs/near/commands/near_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "labs/near/pipeline.h"
#include "ptc/base/file.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHere = "here";

// A launcher gets the name as a word of its own; one that begins with - would be an option of it.
bool is_host_name(const std::string& name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-[]";
  return !name.empty() && name[0] != '-' && name.find_first_not_of(kPlain) == std::string::npos;
}

class HostReader {
 public:
  HostReader(std::string folder, std::vector<std::string>& problems)
      : folder_(std::move(folder)), problems_(problems) {}

  // NAME, or NAME=PATH.
  void add(const std::string& text, const std::string& where) {
    const size_t equals = text.find('=');
    near::Host host{.name = text.substr(0, equals), .folder = folder_};
    if (equals != std::string::npos) host.folder = text.substr(equals + 1);
    host.here = host.name == kHere;
    if (!is_host_name(host.name)) {
      problems_.push_back(
          fmt::format("{}: \"{}\" is no name of a host; hosts are NAME or NAME=PATH", where, host.name));
    } else if (host.folder.empty() || host.folder[0] != '/') {
      if (host.here && !host.folder.empty()) {
        host.folder = absolute_path(host.folder);
      } else {
        problems_.push_back(fmt::format("{}: the path on {} does not begin with /", where, host.name));
      }
    }
    if (!names_.insert(host.name + "=" + host.folder).second)
      problems_.push_back(fmt::format("{}: {} is given twice", where, text));
    hosts.push_back(std::move(host));
  }

  void add_file(const std::string& path) {
    const auto text = read_file(path);
    if (!text.ok()) {
      problems_.push_back(message_of(text.status()));
      return;
    }
    std::istringstream lines(*text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      std::istringstream words(line.substr(0, line.find('#')));
      std::string name, folder, more;
      if (!(words >> name)) continue;
      words >> folder;
      const std::string where = fmt::format("{}:{}", path, number);
      if (words >> more) {
        problems_.push_back(fmt::format("{}: more than NAME PATH", where));
      } else {
        add(folder.empty() ? name : name + "=" + folder, where);
      }
    }
  }

  std::vector<near::Host> hosts;

 private:
  const std::string folder_;
  std::vector<std::string>& problems_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<std::vector<near::Host>> read_hosts(const Arguments& arguments, const std::string& folder) {
  std::vector<std::string> problems;
  HostReader reader(folder, problems);
  for (const std::string& text : arguments.texts("host")) reader.add(text, fmt::format("--host={}", text));
  if (arguments.has("hosts")) reader.add_file(arguments.text("hosts"));
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  return std::move(reader.hosts);
}

absl::StatusOr<near::Launch> read_launch_of_workers(const Arguments& arguments) {
  near::Launch launch{.patience_s = arguments.seconds("timeout")};
  std::string text = arguments.text("launcher");
  if (text.empty())
    text = std::getenv("SLURM_JOB_ID") != nullptr ? "srun --overlap --nodes=1 --ntasks=1 --nodelist={}"
                                                  : "ssh -oBatchMode=yes {}";
  auto words = near::parse_pipeline(text, {});
  if (!words.ok()) return invalid("--launcher: " + message_of(words.status()));
  if (words->size() > 1) return invalid("--launcher is one command");
  launch.words = std::move(words->front().words);
  SCALAI_ASSIGN_OR_RETURN(launch.own_program, find_program("scalai-near"));
  std::error_code ignored;
  const std::string real = fs::canonical(launch.own_program, ignored).string();
  launch.program = arguments.has("program") ? arguments.text("program") : real.empty() ? launch.own_program : real;
  SCALAI_RETURN_IF_ERROR(near::check_program(launch.program));
  if (launch.patience_s <= 0) return invalid("--timeout is more than nothing");
  return launch;
}

absl::StatusOr<near::Source> list_hosts(const std::vector<near::Host>& hosts, const std::set<std::string>& wanted,
                                        const near::Launch& launch, int jobs,
                                        std::vector<std::unique_ptr<near::Session>>& sessions) {
  near::Source source{.hosts = hosts, .jobs = {}, .by_host = {}, .files = {}};
  source.jobs.resize(hosts.size(), std::max(jobs, 1));
  source.by_host.resize(hosts.size());
  sessions.resize(hosts.size());
  std::vector<absl::Status> found(hosts.size());
  SCALAI_RETURN_IF_ERROR(run_concurrently(hosts.size(), [&](size_t i) {
    auto session = near::Session::start(hosts[i], launch);
    const auto files =
        session.ok() ? (*session)->list() : absl::StatusOr<std::vector<near::ListedFile>>(session.status());
    found[i] = files.status();
    if (!files.ok()) return;
    if (jobs == 0) source.jobs[i] = (*session)->threads();
    for (const near::ListedFile& file : *files)
      if (wanted.empty() || wanted.contains(file.name))
        source.by_host[i][file.name] = {file.bytes, file.ends_whole, file.has_mark};
    sessions[i] = *std::move(session);
  }));
  std::string problems;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const absl::Status& status : found) {
    if (status.ok()) continue;
    problems += (problems.empty() ? "" : "\n") + message_of(status);
    if (code == absl::StatusCode::kOk) code = absl::IsUnavailable(status) ? absl::StatusCode::kAborted : status.code();
  }
  if (!problems.empty()) return absl::Status(code, problems);
  SCALAI_RETURN_IF_ERROR(near::unite(source));
  return source;
}

}  // namespace scalai::apps
