#include "labs/near/commands/stats_near.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/checkpoint/stats_json.h"
#include "ptc/base/json.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using store::Checkpoint;
using store::LogicalState;
using store::TensorStats;

constexpr int64_t kGroups = 8;                   // for each host, so that a slow one gets fewer
constexpr size_t kMostNames = size_t{64} << 10;  // bytes of names in one word of a command
constexpr size_t kMostAnswer = size_t{1} << 30;  // bytes

// A name as --tensors takes it; "" if it cannot: a comma ends a name there.
std::string pattern_of(const std::string& name) {
  if (name.empty() || name.find(',') != std::string::npos) return "";
  std::string pattern;
  for (const char c : name) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// What `scalai checkpoint stats --format=json` says of a tensor; nullopt: it is another tensor than `state`.
std::optional<TensorStats> stats_of_json(const nlohmann::json& one, const LogicalState& state) {
  if (one.at("shape") != state.shape.str() || one.at("dtype") != tensor::name_of(state.dtype)) return std::nullopt;
  const auto elements = elements_of_json(one);
  if (!elements || elements->elements != state.shape.elements()) return std::nullopt;
  TensorStats stats{.tensor = 0, .elements = *elements, .change = {}};
  if (!one.contains("change")) return stats;
  stats.change = change_of_json(one.at("change"));
  const bool all = stats.change && stats.change->elements == elements->elements;
  return all ? std::optional(std::move(stats)) : std::nullopt;
}

struct Group {
  std::vector<size_t> tensors;  // among the wanted ones
  std::string names;            // for --tensors
  int64_t bytes = 0;
  std::vector<char> tried;  // by host
};

class HoldersStats {
 public:
  HoldersStats(const Checkpoint& checkpoint, const std::vector<size_t>& tensors, const NearStats& near)
      : checkpoint_(checkpoint), tensors_(tensors), near_(near), found_(tensors.size()) {
    const int64_t groups = kGroups * std::ssize(near.hosts);
    for (const size_t tensor : tensors) total_ += bytes_of(tensor);
    Group group;
    const auto close = [&] {
      group.tried.resize(near_.hosts.size());
      if (!group.tensors.empty()) waiting_.push_back(std::exchange(group, {}));
    };
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string pattern = pattern_of(checkpoint.tensors()[tensors[i]].name);
      if (pattern.empty()) continue;
      group.tensors.push_back(i);
      group.names += (group.names.empty() ? "" : ",") + pattern;
      group.bytes += bytes_of(tensors[i]);
      if (group.bytes >= total_ / groups || group.names.size() > kMostNames) close();
    }
    close();
    open_ = waiting_.size();
  }

  absl::StatusOr<NearStatsResult> run() {
    SCALAI_RETURN_IF_ERROR(run_concurrently(near_.hosts.size(), [&](size_t host) { serve(host); }));
    std::vector<size_t> rest, at;  // tensors, and their places
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (found_[i]) continue;
      rest.push_back(tensors_[i]);
      at.push_back(i);
    }
    SCALAI_ASSIGN_OR_RETURN(
        std::vector<TensorStats> here,
        store::stats_of(checkpoint_, rest,
                        {.since = near_.since, .threads = static_cast<int>(hardware_threads()), .progress = {}}));
    for (size_t i = 0; i < here.size(); ++i) found_[at[i]] = std::move(here[i]);
    if (!rest.empty())
      notes_.push_back(fmt::format("{} of {} tensors were looked at here", rest.size(), tensors_.size()));
    NearStatsResult result{.stats = {}, .notes = std::move(notes_)};
    for (auto& stats : found_) result.stats.push_back(*std::move(stats));
    return result;
  }

 private:
  int64_t bytes_of(size_t tensor) const {
    const LogicalState& state = checkpoint_.tensors()[tensor];
    return state.shape.elements() * tensor::size_of(state.dtype);
  }

  // The thread of a host: groups until none is left that it has not tried.
  void serve(size_t host) {
    absl::StatusOr<std::unique_ptr<near::Session>> session = near::Session::start(near_.hosts[host], near_.launch);
    if (session.ok()) {
      if (absl::Status same = check_same(**session, host); !same.ok()) session = std::move(same);
    }
    std::unique_lock lock(mutex_);
    while (session.ok()) {
      std::deque<Group>::iterator next;
      changed_.wait(lock, [&] {
        next =
            std::find_if(waiting_.begin(), waiting_.end(), [&](const Group& group) { return group.tried[host] == 0; });
        return next != waiting_.end() || open_ == waiting_.size();
      });
      if (next == waiting_.end()) return;
      Group group = std::move(*next);
      waiting_.erase(next);
      lock.unlock();
      auto stats = ask(**session, host, group);
      lock.lock();
      if (stats.ok()) {
        for (size_t i = 0; i < group.tensors.size(); ++i) found_[group.tensors[i]] = std::move((*stats)[i]);
        --open_;
        done_ += group.bytes;
        if (near_.progress) near_.progress(done_, total_);
      } else {
        note(message_of(stats.status()));
        if (absl::IsUnavailable(stats.status())) session = stats.status();  // the host is gone
        group.tried[host] = 1;
        waiting_.push_back(std::move(group));
      }
      changed_.notify_all();
    }
    note(message_of(session.status()));
    changed_.notify_all();
  }

  void note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }

  // What `scalai checkpoint VERB …` of the checkpoint there prints.
  absl::StatusOr<std::string> output_of(near::Session& session, size_t host, const std::string& verb,
                                        const std::vector<std::string>& more) const {
    const near::Host& where = near_.hosts[host];
    near::StageWork stage{.words = {verb, where.folder, "--format=json"}, .script_text = {}};
    stage.words.insert(stage.words.end(), more.begin(), more.end());
    return checkpoint_output(session, where, near_.launch, std::move(stage));
  }

  // Whether the checkpoint there has the same tensors, of the same step. Bytes are not compared.
  absl::Status check_same(near::Session& session, size_t host) const try {
    SCALAI_ASSIGN_OR_RETURN(const std::string text, output_of(session, host, "show", near_.form));
    SCALAI_ASSIGN_OR_RETURN(const nlohmann::json json, read_json(text));
    const auto differs = [&](const std::string& what) {
      return failed(fmt::format("{}: has another checkpoint: {}", near_.hosts[host].name, what));
    };
    if (const int64_t step = json.value("step", int64_t{-1}); step != checkpoint_.info().step)
      return differs(fmt::format("of step {}, not {}", step, checkpoint_.info().step));
    const auto& ours = checkpoint_.tensors();
    const nlohmann::json& theirs = json.at("tensors");
    if (theirs.size() != ours.size())
      return differs(fmt::format("with {} tensors, not {}", theirs.size(), ours.size()));
    std::map<std::string, std::pair<std::string, std::string>> forms;  // dtype and shape, by name
    for (const nlohmann::json& one : theirs)
      forms[one.at("name")] = {one.at("dtype").get<std::string>(), one.at("shape").get<std::string>()};
    for (const LogicalState& state : ours) {
      const auto found = forms.find(state.name);
      if (found == forms.end() || found->second.first != tensor::name_of(state.dtype) ||
          found->second.second != state.shape.str())
        return differs(state.name + " differs");
    }
    return absl::OkStatus();
  } catch (const nlohmann::json::exception& error) {  // of another release
    return failed(fmt::format("{}: its answer is none of this release: {}", near_.hosts[host].name, error.what()));
  }

  // Of the group's tensors, in their order.
  absl::StatusOr<std::vector<TensorStats>> ask(near::Session& session, size_t host, const Group& group) const {
    std::vector<std::string> more = near_.form;
    more.insert(more.end(), near_.since_words.begin(), near_.since_words.end());
    more.push_back("--tensors=" + group.names);
    SCALAI_ASSIGN_OR_RETURN(const std::string text, output_of(session, host, "stats", more));
    return read(near_.hosts[host].name, text, group);
  }

  absl::StatusOr<std::vector<TensorStats>> read(const std::string& host, const std::string& text,
                                                const Group& group) const try {
    SCALAI_ASSIGN_OR_RETURN(const nlohmann::json json, read_json(text));
    std::map<std::string, const nlohmann::json*> by_name;
    for (const nlohmann::json& one : json.at("tensors")) by_name[one.at("name").get<std::string>()] = &one;
    std::vector<TensorStats> all;
    for (const size_t i : group.tensors) {
      const LogicalState& state = checkpoint_.tensors()[tensors_[i]];
      const auto found = by_name.find(state.name);
      auto stats = found == by_name.end() ? std::nullopt : stats_of_json(*found->second, state);
      if (!stats) return failed(fmt::format("{}: has another checkpoint, in which {} differs", host, state.name));
      stats->tensor = tensors_[i];
      all.push_back(*std::move(stats));
    }
    return all;
  } catch (const nlohmann::json::exception& error) {  // of another release
    return failed(fmt::format("{}: its answer is none of this release: {}", host, error.what()));
  }

  const Checkpoint& checkpoint_;
  const std::vector<size_t>& tensors_;
  const NearStats& near_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Group> waiting_;
  size_t open_ = 0;  // groups without an answer
  std::vector<std::optional<TensorStats>> found_;
  std::vector<std::string> notes_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

absl::StatusOr<std::string> checkpoint_output(near::Session& session, const near::Host& host,
                                              const near::Launch& launch, near::StageWork stage) {
  const std::filesystem::path program = host.here ? launch.own_program : launch.program;
  const std::vector<std::string> first = {(program.parent_path() / "scalai").string(), "checkpoint"};
  stage.words.insert(stage.words.begin(), first.begin(), first.end());
  if (stage.script > 0) stage.script += first.size();
  std::string text;
  SCALAI_ASSIGN_OR_RETURN(
      const near::PartEnd end,
      session.run({.folder = "/", .stages = {stage}, .ranges = {}, .environment = {}}, [&](std::string_view bytes) {
        text += bytes;
        return text.size() > kMostAnswer ? failed(host.name + ": too long an answer") : absl::OkStatus();
      }));
  const near::StageEnd status = end.stages.empty() ? near::StageEnd{.status = near::kNotStarted} : end.stages[0];
  if (end.problem.empty() && status.status == 0 && status.signal == 0) return text;
  return failed(fmt::format("{}: {}", host.name,
                            end.problem.empty() ? end.errors.substr(0, end.errors.find('\n')) : end.problem));
}

absl::StatusOr<NearStatsResult> stats_near(const Checkpoint& checkpoint, const std::vector<size_t>& tensors,
                                           const NearStats& near) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // of workers that are gone
  auto result = HoldersStats(checkpoint, tensors, near).run();
  std::signal(SIGPIPE, before);
  return result;
}

}  // namespace scalai::apps
