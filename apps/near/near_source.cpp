#include "apps/near/near_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/data/data_files.h"
#include "ptc/data/index.h"

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

// The data files of a dataset, by their paths below the folder of its index.
absl::StatusOr<std::vector<std::string>> files_of_dataset(const std::string& path) {
  const auto index = data::Index::open(path);
  if (!index.ok())
    return absl::Status(index.status().code(),
                        message_of(index.status()) +
                            "\nhint: a source is a folder (a checkpoint, a mount, …) or the index "
                            "of a dataset");
  SCALAI_RETURN_IF_ERROR(data::check_inside(**index));
  const fs::path folder = fs::path(absolute_path(path)).parent_path();
  std::vector<std::string> files;
  for (const data::DataFile& file : (*index)->files())
    files.push_back(fs::path(absolute_path(file.location)).lexically_normal().lexically_relative(folder).string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<OptionSpec> source_options() {
  return {
      texts_option("host", "NAME[=PATH]",
                   "A host that has files of the source, all or some, and its folder there if that is another one. The "
                   "name `here` is this machine. Without hosts all is read here."),
      text_option("hosts", "FILE", "A file with such hosts, NAME or NAME PATH in a line.")};
}

absl::StatusOr<SourceRequest> read_source(const std::string& source, const Arguments& arguments) {
  SourceRequest request;
  const std::string path = fs::path(absolute_path(source)).lexically_normal().string();
  std::error_code ignored;
  request.folder = path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  request.is_here = fs::is_directory(path, ignored);
  if (fs::is_regular_file(path, ignored)) {
    SCALAI_ASSIGN_OR_RETURN(request.files, files_of_dataset(source));
    request.folder = fs::path(path).parent_path().string();
    request.is_here = true;
  }
  std::vector<std::string> problems;
  HostReader reader(request.folder, problems);
  for (const std::string& text : arguments.texts("host")) reader.add(text, fmt::format("--host={}", text));
  if (arguments.has("hosts")) reader.add_file(arguments.text("hosts"));
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  request.hosts = std::move(reader.hosts);
  if (request.hosts.empty()) {
    if (!request.is_here)
      return missing(fmt::format("{}: no such folder here; --host says which hosts have it", source));
    request.hosts.push_back({.name = kHere, .folder = request.folder, .here = true});
  }
  return request;
}

absl::StatusOr<near::Source> list_source(const SourceRequest& request, const near::Launch& launch, int jobs) {
  near::Source source{.hosts = request.hosts, .jobs = {}, .by_host = {}, .files = {}};
  source.jobs.resize(source.hosts.size(), std::max(jobs, 1));
  source.by_host.resize(source.hosts.size());
  std::vector<absl::Status> found(source.hosts.size());
  const std::set<std::string> wanted(request.files.begin(), request.files.end());
  SCALAI_RETURN_IF_ERROR(run_concurrently(source.hosts.size(), [&](size_t i) {
    const auto session = near::Session::start(source.hosts[i], launch);
    const auto files =
        session.ok() ? (*session)->list() : absl::StatusOr<std::vector<near::ListedFile>>(session.status());
    found[i] = files.status();
    if (!files.ok()) return;
    if (jobs == 0) source.jobs[i] = (*session)->threads();
    for (const near::ListedFile& file : *files)
      if (wanted.empty() || wanted.contains(file.name)) source.by_host[i][file.name] = {file.bytes, file.ends_whole};
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
  std::vector<std::string> absent;
  for (const std::string& file : wanted)
    if (!source.files.contains(file)) absent.push_back(file);
  if (!absent.empty())
    return missing(fmt::format("no host has these files of the dataset: {}", fmt::join(absent, ", ")));
  return source;
}

}  // namespace scalai::apps
