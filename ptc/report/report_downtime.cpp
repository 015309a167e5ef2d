// The downtime of jobs by cause, what they do about notices, and the losses of devices that nothing followed.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

// Reasons in tables are cut to this many columns.
constexpr size_t kReasonColumns = 96;

// A long run has many reasons: the longest ones, and the sum of the others.
std::vector<DowntimePart> waits_of(const DowntimeSummary& down) {
  constexpr size_t kRows = 4;
  std::vector<WaitSummary> waits = down.waits;
  if (waits.size() > kRows)
    std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  std::vector<DowntimePart> parts;
  double others_s = 0;
  for (const WaitSummary& wait : waits) {
    if (parts.size() < kRows) {
      parts.push_back({"waiting", wait.seconds, wait.reason + (wait.until_end ? "; until the end of the run" : "")});
    } else {
      others_s += wait.seconds;
    }
  }
  parts.push_back({"waiting", others_s, counted(static_cast<int64_t>(waits.size() - parts.size()), "other reason")});
  return parts;
}

std::string answer_to(const NoticeSummary& notice) {
  const double waits_s = notice.starts_s - notice.at_s;
  const std::string at = waits_s > 0 ? fmt::format("trains on for {} and ", format_seconds(waits_s)) : "at once ";
  const std::string takes = format_seconds(notice.takes_s), all = format_bytes(notice.only_there_bytes);
  if (notice.answer == "leaves" && notice.only_there_bytes == 0) return at + "leaves; others hold all of its state";
  if (notice.answer == "leaves") return fmt::format("{}leaves; {} that only they hold are out in {}", at, all, takes);
  if (notice.answer == "copies")
    return fmt::format("{}copies {} that only they hold to hosts that stay, in {}", at, all, takes);
  if (notice.answer == "checkpoint") return fmt::format("{}writes a checkpoint in {}", at, takes);
  const std::string text = fmt::format("{} of {} that only they hold can be out in time; without: {}",
                                       format_bytes(notice.in_time_bytes), all, notice.lost);
  if (notice.answer == "loses")
    return fmt::format("{}; there is no copy to go back to: step {} is lost", text, notice.step);
  return fmt::format("{}; so {}back to step {}: {} ({}) are run again", text,
                     notice.starts_s < notice.deadline_s ? "at once " : "unless a copy under way arrives, ",
                     notice.step, counted(notice.repeated_steps, "step"), format_seconds(notice.repeated_s));
}

}  // namespace

std::string notice_line(const std::string& job, const NoticeSummary& notice) {
  return printable_text(fmt::format("{}: {} to be left by {}, told {} before: {}", clipped(job, kNameColumns),
                                    notice.devices, moment(notice.deadline_s),
                                    format_seconds(notice.deadline_s - notice.at_s), answer_to(notice)));
}

std::string notice_text(const std::string& job, const control::NoticeRecord& notice) {
  return notice_line(job, summarize(notice));
}

std::string notice_lines(const Summary& summary, const Screen& screen) {
  std::string text;
  for (const JobSummary& job : summary.jobs) {
    for (const NoticeSummary& notice : job.notices.value_or(std::vector<NoticeSummary>{}))
      text += fmt::format("{}\n", fmt::join(wrapped(notice_line(job.name, notice), screen.columns), "\n"));
  }
  return text;
}

std::vector<DowntimePart> downtime_parts(const JobSummary& job) {
  if (!job.downtime) return {};
  const DowntimeSummary& down = *job.downtime;
  std::vector<DowntimePart> parts = {
      {"pauses", down.reconfigurations_s, counted(job.totals.reconfigurations, "reconfiguration")}};
  for (DowntimePart& part : waits_of(down)) parts.push_back(std::move(part));
  parts.push_back({"steps run again", down.run_again_s, counted(job.lost_steps, "step") + " done after the snapshot"});
  parts.push_back({"steps cut off", down.cut_off_s, "by failures, or the end of the run"});
  parts.push_back({"snapshot stalls", down.snapshots_s, "training stood still for checkpoints and copies"});
  std::erase_if(parts, [](const DowntimePart& part) { return part.seconds <= 0; });
  return parts;
}

std::string downtime_table(const Summary& summary, const Screen& screen) {
  const bool several = summary.jobs.size() > 1;
  std::vector<std::string> headers = {"downtime", "time>", "why~"};
  if (several) headers.insert(headers.begin(), "job");
  Table table(std::move(headers));
  bool any = false;
  for (const JobSummary& job : summary.jobs) {
    for (const DowntimePart& part : downtime_parts(job)) {
      any = true;
      std::vector<std::string> cells = {part.name, format_seconds(part.seconds), clipped(part.why, kReasonColumns)};
      if (several) cells.insert(cells.begin(), clipped(job.name, kNameColumns));
      table.row(std::move(cells));
    }
  }
  return any ? "\n" + table.text(screen) : "";
}

std::string consequence_of(const LossSummary& loss) {
  std::string text;
  for (const LossEffectSummary& effect : loss.effects)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", clipped(effect.job, kNameColumns), effect.outcome);
  return text.empty() ? "no job used them" : text;
}

std::vector<LossSummary> losses_without_change(const Summary& summary) {
  std::vector<LossSummary> losses = summary.losses.value_or(std::vector<LossSummary>{});
  std::erase_if(losses, [](const LossSummary& loss) {
    return std::any_of(loss.effects.begin(), loss.effects.end(),
                       [](const LossEffectSummary& effect) { return effect.reconfiguration.has_value(); });
  });
  return losses;
}

std::string cause_lines(const Summary& summary, const Screen& screen) {
  std::string text;
  for (const LossSummary& loss : summary.losses.value_or(std::vector<LossSummary>{})) {
    if (!loss.cause) continue;
    const std::string line = fmt::format("{}: lost {}: {}", moment(loss.noticed_s), loss.devices, *loss.cause);
    text += fmt::format("{}\n", fmt::join(wrapped(line, screen.columns), "\n"));
  }
  return text;
}

std::string copy_lines(const Summary& summary) {
  std::string text;
  for (const JobSummary& job : summary.jobs) {
    if (job.checkpoints_left_out)
      text += fmt::format("{}: {} left out, because the one before was still being written\n",
                          clipped(job.name, kNameColumns), counted(*job.checkpoints_left_out, "checkpoint"));
    if (!job.redundancy) continue;
    const std::optional<int64_t>& survives = job.redundancy->survives_host_losses;
    text += fmt::format("{}: redundant copies made {}", clipped(job.name, kNameColumns),
                        counted(job.redundancy->made, "time"));
    if (survives) {
      text += *survives == 0 ? "; they survive the loss of no host"
                             : fmt::format("; they survive the loss of any {}", counted(*survives, "host"));
    }
    if (job.redundancy->left_out)
      text += fmt::format("; left out {}, because those before were still being made",
                          counted(*job.redundancy->left_out, "time"));
    text += "\n";
  }
  return text;
}

}  // namespace scalai::report
