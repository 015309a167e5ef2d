// Bytes by class against their bounds, and who sends to whom (internal/run_sections.h).

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/report/chart/grid.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

constexpr size_t kMostHosts = 24;

struct Class {
  const char* name;
  const char* css;
  int64_t plan::ClassBytes::*bytes;
};
constexpr Class kClasses[] = {{"same host", "k-same", &plan::ClassBytes::same_host},
                              {"cross host", "k-cross", &plan::ClassBytes::cross_host},
                              {"from storage", "k-storage", &plan::ClassBytes::from_storage}};

struct Sum {
  double bytes = 0, bound = 0;
};

Sum sum_of(const RunData& run, const Class& of) {
  Sum sum;
  for (const JobSummary& job : run.summary.jobs) {
    for (const ReconfigurationSummary& change : job.reconfigurations) {
      if (!change.completed) continue;
      sum.bytes += static_cast<double>(change.bytes.*of.bytes);
      sum.bound += static_cast<double>(change.lower_bound_bytes.*of.bytes);
    }
  }
  return sum;
}

std::string words(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

Figure bytes_figure(const std::vector<RunData>& runs) {
  Figure figure{
      .title = "Bytes that moved, and the least that any plan must move",
      .caption = "Sums over completed reconfigurations. The stroke is the lower bound, given the device of each rank."};
  chart::Lanes lanes{.title = figure.title, .description = "A bar a run and link class; a stroke at the lower bound."};
  lanes.x = {"bytes", chart::Unit::kBytes, "", 0, 0};
  lanes.lane_height = 18;
  figure.numbers.headers = {"run", "class", "moved>", "lower bound>"};
  for (const RunData& run : runs) {
    for (const Class& of : kClasses) {
      const Sum sum = sum_of(run, of);
      if (sum.bytes == 0 && sum.bound == 0) continue;
      chart::Lane lane{.label = runs.size() > 1 ? run.label + " · " + of.name : of.name, .end = words(sum.bytes)};
      append(lane, sum.bytes, of.css,
             {.title = fmt::format("{}: {}; bound {}", of.name, words(sum.bytes), words(sum.bound)),
              .series = of.name,
              .value = sum.bytes});
      lane.markers.push_back({sum.bound, "bound", "lower bound: " + words(sum.bound)});
      lanes.x.high = std::max({lanes.x.high, sum.bytes, sum.bound});
      lanes.lanes.push_back(std::move(lane));
      figure.numbers.rows.push_back({run.label, of.name, words(sum.bytes), words(sum.bound)});
    }
  }
  lanes.x = rounded(lanes.x, 9);
  figure.draw = drawing(lanes, chart::lanes_svg);
  return figure;
}

PageTable changes_table(const RunData& run) {
  const bool several = run.summary.jobs.size() > 1;
  PageTable table{.headers = {"at>", "cause", "from → to", "GPUs", "same host>", "cross host>", "bound>", "storage>",
                              "pause>", "steps lost>", "survives host losses>"}};
  if (several) table.headers.insert(table.headers.begin(), "job");
  for (const JobSummary& job : run.summary.jobs) {
    for (const ReconfigurationSummary& r : job.reconfigurations) {
      std::vector<std::string> cells = {moment(r.at_s),
                                        r.cause,
                                        r.from + " → " + r.to,
                                        fmt::format("{} → {}", r.from_gpus, r.to_gpus),
                                        format_bytes(r.bytes.same_host),
                                        format_bytes(r.bytes.cross_host),
                                        format_bytes(r.lower_bound_bytes.cross_host),
                                        format_bytes(r.bytes.from_storage),
                                        r.resumed_s ? format_seconds(r.pause_s) : "never ends",
                                        std::to_string(r.rolled_back_steps),
                                        std::to_string(r.survives_host_losses)};
      if (several) cells.insert(cells.begin(), job.name);
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

void add_traffic(Document& page, const RunData& run) {
  if (!run.transfers || !run.devices) return;
  const Traffic traffic = traffic_of(*run.transfers, *run.devices, kMostHosts);
  double sum = 0;
  for (const auto& row : traffic.bytes)
    for (const double bytes : row) sum += bytes;
  std::string elsewhere;
  for (const auto& [phase, bytes] : traffic.elsewhere)
    elsewhere += fmt::format("{}{} {}", elsewhere.empty() ? "" : ", ", phase, words(bytes));
  if (!elsewhere.empty()) elsewhere = "Outside reconfigurations: " + elsewhere + ".";
  if (sum == 0) {
    page.paragraph(fmt::format("{}: no transfers in reconfigurations. {}", run.label, elsewhere));
    return;
  }
  chart::Matrix matrix{.title = "Who sends to whom in " + run.label,
                       .description = "Bytes from a host (rows) to a host (columns).",
                       .row_title = "from",
                       .column_title = "to",
                       .rows = traffic.hosts,
                       .columns = traffic.hosts,
                       .values = traffic.bytes,
                       .words = words};
  PageTable numbers{.headers = {"from", "to", "bytes>"}};
  for (size_t r = 0; r < traffic.hosts.size(); ++r)
    for (size_t c = 0; c < traffic.hosts.size(); ++c)
      if (traffic.bytes[r][c] > 0)
        numbers.rows.push_back({traffic.hosts[r], traffic.hosts[c], words(traffic.bytes[r][c])});
  page.figure({.title = run.label,
               .caption = "Transfers of reconfigurations that were done; those by way of host memory count on each "
                          "leg. The diagonal is inside a host. " +
                          elsewhere,
               .draw =
                   [matrix](const std::string& id, double width) {
                     chart::Matrix picture = matrix;
                     picture.id = id;
                     return matrix_svg(picture, width);
                   },
               .numbers = std::move(numbers)});
}

}  // namespace

void add_bytes(Document& page, const std::vector<RunData>& runs) {
  const Figure figure = bytes_figure(runs);
  page.heading(2, "Bytes");
  if (figure.numbers.rows.empty()) {
    page.paragraph("No completed reconfiguration moved anything.");
  } else {
    page.figure(figure);
  }
  for (const RunData& run : runs) {
    const PageTable changes = changes_table(run);
    if (!changes.rows.empty())
      page.folded(fmt::format("Reconfigurations of {}: {}", run.label, changes.rows.size()), changes);
  }
  page.heading(3, "Who sends to whom");
  for (const RunData& run : runs) add_traffic(page, run);
}

}  // namespace scalai::report
