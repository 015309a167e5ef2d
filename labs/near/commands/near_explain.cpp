#include "labs/near/commands/near_explain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;

struct Row {
  std::string command, where, split, merge, why;
};

std::vector<Row> rows_of(const near::Question& question, const near::Placement& placement) {
  std::vector<Row> rows;
  for (size_t i = 0; i < question.pipeline.size(); ++i) {
    const bool is_near = i < placement.near, again = is_near && i >= placement.local_from;
    Row row{.command = near::text_of({question.pipeline[i]}),
            .where = again     ? "near, here"
                     : is_near ? "near"
                               : "here",
            .split = !is_near                     ? ""
                     : placement.parts.size() < 2 ? "whole"
                     : placement.by_record(i)     ? "by record"
                                                  : "by file",
            .merge = "",
            .why = placement.why[i]};
    const bool merges =
        placement.merge == near::Merge::kConcatenate ? i + 1 == placement.near : i == placement.merge_stage;
    if (is_near && merges && placement.parts.size() > 1) row.merge = near::name_of(placement.merge);
    rows.push_back(std::move(row));
  }
  return rows;
}

struct OfHost {
  int64_t parts = 0, bytes = 0;
};

std::vector<OfHost> by_host(const near::Question& question, const near::Placement& placement) {
  std::vector<OfHost> hosts(question.source.hosts.size());
  for (const near::PlacedPart& part : placement.parts) {
    ++hosts[part.host].parts;
    hosts[part.host].bytes += part.bytes;
  }
  return hosts;
}

void print_json(const near::Question& question, const near::Placement& placement) {
  ordered_json json = {{"commands", ordered_json::array()},
                       {"hosts", ordered_json::array()},
                       {"input_bytes", placement.input_bytes},
                       {"moved_bytes_guess", placement.moved_bytes},
                       {"moved_bytes_if_read_here", placement.moved_if_local_bytes}};
  for (const Row& row : rows_of(question, placement))
    json["commands"].push_back(
        {{"command", row.command}, {"where", row.where}, {"split", row.split}, {"merge", row.merge}, {"why", row.why}});
  const std::vector<OfHost> hosts = by_host(question, placement);
  for (size_t i = 0; i < hosts.size(); ++i)
    json["hosts"].push_back({{"host", question.source.hosts[i].name},
                             {"folder", question.source.hosts[i].folder},
                             {"parts", hosts[i].parts},
                             {"bytes", hosts[i].bytes}});
  print("{}\n", json_text(json, {.indent = 2}));
}

}  // namespace

void explain_near(const near::Question& question, const near::Placement& placement, const std::string& format) {
  if (format == "json") return print_json(question, placement);
  Table commands({"command", "where", "split", "outputs", "why here"});
  for (const Row& row : rows_of(question, placement))
    commands.row({row.command, row.where, row.split, row.merge, row.why});
  Table table({"host", "folder", "parts>", "bytes>"});
  table.leave_out_first({"folder"});
  const std::vector<OfHost> hosts = by_host(question, placement);
  for (size_t i = 0; i < hosts.size(); ++i)
    table.row({question.source.hosts[i].name, question.source.hosts[i].folder, fmt::format("{}", hosts[i].parts),
               fmt::format("{}", hosts[i].bytes)});
  print("{}\n{}\n", commands.text(stdout_screen()), table.text(stdout_screen()));
  print("moves about {} from other hosts (a guess of the annotations); read here it would be {}\n",
        format_bytes(placement.moved_bytes), format_bytes(placement.moved_if_local_bytes));
}

}  // namespace scalai::apps
