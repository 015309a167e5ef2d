#include "ptc/sched/policies/external/protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"

namespace scalai::sched {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownBytes = 300;

std::string shown(const std::string& line) {
  return line.size() <= kShownBytes ? line : line.substr(0, kShownBytes) + " …";
}

// JSON has no infinity.
Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

const char* name_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kSubmitted: return "submitted";
    case Event::Kind::kFinished: return "finished";
    case Event::Kind::kLost: return "lost";
    case Event::Kind::kRate: return "rate";
    case Event::Kind::kCapacity: return "capacity";
    case Event::Kind::kTimer: return "timer";
  }
  return "";
}

GpuType type_at(size_t index) { return GpuType(static_cast<int64_t>(index)); }

Json by_type(const View& view, const auto& value) {
  Json json = Json::object();
  for (size_t t = 0; t < view.fleet().types.size(); ++t) json[view.fleet().types[t].name] = value(type_at(t));
  return json;
}

Json placement_json(const View& view, const Placement& placement) {
  if (placement.empty()) return nullptr;
  Json hosts = Json::array();
  for (const HostShare& share : placement.hosts) hosts.push_back({{"host", share.host.value}, {"gpus", share.gpus}});
  return {{"type", view.fleet().types[static_cast<size_t>(placement.type.value)].name},
          {"gpus", placement.gpus()},
          {"hosts", std::move(hosts)}};
}

Json job_json(const View& view, JobId id) {
  const Job& job = view.job(id);
  const Progress progress = view.progress(id);
  const auto rate = [&](GpuType type) { return view.throughput().rate(job, type, job.gpus, progress.work_done).per_s; };
  return {{"job", job.name},
          {"type", job.type},
          {"entity", job.entity},
          {"submit_s", job.submit_s},
          {"gpus", job.gpus},
          {"min_gpus", job.min_gpus},
          {"max_gpus", job.max_gpus},
          {"weight", job.weight},
          {"deadline_s", or_null(job.deadline_s)},
          {"work", job.work},
          {"work_done", progress.work_done},
          {"per_s", by_type(view, rate)},
          {"first_start_s", or_null(progress.first_start_s)},
          {"executed_s", progress.executed_s},
          {"attained_gpu_s", progress.attained_gpu_s},
          {"restarts", progress.restarts},
          {"has", placement_json(view, progress.placement)}};
}

absl::StatusOr<Json> parse(const std::string& line) {
  absl::StatusOr<Json> json = read_ordered_json(line);
  if (!json.ok()) return failed(fmt::format("its answer, {}: {}", message_of(json.status()), shown(line)));
  if (!json->is_object()) return failed(fmt::format("its answer is no JSON object: {}", shown(line)));
  return json;
}

// Names of jobs come from traces: what is not UTF-8 in them must not end the run.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class DecisionReader {
 public:
  DecisionReader(const View& view, const std::map<std::string, JobId>& jobs) : view_(view), jobs_(jobs) {}

  absl::StatusOr<Decision> read(const Json& json) {
    check_names(json, {"grants", "refused", "wake_at_s"}, "the answer");
    if (json.contains("grants")) read_grants(json["grants"]);
    if (json.contains("refused")) read_refused(json["refused"]);
    if (json.contains("wake_at_s") && !json["wake_at_s"].is_null()) read_wake(json["wake_at_s"]);
    if (problem_.empty()) check_capacity();
    if (!problem_.empty()) return failed(problem_);
    return std::move(decision_);
  }

 private:
  void wrong(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  void check_names(const Json& object, const std::vector<std::string>& known, const std::string& where) {
    for (const auto& [name, value] : object.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      wrong(fmt::format("{} has a field \"{}\", which is none of {}", where, name, fmt::join(known, ", ")));
    }
  }

  std::optional<JobId> job_named(const Json& name, const std::string& where) {
    if (!name.is_string()) {
      wrong(where + " names no job: \"job\" is to be a text");
      return std::nullopt;
    }
    const auto text = name.get<std::string>();
    const auto found = jobs_.find(text);
    if (found == jobs_.end()) {
      std::vector<std::string> names;
      for (const auto& [known, id] : jobs_) names.push_back(known);
      const std::string near = closest(text, names);
      wrong(fmt::format("{} names \"{}\", which is no job that is here{}", where, text,
                        near.empty() ? "" : fmt::format(" (is it \"{}\"?)", near)));
      return std::nullopt;
    }
    if (!named_.insert(found->second).second) {
      wrong(fmt::format("{} names job \"{}\" a second time", where, text));
      return std::nullopt;
    }
    return found->second;
  }

  std::optional<int> count(const Json& object, const char* name, const std::string& where) {
    if (object.contains(name) && object[name].is_number_integer() && object[name] >= 0 && object[name] <= 1 << 30) {
      return object[name].get<int>();
    }
    wrong(fmt::format("{} has no whole number \"{}\"", where, name));
    return std::nullopt;
  }

  std::optional<GpuType> type_of(const Json& grant, const std::string& where) {
    const auto& types = view_.fleet().types;
    if (!grant.contains("type") && types.size() == 1) return GpuType(0);
    const std::string name =
        grant.contains("type") && grant["type"].is_string() ? grant["type"].get<std::string>() : "";
    for (size_t t = 0; t < types.size(); ++t) {
      if (types[t].name == name) return type_at(t);
    }
    std::vector<std::string> names;
    for (const TypeSpec& type : types) names.push_back(type.name);
    wrong(fmt::format("{}: \"type\" is none of {}", where, fmt::join(names, ", ")));
    return std::nullopt;
  }

  void read_grants(const Json& grants) {
    if (!grants.is_array()) return wrong("\"grants\" is no list");
    for (size_t i = 0; i < grants.size() && problem_.empty(); ++i) read_grant(grants[i], fmt::format("grants[{}]", i));
  }

  void read_grant(const Json& json, const std::string& where) {
    if (!json.is_object()) return wrong(where + " is no object");
    check_names(json, {"job", "type", "gpus", "hosts"}, where);
    const auto job = job_named(json.value("job", Json()), where);
    const auto gpus = count(json, "gpus", where);
    if (!job || !gpus) return;
    Grant grant;
    grant.job = *job;
    grant.gpus = *gpus;
    if (*gpus > 0) {
      const Job& spec = view_.job(*job);
      if (*gpus < spec.min_gpus || *gpus > spec.max_gpus) {
        return wrong(fmt::format("{} gives job \"{}\" {} GPUs, it takes {}", where, spec.name, *gpus,
                                 spec.min_gpus == spec.max_gpus
                                     ? fmt::format("{}", spec.min_gpus)
                                     : fmt::format("{} to {}", spec.min_gpus, spec.max_gpus)));
      }
      const auto type = type_of(json, where);
      if (!type) return;
      grant.type = *type;
      if (json.contains("hosts")) read_hosts(json["hosts"], where, grant);
    }
    decision_.grants.push_back(std::move(grant));
  }

  void read_hosts(const Json& hosts, const std::string& where, Grant& grant) {
    if (!hosts.is_array()) return wrong(where + ": \"hosts\" is no list");
    int sum = 0;
    std::map<HostId, int> shares;
    for (const Json& json : hosts) {
      if (!json.is_object()) return wrong(where + ": \"hosts\" holds what is no object");
      check_names(json, {"host", "gpus"}, where + ": a host");
      const auto host = count(json, "host", where + ": a host");
      const auto gpus = count(json, "gpus", where + ": a host");
      if (!host || !gpus) return;
      const auto& all = view_.fleet().hosts;
      if (static_cast<size_t>(*host) >= all.size() || all[static_cast<size_t>(*host)].type != grant.type) {
        return wrong(fmt::format("{}: host {} is none of that type", where, *host));
      }
      if (*gpus == 0 || !shares.emplace(HostId(*host), *gpus).second) {
        return wrong(fmt::format("{}: host {} is named twice, or with 0 GPUs", where, *host));
      }
      sum += *gpus;
    }
    if (sum != grant.gpus) wrong(fmt::format("{}: its hosts have {} GPUs, \"gpus\" says {}", where, sum, grant.gpus));
    for (const auto& [host, gpus] : shares) grant.hosts.push_back({host, gpus});
  }

  void read_refused(const Json& refused) {
    if (!refused.is_array()) return wrong("\"refused\" is no list");
    for (const Json& name : refused) {
      const auto job = job_named(name, "\"refused\"");
      if (!job) return;
      if (!view_.progress(*job).placement.empty()) {
        return wrong(fmt::format("\"refused\" names job \"{}\", which runs", view_.job(*job).name));
      }
      decision_.refused.push_back(*job);
    }
  }

  void read_wake(const Json& wake) {
    if (!wake.is_number()) return wrong("\"wake_at_s\" is no number");
    decision_.wake_at_s = wake.get<double>();
    if (!(decision_.wake_at_s > view_.now_s())) {
      wrong(fmt::format("\"wake_at_s\" is {}, not after now ({} s)", decision_.wake_at_s, view_.now_s()));
    }
  }

  // What is granted and what stays, against what is up. Hosts under notice count for nobody.
  void check_capacity() {
    std::vector<int64_t> used(view_.fleet().types.size());
    std::map<HostId, int> on_host;
    std::set<JobId> changed;
    for (const Grant& grant : decision_.grants) {
      changed.insert(grant.job);
      if (grant.gpus == 0) continue;
      used[static_cast<size_t>(grant.type.value)] += grant.gpus;
      for (const HostShare& share : grant.hosts) on_host[share.host] += share.gpus;
    }
    for (const auto& [name, id] : jobs_) {
      if (changed.count(id) != 0) continue;
      const Progress progress = view_.progress(id);
      if (progress.beside.valid()) continue;
      for (const HostShare& share : progress.placement.hosts) {
        if (view_.capacity(share.host) == 0) continue;
        used[static_cast<size_t>(progress.placement.type.value)] += share.gpus;
        if (on_host.count(share.host) != 0) on_host[share.host] += share.gpus;
      }
    }
    for (size_t t = 0; t < used.size(); ++t) {
      if (used[t] <= view_.capacity(type_at(t))) continue;
      wrong(fmt::format("it gives away {} GPUs of type {}, there are {}", used[t], view_.fleet().types[t].name,
                        view_.capacity(type_at(t))));
    }
    for (const auto& [host, gpus] : on_host) {
      if (gpus <= view_.capacity(host)) continue;
      wrong(fmt::format("it gives away {} GPUs of host {}, which has {}", gpus, host.value, view_.capacity(host)));
    }
  }

  const View& view_;
  const std::map<std::string, JobId>& jobs_;
  std::set<JobId> named_;
  Decision decision_;
  std::string problem_;
};

}  // namespace

std::string hello_line(const View& view, uint64_t seed) {
  const Fleet& fleet = view.fleet();
  Json types = Json::array(), hosts = Json::array();
  for (size_t t = 0; t < fleet.types.size(); ++t) {
    types.push_back({{"type", fleet.types[t].name},
                     {"gpus", fleet.gpus(type_at(t))},
                     {"price_per_gpu_hour", fleet.types[t].price_per_gpu_hour}});
  }
  for (const HostSpec& host : fleet.hosts) {
    hosts.push_back({{"type", fleet.types[static_cast<size_t>(host.type.value)].name}, {"gpus", host.gpus}});
  }
  return line_of(
      {{"scalai_policy", kExternalProtocol}, {"ask", "hello"}, {"seed", seed}, {"types", types}, {"hosts", hosts}});
}

absl::Status check_hello(const std::string& answer) {
  SCALAI_ASSIGN_OR_RETURN(const Json json, parse(answer));
  const Json version = json.value("scalai_policy", Json());
  if (version.is_number_integer() && version == kExternalProtocol) return absl::OkStatus();
  return failed(fmt::format("it speaks version {} of the protocol, this program speaks {}: {}",
                            version.is_null() ? "?" : version.dump(), kExternalProtocol, shown(answer)));
}

std::string decide_line(const View& view, std::span<const Event> events) {
  Json happened = Json::array(), jobs = Json::array();
  for (const Event& event : events) {
    Json json = {{"event", name_of(event.kind)}};
    if (event.job.valid()) json["job"] = view.job(event.job).name;
    happened.push_back(std::move(json));
  }
  for (const JobId id : view.active()) jobs.push_back(job_json(view, id));
  return line_of({{"ask", "decide"},
                  {"now_s", view.now_s()},
                  {"events", std::move(happened)},
                  {"capacity", by_type(view, [&](GpuType type) { return view.capacity(type); })},
                  {"price", by_type(view, [&](GpuType type) { return view.price(type); })},
                  {"jobs", std::move(jobs)}});
}

absl::StatusOr<Decision> read_decision(const std::string& answer, const View& view,
                                       const std::map<std::string, JobId>& jobs) {
  SCALAI_ASSIGN_OR_RETURN(const Json json, parse(answer));
  auto decision = DecisionReader(view, jobs).read(json);
  if (decision.ok()) return decision;
  return failed(fmt::format("{}; its answer: {}", message_of(decision.status()), shown(answer)));
}

}  // namespace scalai::sched
