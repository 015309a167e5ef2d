// `scalai checkpoint stats` with --host.
#include <fmt/format.h>

#include "apps/checkpoint/stats.h"
#include "apps/common/output.h"
#include "labs/near/commands/commands.h"
#include "labs/near/commands/near_hosts.h"
#include "labs/near/commands/stats_spread.h"
#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/url.h"

namespace scalai::apps {
namespace {

using store::Checkpoint;
using store::TensorStats;

StatsSource::Opened opened_of(const SpreadCheckpoint& spread) { return {spread.path, spread.checkpoint}; }

// Hosts that have all of what is whole here, too, take tensors; else each looks at what it has.
class SourceOnHosts final : public StatsSource {
 public:
  SourceOnHosts(NearStats near, SpreadCheckpoint opened, SpreadCheckpoint before)
      : StatsSource(opened_of(opened), opened_of(before)),
        near_(std::move(near)),
        now_(std::move(opened)),
        since_(std::move(before)) {}

  absl::StatusOr<std::vector<TensorStats>> stats(const std::vector<size_t>& tensors,
                                                 const StatsProgress& progress) override {
    near_.progress = progress;
    near_.since = before();
    auto result = now_.is_whole_here ? stats_near(*now_.checkpoint, tensors, near_) : stats_spread(tensors, spread());
    if (!result.ok()) return result.status();
    notes = std::move(result->notes);
    return std::move(result->stats);
  }

  absl::StatusOr<std::string> explained(const std::vector<size_t>& tensors) const override {
    if (now_.is_whole_here)
      return fmt::format("{} is whole on this machine: hosts that have all of it, too, take tensors as they get free\n",
                         now_.path);
    SCALAI_ASSIGN_OR_RETURN(const std::vector<SpreadShare> shares, shares_of(tensors, spread()));
    Table table({"host", "files>", "parts>", "bytes>"});
    for (const SpreadShare& share : shares)
      table.row(
          {share.host, fmt::format("{}", share.files), fmt::format("{}", share.parts), fmt::format("{}", share.bytes)});
    return fmt::format("{}\nwhat is looked at here is fetched\n", table.text(stdout_screen()));
  }

 private:
  SpreadStats spread() const {
    return {.checkpoint = now_,
            .since = before() == nullptr ? nullptr : &since_,
            .launch = near_.launch,
            .progress = near_.progress};
  }

  NearStats near_;
  const SpreadCheckpoint now_, since_;
};

// The hosts of --host, and how the same options are said there. Paths are the same on every host, but for that of
// --host.
absl::StatusOr<NearStats> near_of(const Arguments& arguments) {
  NearStats near;
  SCALAI_ASSIGN_OR_RETURN(near.hosts, read_hosts(arguments, absolute_path(arguments.positional()[0])));
  if (near.hosts.empty()) return near;
  SCALAI_ASSIGN_OR_RETURN(near.launch, read_launch_of_workers(arguments));
  const auto pass = [&](const char* option, bool is_path, std::vector<std::string>& words) {
    const std::string value = arguments.text(option);
    if (arguments.has(option)) words.push_back(fmt::format("--{}={}", option, is_path ? absolute_path(value) : value));
  };
  for (const char* file : {"config", "families"}) pass(file, true, near.form);
  for (const char* same : {"from", "names", "model", "drop"}) pass(same, false, near.form);
  pass("since", true, near.since_words);
  for (const char* same : {"since-from", "since-names"}) pass(same, false, near.since_words);
  return near;
}

// `of`: what options of it begin with. On hosts where it is not whole here; there, too, it may be a folder, and nothing
// else.
absl::StatusOr<SpreadCheckpoint> open_source(const Arguments& arguments, const std::string& path, const std::string& of,
                                             const std::vector<near::Host>& hosts, const near::Launch& launch) {
  SCALAI_ASSIGN_OR_RETURN(const store::OpenOptions options, stats_open_options(arguments, path, of));
  auto here = Checkpoint::open(path, options);
  if (here.ok())
    return SpreadCheckpoint{
        .path = (*here)->info().path, .source = {}, .checkpoint = *std::move(here), .is_whole_here = true};
  if (is_http(path) || path.ends_with(".safetensors")) return here.status();
  return open_spread(path, hosts, launch, options, !of.empty());
}

// What --since names. Where hosts have it beside a checkpoint that is not whole here, nothing has to be fetched.
absl::StatusOr<SpreadCheckpoint> open_since(const Arguments& arguments, const NearStats& near,
                                            const absl::StatusOr<SpreadCheckpoint>& now) {
  if (!arguments.has("since")) return SpreadCheckpoint{};
  const std::string path = arguments.text("since");
  std::vector<near::Host> hosts = near.hosts;
  for (near::Host& host : hosts) host.folder = absolute_path(path);
  if (now.ok() && !now->is_whole_here) {
    const auto options = stats_open_options(arguments, path, "since-");
    if (options.ok()) {
      auto there = open_spread(path, hosts, near.launch, *options, true);
      if (there.ok()) return there;
    }
  }
  return open_source(arguments, path, "since-", hosts, near.launch);
}

absl::StatusOr<std::unique_ptr<StatsSource>> open_on_hosts(const Arguments& arguments, NearStats near) {
  if (near.hosts.empty()) return open_here(arguments);  // of a file without any
  auto now = open_source(arguments, arguments.positional()[0], "", near.hosts, near.launch);
  auto since = open_since(arguments, near, now);
  SCALAI_RETURN_IF_ERROR(joined_problems(now.status(), since.status()));
  return std::make_unique<SourceOnHosts>(std::move(near), *std::move(now), *std::move(since));
}

int stats_main(const Arguments& arguments) {
  if (const std::string wrong = wrong_stats_options(arguments); !wrong.empty())
    return usage_error("checkpoint stats", wrong);
  auto near = near_of(arguments);
  if (!near.ok())
    return absl::IsInvalidArgument(near.status()) ? usage_error("checkpoint stats", message_of(near.status()))
                                                  : report_error(near.status());
  raise_open_files();  // a checkpoint of a thousand ranks has as many files
  const auto source = open_on_hosts(arguments, *std::move(near));
  return source.ok() ? show_stats(arguments, **source) : report_error(source.status());
}

}  // namespace

Command near_stats_command() { return {stats_spec(), stats_main}; }

}  // namespace scalai::apps
