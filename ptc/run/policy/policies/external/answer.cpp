#include "ptc/run/policy/policies/external/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/internal/lines.h"

namespace scalai::policy {
namespace {

using external::Json;
using external::type_at;

// Fields of an answer; keeps the first problem.
class Fields {
 public:
  Fields(const View& view, const Known& known) : view_(view), known_(known) {}
  bool good() const { return problem_.empty(); }
  absl::Status status() const { return good() ? absl::OkStatus() : failed(problem_); }

 protected:
  void wrong(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  void check_names(const Json& object, const std::vector<std::string>& known, const std::string& where) {
    for (const auto& [name, value] : object.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      wrong(fmt::format("{} has a field \"{}\", which is none of {}", where, name, fmt::join(known, ", ")));
    }
  }

  // The job that a text names.
  std::optional<JobId> job_of(const Json& name, const std::string& where, const char* field = "job") {
    if (!name.is_string()) {
      wrong(fmt::format("{} names no job: \"{}\" is to be a text", where, field));
      return std::nullopt;
    }
    const auto text = name.get<std::string>();
    const std::optional<JobId> found = known_.find(text);
    if (found) return found;
    std::vector<std::string> names;
    for (const auto& [known, id] : known_.jobs()) names.push_back(known);
    const std::string near = closest(text, names);
    wrong(fmt::format("{} names \"{}\", which is no job that is here{}", where, text,
                      near.empty() ? "" : fmt::format(" (is it \"{}\"?)", near)));
    return std::nullopt;
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

  // Of one type, by host; each once, with some GPUs that it has.
  std::optional<Placement> hosts_of(const Json& hosts, const std::string& where, std::optional<GpuType> type) {
    if (!hosts.is_array() || hosts.empty()) {
      wrong(where + ": \"hosts\" is no list of hosts");
      return std::nullopt;
    }
    std::map<HostId, int> shares;
    for (const Json& json : hosts) {
      const std::string here = where + ": a host";
      if (!json.is_object()) wrong(here + " is no object");
      if (!good()) return std::nullopt;
      check_names(json, {"host", "gpus"}, here);
      const auto host = count(json, "host", here), gpus = count(json, "gpus", here);
      if (!host || !gpus) return std::nullopt;
      const auto& all = view_.fleet().hosts;
      if (static_cast<size_t>(*host) >= all.size()) {
        wrong(fmt::format("{}: there is no host {}, they are 0 to {}", where, *host, all.size() - 1));
        return std::nullopt;
      }
      const HostSpec& spec = all[static_cast<size_t>(*host)];
      if (!type) type = spec.type;
      if (spec.type != *type) wrong(fmt::format("{}: host {} is none of type {}", where, *host, name_of(*type)));
      if (*gpus > spec.gpus) wrong(fmt::format("{}: host {} has {} GPUs, not {}", where, *host, spec.gpus, *gpus));
      if (*gpus == 0 || !shares.emplace(HostId(*host), *gpus).second) {
        wrong(fmt::format("{}: host {} is named twice, or with 0 GPUs", where, *host));
      }
    }
    if (!good()) return std::nullopt;
    Placement placement{.type = *type, .hosts = {}};
    for (const auto& [host, gpus] : shares) placement.hosts.push_back({host, gpus});
    return placement;
  }

  const std::string& name_of(GpuType type) const { return view_.fleet().types[static_cast<size_t>(type.value)].name; }
  const std::string& name_of(JobId job) const { return view_.job(job).name; }

  const View& view_;
  const Known& known_;
  std::string problem_;
};

class DecisionReader : public Fields {
 public:
  using Fields::Fields;

  Decision read(const Json& json) {
    check_names(json, {"grants", "refused", "wake_at_s"}, "the answer");
    if (json.contains("grants")) read_grants(json["grants"]);
    if (json.contains("refused")) read_refused(json["refused"]);
    if (json.contains("wake_at_s") && !json["wake_at_s"].is_null()) read_wake(json["wake_at_s"]);
    if (good()) check_pairs();
    if (good()) check_capacity();
    return std::move(decision_);
  }

 private:
  // Jobs may be decided about once.
  std::optional<JobId> job_named(const Json& name, const std::string& where) {
    const std::optional<JobId> job = job_of(name, where);
    if (!job || changed_.insert(*job).second) return job;
    wrong(fmt::format("{} names job \"{}\" a second time", where, name_of(*job)));
    return std::nullopt;
  }

  void read_grants(const Json& grants) {
    if (!grants.is_array()) return wrong("\"grants\" is no list");
    for (size_t i = 0; i < grants.size() && good(); ++i) read_grant(grants[i], fmt::format("grants[{}]", i));
  }

  void read_grant(const Json& json, const std::string& where) {
    if (!json.is_object()) return wrong(where + " is no object");
    check_names(json, {"job", "type", "gpus", "hosts", "beside"}, where);
    const auto job = job_named(json.value("job", Json()), where);
    const auto gpus = count(json, "gpus", where);
    if (!job || !gpus) return;
    Grant grant{.job = *job, .type = GpuType(), .gpus = *gpus, .hosts = {}, .beside = JobId()};
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
      if (json.contains("beside") && !json["beside"].is_null()) read_beside(json, where, grant);
    } else if (json.contains("hosts") || json.contains("beside")) {
      return wrong(where + " has 0 GPUs, and \"hosts\" or \"beside\"");
    }
    decision_.grants.push_back(std::move(grant));
  }

  void read_hosts(const Json& hosts, const std::string& where, Grant& grant) {
    const auto placement = hosts_of(hosts, where, grant.type);
    if (!placement) return;
    grant.hosts = placement->hosts;
    if (placement->gpus() == grant.gpus) return;
    wrong(fmt::format("{}: its hosts have {} GPUs, \"gpus\" says {}", where, placement->gpus(), grant.gpus));
  }

  void read_beside(const Json& json, const std::string& where, Grant& grant) {
    const auto other = job_of(json["beside"], where, "beside");
    if (!other) return;
    grant.beside = *other;
    if (*other == grant.job) return wrong(fmt::format("{} puts job \"{}\" beside itself", where, name_of(*other)));
    if (json.contains("hosts")) wrong(where + " has \"hosts\" and \"beside\": the other job says where");
  }

  void read_refused(const Json& refused) {
    if (!refused.is_array()) return wrong("\"refused\" is no list");
    for (const Json& name : refused) {
      const auto job = job_named(name, "\"refused\"");
      if (!job) return;
      if (!known_.placement(*job).empty()) {
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

  // The grant of this answer to a job; null: it stays as it is.
  const Grant* granted(JobId job) const {
    const auto found = std::find_if(decision_.grants.begin(), decision_.grants.end(),
                                    [job](const Grant& grant) { return grant.job == job; });
    return found == decision_.grants.end() ? nullptr : &*found;
  }

  // Two jobs share the same GPUs: the other one has them alone, or gets them.
  void check_pair(const Grant& grant, std::map<JobId, JobId>& guests) {
    const std::string two = fmt::format("job \"{}\" beside \"{}\"", name_of(grant.job), name_of(grant.beside));
    const Grant* host = granted(grant.beside);
    if (host != nullptr && host->beside.valid()) return wrong(two + ", which is itself beside another");
    const Placement& now = known_.placement(grant.beside);
    const int gpus = host != nullptr ? host->gpus : now.gpus();
    if (gpus == 0) return wrong(two + ", which has no GPUs");
    const GpuType type = host != nullptr ? host->type : now.type;
    if (gpus != grant.gpus || type != grant.type) {
      return wrong(fmt::format("{}: {} GPUs of {}, the other has {} of {}", two, grant.gpus, name_of(grant.type), gpus,
                               name_of(type)));
    }
    const JobId third = known_.beside(grant.beside);
    const bool crowded = host == nullptr && third.valid() && third != grant.job && changed_.count(third) == 0;
    if (crowded || !guests.emplace(grant.beside, grant.job).second)
      return wrong(two + ", which shares its GPUs already");
    const JobId low = std::min(grant.job, grant.beside), high = std::max(grant.job, grant.beside);
    const auto both = view_.throughput().shared_rate(view_.job(low), view_.job(high), type, gpus);
    if (both.first > 0 && both.second > 0) return;
    wrong(fmt::format("{}: these two cannot share {} GPUs of {} (throughputs: {})", two, gpus, name_of(type),
                      view_.throughput().description()));
  }

  void check_pairs() {
    std::map<JobId, JobId> guests;  // by the job that has the GPUs
    for (const Grant& grant : decision_.grants) {
      if (grant.beside.valid() && good()) check_pair(grant, guests);
    }
  }

  // Whether the GPUs that a job leaves are those of a job that stays on them, or were counted for that one.
  bool left_to_other(JobId job) const {
    const JobId other = known_.beside(job);
    return other.valid() && (changed_.count(other) == 0 || other < job);
  }

  // A grant of what a job has already: it stays where it is, the other one too (Grant, ptc/run/policy/policy.h).
  bool stays_beside(const Grant& grant) const {
    const JobId other = known_.beside(grant.job);
    const Placement& now = known_.placement(grant.job);
    return grant.hosts.empty() && grant.job < other && changed_.count(other) == 0 && now.type == grant.type &&
           now.gpus() == grant.gpus;
  }

  // Granted and kept GPUs, against those that are up. Hosts under notice count for nobody.
  void check_capacity() {
    if (decision_.grants.empty()) return;
    std::vector<int> held = known_.held(), named(held.size());
    std::vector<int64_t> used(view_.fleet().types.size());
    for (const JobId job : changed_) {
      if (left_to_other(job)) continue;
      for (const HostShare& share : known_.placement(job).hosts)
        held[static_cast<size_t>(share.host.value)] -= share.gpus;
    }
    for (const Grant& grant : decision_.grants) {
      if (grant.gpus == 0 || grant.beside.valid() || stays_beside(grant)) continue;
      used[static_cast<size_t>(grant.type.value)] += grant.gpus;
      for (const HostShare& share : grant.hosts) named[static_cast<size_t>(share.host.value)] += share.gpus;
    }
    for (size_t h = 0; h < held.size(); ++h) {
      const int capacity = view_.capacity(HostId(static_cast<int64_t>(h)));
      if (capacity > 0) used[static_cast<size_t>(view_.fleet().hosts[h].type.value)] += held[h];
      if (named[h] == 0 || named[h] + (capacity > 0 ? held[h] : 0) <= capacity) continue;
      wrong(fmt::format("it gives away {} GPUs of host {}, which has {}", named[h] + (capacity > 0 ? held[h] : 0), h,
                        capacity));
    }
    for (size_t t = 0; t < used.size(); ++t) {
      if (used[t] <= view_.capacity(type_at(t))) continue;
      problem_ = fmt::format("it gives away {} GPUs of type {}, there are {}", used[t], name_of(type_at(t)),
                             view_.capacity(type_at(t)));
      return;
    }
  }

  std::set<JobId> changed_;  // jobs that the answer names
  Decision decision_;
};

// A program's own questions, and the line that answers them.
class Requests : public Fields {
 public:
  using Fields::Fields;

  std::string reply(const Json& json) {
    check_names(json, {"ask", "of"}, "the answer");
    const std::string ask = json["ask"].is_string() ? json["ask"].get<std::string>() : "";
    if (ask != "rates" && ask != "change_costs") wrong("\"ask\" is neither \"rates\" nor \"change_costs\"");
    const Json of = json.value("of", Json());
    if (!of.is_array()) wrong("\"of\" is no list");
    Json values = Json::array();
    for (size_t i = 0; good() && i < of.size(); ++i) {
      const std::string where = fmt::format("of[{}]", i);
      if (!of[i].is_object()) wrong(where + " is no object");
      if (good()) values.push_back(ask == "rates" ? rate(of[i], where) : cost_s(of[i], where));
    }
    return external::line_of({{ask, std::move(values)}});
  }

 private:
  Json rate(const Json& json, const std::string& where) {
    check_names(json, {"job", "type", "gpus", "hosts", "beside"}, where);
    const auto job = job_of(json.value("job", Json()), where);
    if (!job) return nullptr;
    const Job& spec = view_.job(*job);
    const double done = view_.progress(*job).work_done;
    if (json.contains("hosts")) {
      if (json.contains("beside") || json.contains("type") || json.contains("gpus")) {
        wrong(where + " has \"hosts\", which say type and GPUs of one job");
      }
      const auto placement = hosts_of(json["hosts"], where, std::nullopt);
      return placement ? Json(view_.throughput().placed_rate(spec, *placement, done).per_s) : Json();
    }
    const auto gpus = count(json, "gpus", where);
    const auto type = type_of(json, where);
    if (!gpus || !type) return nullptr;
    if (*gpus < 1 || *gpus > view_.fleet().gpus(*type)) {
      wrong(fmt::format("{}: {} GPUs of type {}, the cluster has {}", where, *gpus, name_of(*type),
                        view_.fleet().gpus(*type)));
      return nullptr;
    }
    if (!json.contains("beside")) return view_.throughput().rate(spec, *type, *gpus, done).per_s;
    const auto other = job_of(json["beside"], where, "beside");
    if (!other) return nullptr;
    if (*other == *job) wrong(where + " asks for a job beside itself");
    const bool first = *job < *other;
    const auto both = view_.throughput().shared_rate(view_.job(first ? *job : *other), view_.job(first ? *other : *job),
                                                     *type, *gpus);
    return first ? Json::array({both.first, both.second}) : Json::array({both.second, both.first});
  }

  Json cost_s(const Json& json, const std::string& where) {
    check_names(json, {"job", "gpus"}, where);
    const auto job = job_of(json.value("job", Json()), where);
    const auto gpus = count(json, "gpus", where);
    if (!job || !gpus) return nullptr;
    if (*gpus < 1 || *gpus > view_.fleet().gpus()) {
      wrong(fmt::format("{}: {} GPUs, the cluster has {}", where, *gpus, view_.fleet().gpus()));
      return nullptr;
    }
    return view_.change_cost_s(*job, *gpus);
  }
};

}  // namespace

absl::StatusOr<std::variant<Decision, Reply>> read_answer(const std::string& answer, const View& view,
                                                          const Known& known) {
  using Read = std::variant<Decision, Reply>;
  SCALAI_ASSIGN_OR_RETURN(const Json json, external::parse(answer));
  const auto finished = [&](const Fields& reader, Read read) -> absl::StatusOr<Read> {
    if (reader.good()) return read;
    return failed(fmt::format("{}; its answer: {}", message_of(reader.status()), external::shown(answer)));
  };
  if (json.contains("ask")) {
    Requests requests(view, known);
    Reply reply{.line = requests.reply(json)};
    return finished(requests, std::move(reply));
  }
  DecisionReader reader(view, known);
  Decision decision = reader.read(json);
  return finished(reader, std::move(decision));
}

}  // namespace scalai::policy
