#include "labs/near/commands/spread_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "labs/near/commands/near_hosts.h"
#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/parallel.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using store::Checkpoint;
using Sessions = std::vector<std::unique_ptr<near::Session>>;

constexpr int64_t kLength = 8;                       // bytes of the length before a header of safetensors
constexpr int64_t kMostHeader = int64_t{256} << 20;  // bytes; what is longer is no header
constexpr int64_t kMostText = int64_t{1} << 30;      // bytes of a file that is fetched whole
constexpr int64_t kSmall = int64_t{64} << 10;        // bytes: such a file is fetched, whatever it is
constexpr std::string_view kTensors = ".safetensors";

// Of files of tensors only headers: a tensor that repeats another must equal it, and all of them are zeros here.
bool is_text(const std::string& name, int64_t bytes) {
  if (name.ends_with(kTensors)) return false;
  if (bytes <= kSmall) return true;
  return bytes <= kMostText && (name.ends_with(".json") || name.ends_with(".textproto") || name.ends_with(".txt"));
}

// The beginning of a file: as much of it as opening reads.
struct Head {
  std::string name;
  int64_t bytes = 0;    // of the file
  int64_t fetched = 0;  // of these
};

// The first bytes of files of a host, one after the other.
absl::StatusOr<std::vector<std::string>> fetch_heads(near::Session& session, const near::Host& host,
                                                     const std::vector<Head>& heads) {
  near::PartWork work{.folder = host.folder, .stages = {}, .ranges = {}, .environment = {}};
  int64_t wanted = 0;
  for (const Head& head : heads) {
    work.ranges.push_back({.file = head.name, .begin = 0, .end = head.fetched, .records = false});
    wanted += head.fetched;
  }
  std::string all;
  SCALAI_ASSIGN_OR_RETURN(const near::PartEnd end, session.run(work, [&](std::string_view bytes) {
    all += bytes;
    return absl::OkStatus();
  }));
  if (!end.problem.empty()) return failed(fmt::format("{}: {}", host.name, end.problem));
  if (std::ssize(all) != wanted) return failed(fmt::format("{}: a file has become shorter", host.name));
  std::vector<std::string> texts;
  size_t at = 0;
  for (const Head& head : heads) {
    texts.push_back(all.substr(at, static_cast<size_t>(head.fetched)));
    at += static_cast<size_t>(head.fetched);
  }
  return texts;
}

absl::Status write_head(const std::string& path, const std::string& text, int64_t bytes) {
  SCALAI_RETURN_IF_ERROR(make_folders(std::filesystem::path(path).parent_path().string()));
  SCALAI_RETURN_IF_ERROR(write_file(path, text));
  if (::truncate(path.c_str(), bytes) == 0) return absl::OkStatus();
  return failed(
      fmt::format("{}: cannot have {} bytes: {}; TMPDIR names another place", path, bytes, std::strerror(errno)));
}

// Files that this host is the first to have.
absl::Status copy_heads(const near::Source& source, size_t host, near::Session& session, const std::string& folder) {
  std::vector<Head> heads;
  for (const auto& [name, facts] : source.by_host[host]) {
    bool earlier = false;
    for (size_t other = 0; other < host; ++other) earlier = earlier || source.by_host[other].contains(name);
    if (earlier) continue;
    const int64_t first = is_text(name, facts.bytes) ? facts.bytes
                          : name.ends_with(kTensors) ? std::min(facts.bytes, kLength)
                                                     : 0;
    heads.push_back({name, facts.bytes, first});
  }
  SCALAI_ASSIGN_OR_RETURN(std::vector<std::string> texts, fetch_heads(session, source.hosts[host], heads));
  std::vector<Head> longer;
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].fetched == kLength && heads[i].bytes > kLength && heads[i].name.ends_with(kTensors)) {
      uint64_t length = 0;
      std::memcpy(&length, texts[i].data(), sizeof(length));
      const int64_t most = std::min(heads[i].bytes - kLength, kMostHeader);  // opening says what is wrong with it
      longer.push_back({heads[i].name, heads[i].bytes,
                        kLength + static_cast<int64_t>(std::min<uint64_t>(length, static_cast<uint64_t>(most)))});
      continue;
    }
    SCALAI_RETURN_IF_ERROR(write_head(folder + "/" + heads[i].name, texts[i], heads[i].bytes));
  }
  SCALAI_ASSIGN_OR_RETURN(texts, fetch_heads(session, source.hosts[host], longer));
  for (size_t i = 0; i < longer.size(); ++i)
    SCALAI_RETURN_IF_ERROR(write_head(folder + "/" + longer[i].name, texts[i], longer[i].bytes));
  return absl::OkStatus();
}

// As list_hosts(), but hosts may lack the folder.
absl::StatusOr<near::Source> list_some(const std::vector<near::Host>& hosts, const near::Launch& launch,
                                       Sessions& sessions) {
  near::Source source{.hosts = hosts, .jobs = {}, .by_host = {}, .files = {}};
  bool any = false;
  for (const near::Host& host : hosts) {
    Sessions one;
    auto listed = list_hosts({host}, {}, launch, 0, one);
    if (!listed.ok() && !absl::IsNotFound(listed.status())) return listed;
    any = any || listed.ok();
    sessions.push_back(listed.ok() ? std::move(one[0]) : nullptr);
    source.jobs.push_back(listed.ok() ? listed->jobs[0] : 1);
    source.by_host.push_back(listed.ok() ? std::move(listed->by_host[0]) : std::map<std::string, near::FileFacts>());
  }
  if (!any) return missing("no host has the folder");
  SCALAI_RETURN_IF_ERROR(near::unite(source));
  return source;
}

std::string with_path(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

absl::StatusOr<SpreadCheckpoint> open_spread(const std::string& path, const std::vector<near::Host>& hosts,
                                             const near::Launch& launch, const store::OpenOptions& options,
                                             bool may_lack) {
  Sessions sessions;
  SpreadCheckpoint spread{.path = path, .source = {}, .checkpoint = nullptr};
  SCALAI_ASSIGN_OR_RETURN(spread.source,
                          may_lack ? list_some(hosts, launch, sessions) : list_hosts(hosts, {}, launch, 0, sessions));
  const ScratchFolder scratch("scalai-stats");
  if (scratch.path().empty()) return missing("cannot make a temporary folder; TMPDIR names another place");
  std::vector<absl::Status> copied(hosts.size());
  SCALAI_RETURN_IF_ERROR(run_concurrently(hosts.size(), [&](size_t host) {
    if (sessions[host] != nullptr) copied[host] = copy_heads(spread.source, host, *sessions[host], scratch.path());
  }));
  for (const absl::Status& status : copied) SCALAI_RETURN_IF_ERROR(status);
  auto opened = Checkpoint::open(scratch.path(), options);
  if (!opened.ok())
    return absl::Status(opened.status().code(), with_path(message_of(opened.status()), scratch.path(), path) +
                                                    "\nhint: a file that is not there is on none of these hosts");
  spread.checkpoint = *std::move(opened);
  for (const store::CheckpointFile& file : spread.checkpoint->files()) {
    if (!file.name.ends_with(kTensors))
      return invalid(
          fmt::format("{}/{}: a file of torch is read where one host has the whole checkpoint", path, file.name));
  }
  return spread;
}

}  // namespace scalai::apps
