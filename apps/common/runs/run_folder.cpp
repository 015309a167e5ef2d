#include "apps/common/runs/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "executor/rpc/token.h"
#include "ptc/base/destination.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"

namespace scalai::apps {

namespace ex = scalai::executor;

namespace {

constexpr std::array<const char*, 3> kOfARun = {"checkpoints", "workers", "journal.db"};
// The folder itself, and what a controller, ctl or a reader acts on.
constexpr std::array<const char*, 9> kTrusted = {
    "", "run.json", "journal.db", "journal.db-wal", "journal.db.lock", "token", "address", "checkpoints", "workers"};

// Why nobody should act on it; empty: there is no reason, or no such file.
std::string distrust(const std::string& path, bool is_folder) {
  struct stat info {};
  if ((is_folder ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) return "";
  if (info.st_uid != ::geteuid())
    return fmt::format("{}: belongs to user {}, and this is user {}\n", path, info.st_uid, ::geteuid());
  if (S_ISLNK(info.st_mode)) return fmt::format("{}: is a link\n", path);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  return fmt::format("{}: other users can write it (mode {:o})\n", path, info.st_mode & 07777u);
}

using Texts = std::map<std::string, std::string>;

// Paths and commands may have any bytes, and the next controller needs them as they are.
nlohmann::json json_of(const Texts& by_job) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [job, text] : by_job) json[job] = json_of_bytes(text);
  return json;
}

// What json_of_bytes() wrote. Throws the library's exception, as its own readers do.
std::string text_of(const nlohmann::json& json) {
  const std::optional<std::string> bytes = bytes_of_json(json);
  return bytes ? *bytes : json.get<std::string>();
}

std::string text_at(const nlohmann::json& json, const char* key) {
  return json.contains(key) ? text_of(json.at(key)) : std::string();
}

Texts texts_at(const nlohmann::json& json, const char* key) {
  Texts texts;
  if (!json.contains(key)) return texts;
  for (const auto& [job, text] : json.at(key).get<std::map<std::string, nlohmann::json>>()) texts[job] = text_of(text);
  return texts;
}

}  // namespace

RunFolder::RunFolder(const std::string& path) : path_(absolute_path(path)) {}

absl::Status RunFolder::make() const {
  SCALAI_RETURN_IF_ERROR(make_folders(path_, 0700).status());
  return check_private();
}

absl::Status RunFolder::check_private() const {
  std::string problems;
  for (const std::string name : kTrusted) problems += distrust(name.empty() ? path_ : file(name), name.empty());
  if (problems.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("{}hint: what is in the folder of a run decides which programs start: it is its user's alone. If you "
                  "know who wrote there: chmod -R go-w {}",
                  problems, path_));
}

absl::StatusOr<ex::journal::JournalLock> RunFolder::claim() const {
  SCALAI_RETURN_IF_ERROR(make());
  const bool ours = how().ok();
  for (const char* name : kOfARun) {
    std::error_code ignored;
    if (ours || !std::filesystem::exists(std::filesystem::symlink_status(file(name), ignored))) continue;
    return invalid(
        fmt::format("--out={}: a run would remove {} there, which is not of an earlier run\n"
                    "hint: name another folder, or remove it yourself",
                    path_, name));
  }
  absl::StatusOr<ex::journal::JournalLock> lock = ex::journal::JournalLock::take(file("journal.db"));
  if (absl::IsUnavailable(lock.status()))
    return absl::UnavailableError(fmt::format("a run is going on in {}: {}", path_, message_of(lock.status())));
  std::error_code ignored;
  if (lock.ok() && std::filesystem::exists(file("address"), ignored) && !(ours && how()->synced)) {
    return missing(fmt::format(
        "a run in {0} was cut off: go on with it (scalai exec --resume={0}), or remove {0}/address to give it up",
        path_));
  }
  return lock;
}

absl::StatusOr<ex::journal::Journal> RunFolder::begin(ex::journal::JournalLock lock, const ex::journal::RunFacts& facts,
                                                      const HowRun& how, const std::string& token,
                                                      const std::string& address) const {
  const nlohmann::json json = {{"policy_folder", json_of_bytes(how.policy_folder)},
                               {"local_workers", how.local_workers},
                               {"launcher", json_of_bytes(how.launcher)},
                               {"transport", how.state.transport},
                               {"backend", how.state.backend},
                               {"devices_per_gpu", how.state.devices_per_gpu},
                               {"nccl", json_of_bytes(how.state.nccl)},
                               {"memory_cap", how.state.memory_cap},
                               {"host_overflow", how.state.host_overflow},
                               {"huge_pages", how.state.huge_pages},
                               {"verify", how.verify},
                               {"time_scale", how.time_scale},
                               {"certificate", json_of_bytes(how.certificate_file)},
                               {"key", json_of_bytes(how.key_file)},
                               {"orphan_timeout_s", how.orphan_timeout_s},
                               {"states", json_of(how.states)},
                               {"datasets", json_of(how.datasets)},
                               {"trainers", json_of(how.trainers)},
                               {"launched", how.launched},
                               {"synced", how.synced},
                               {"standby", how.standby},
                               {"last_checkpoint", how.last_checkpoint},
                               {"train_folder", json_of_bytes(how.train_folder)},
                               {"mounts", json_of(how.mounts)}};
  // First, since it says whose the folder is.
  SCALAI_RETURN_IF_ERROR(write_private_file(file("run.json"), json_text(json, {.indent = 2}) + "\n"));
  std::error_code ignored;
  std::filesystem::remove(file("summary.json"), ignored);
  for (const char* name : {"checkpoints", "workers"}) std::filesystem::remove_all(file(name), ignored);
  SCALAI_RETURN_IF_ERROR(make_folders(workers()));
  SCALAI_RETURN_IF_ERROR(ex::rpc::write_token(file("token"), token));
  SCALAI_ASSIGN_OR_RETURN(ex::journal::Journal journal, ex::journal::Journal::replace(std::move(lock), facts));
  SCALAI_RETURN_IF_ERROR(write_private_file(file("address"), address));
  return journal;
}

absl::StatusOr<HowRun> RunFolder::how() const {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(file("run.json")));
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json json, read_json(text, file("run.json")));
  try {
    // A run begun before there were GPUs says only whether it used the network.
    const std::string transport = json.contains("network") && json.at("network") ? "ucx" : "shared-memory";
    const StateOptions plain;
    return HowRun{.policy_folder = text_at(json, "policy_folder"),
                  .local_workers = json.at("local_workers"),
                  .launcher = text_at(json, "launcher"),
                  .state = {.transport = json.value("transport", transport),
                            .backend = json.value("backend", plain.backend),
                            .devices_per_gpu = json.value("devices_per_gpu", plain.devices_per_gpu),
                            .nccl = text_at(json, "nccl"),
                            .memory_cap = json.value("memory_cap", plain.memory_cap),
                            .host_overflow = json.value("host_overflow", plain.host_overflow),
                            .huge_pages = json.value("huge_pages", plain.huge_pages)},
                  .verify = json.at("verify"),
                  .time_scale = json.at("time_scale"),
                  .orphan_timeout_s = json.at("orphan_timeout_s"),
                  .certificate_file = text_of(json.at("certificate")),
                  .key_file = text_of(json.at("key")),
                  .states = texts_at(json, "states"),
                  .datasets = texts_at(json, "datasets"),
                  .trainers = texts_at(json, "trainers"),
                  .train_folder = text_at(json, "train_folder"),
                  .launched = json.value("launched", false),
                  .synced = json.value("synced", false),
                  .standby = json.value("standby", false),
                  .last_checkpoint = json.value("last_checkpoint", true),
                  .mounts = texts_at(json, "mounts")};
  } catch (const nlohmann::json::exception& error) {
    return invalid(fmt::format("{}: {}", file("run.json"), error.what()));
  }
}

absl::StatusOr<std::string> RunFolder::token() const { return ex::rpc::read_token(file("token")); }

absl::StatusOr<std::string> RunFolder::address() const {
  auto address = read_file(file("address"));
  if (address.ok()) return address;
  return missing(fmt::format("no run is going on in {}, and none was cut off: it has no file \"address\"", path_));
}

absl::StatusOr<executor::rpc::CtlTarget> RunFolder::target() const {
  executor::rpc::CtlTarget target;
  SCALAI_RETURN_IF_ERROR(check_private());
  SCALAI_ASSIGN_OR_RETURN(target.address, address());
  SCALAI_ASSIGN_OR_RETURN(target.token, token());
  SCALAI_ASSIGN_OR_RETURN(const HowRun known, how());
  target.ca_file = known.certificate_file;
  if (controller_died() && known.synced)
    return missing(fmt::format("{}: this scalai sync has died: start it again", path_));
  if (controller_died())
    return missing(fmt::format("{0}: the controller of this run has died\nhint: scalai exec --resume={0}", path_));
  return target;
}

bool RunFolder::controller_died() const { return ex::journal::JournalLock::is_abandoned(file("journal.db")); }

void RunFolder::leave_nothing(bool was_there) const {
  std::error_code ignored;
  if (std::filesystem::exists(file("run.json"), ignored)) return;
  if (ex::journal::JournalLock::is_abandoned(file("journal.db")))
    std::filesystem::remove(file("journal.db.lock"), ignored);
  if (!was_there) std::filesystem::remove(path_, ignored);  // not if there is anything in it
}

void RunFolder::end() const {
  std::error_code ignored;
  std::filesystem::remove(file("address"), ignored);
  sync_folder_of(file("address"));  // after a loss of power no address is there without its token
  std::filesystem::remove(file("token"), ignored);
}

}  // namespace scalai::apps
