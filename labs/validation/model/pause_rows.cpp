#include "labs/validation/model/pause_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "labs/validation/model/internal/printed.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/change/setup.h"

namespace scalai::step::validation {
namespace {

// Ranks in order, tp within a host first.
change::Groups groups_in_order(const cluster::GpuKind& gpu, int gpus, int per_host, int tp, int pp) {
  collection::Collection collection;
  collection.meshes = {collection::Mesh({{"tp", tp}, {"dp", gpus / (tp * pp)}, {"pp", pp}})};
  cluster::Cluster cluster;
  for (int first = 0; first < gpus; first += per_host)
    cluster.hosts.push_back({.first_device = first, .gpus = std::min(per_host, gpus - first), .gpu = gpu});
  for (int rank = 0; rank < gpus; ++rank) collection.device_of_rank.emplace_back(rank);
  return change::groups_of(collection, cluster);
}

std::optional<double> seconds_of(const std::string& quantity, const change::Stack& stack, change::Groups groups) {
  if (quantity == "restart") return change::restart_s(stack, groups.ranks);
  if (quantity == "initialisation") return change::initialisation_s(stack, groups);
  if (quantity != "communicator") return std::nullopt;
  groups.kinds.resize(1);  // the world
  return change::initialisation_s(stack, groups);
}

}  // namespace

std::vector<std::string> pause_columns() {
  return {"label", "source", "quantity", "stack",     "gpu",       "gpus",   "gpus_per_host",
          "tp",    "pp",     "later",    "connected", "published", "fitted", "note"};
}

RowResult pause_result(RowReader& row) {
  const std::string quantity = row.text("quantity"), name = row.text("stack");
  RowResult result{.label = row.text("label"),
                   .unit = "s",
                   .published_text = row.text("published"),
                   .published = row.number("published"),
                   .fitted = row.flag("fitted", false)};
  const int gpus = row.count("gpus"), per_host = row.count("gpus_per_host", 8), tp = row.count("tp", 1),
            pp = row.count("pp", 1);
  const std::string kind = row.text("gpu", ""), source = row.text("source", "");
  const cluster::GpuKind* gpu = cluster::find_gpu_kind(kind);
  if (!kind.empty() && gpu == nullptr) row.problem("gpu", fmt::format("unknown GPU kind \"{}\"", kind));
  const auto stack = change::find_stack(name);
  if (!name.empty() && !stack.ok())
    row.problem("stack", fmt::format("unknown stack \"{}\"", name),
                fmt::format("known: {}", fmt::join(change::stack_names(), ", ")));
  if (row.ok() && (gpus < 2 || per_host < 1 || tp < 1 || pp < 1 || gpus % (tp * pp) != 0))
    row.problem("gpus", "needs at least 2 GPUs that tp and pp divide, and hosts with GPUs");
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if (!row.ok()) return result;
  change::Groups groups = groups_in_order(gpu == nullptr ? cluster::GpuKind() : *gpu, gpus, per_host, tp, pp);
  groups.processes_stay = row.flag("later", false);
  if (!row.flag("connected", true)) {
    for (change::GroupKind& one : groups.kinds) one.across_hosts = false;
  }
  const std::optional<double> seconds = seconds_of(quantity, **stack, groups);
  if (!seconds) {
    row.problem("quantity", fmt::format("unknown quantity \"{}\"", quantity),
                "known: initialisation, communicator, restart");
    return result;
  }
  result.machine = fmt::format("{} {}", name, quantity);
  result.group = quantity == "restart" ? "restart" : "communicators";
  result.held_out = !result.fitted && (source.empty() || PublishedTable::is_held_out(source));
  conclude(result, *seconds, *seconds / result.published - 1);
  return result;
}

}  // namespace scalai::step::validation
