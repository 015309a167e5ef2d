#include "ptc/run/policy/policies/external/protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/internal/lines.h"

namespace scalai::policy {
namespace external {

std::string shown(const std::string& line) {
  constexpr size_t kShownBytes = 300;
  return line.size() <= kShownBytes ? line : line.substr(0, kShownBytes) + " …";
}

absl::StatusOr<Json> parse(const std::string& line) {
  absl::StatusOr<Json> json = read_ordered_json(line);
  if (!json.ok()) return failed(fmt::format("its answer, {}: {}", message_of(json.status()), shown(line)));
  if (!json->is_object()) return failed(fmt::format("its answer is no JSON object: {}", shown(line)));
  return json;
}

std::string line_of(const Json& json) { return json_text(json); }

}  // namespace external

namespace {

using external::Json;
using external::type_at;

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

// Rates on the GPUs a job asks for and, with `curves`, on all that it may get. Returns until when they hold.
double add_rates(const View& view, JobId id, bool curves, Json& json) {
  const Job& job = view.job(id);
  const double done = view.progress(id).work_done;
  double until_work = kNever;
  const auto rate = [&](GpuType type, int gpus) {
    const Rate found = view.throughput().rate(job, type, gpus, done);
    until_work = std::min(until_work, found.until_work);
    return found.per_s;
  };
  json["per_s"] = by_type(view, [&](GpuType type) { return rate(type, job.gpus); });
  if (!curves) return until_work;
  json["curves"] = by_type(view, [&](GpuType type) {
    Json list = Json::array();
    const int most = std::min(job.max_gpus, view.fleet().gpus(type));
    for (int gpus = job.min_gpus; gpus <= most; ++gpus) list.push_back(rate(type, gpus));
    return list;
  });
  return until_work;
}

void add_fixed(const Job& job, Json& json) {
  json["type"] = job.type;
  json["entity"] = job.entity;
  json["submit_s"] = job.submit_s;
  json["gpus"] = job.gpus;
  json["min_gpus"] = job.min_gpus;
  json["max_gpus"] = job.max_gpus;
  json["weight"] = job.weight;
  json["deadline_s"] = or_null(job.deadline_s);
  json["work"] = job.work;
}

void add_progress(const View& view, JobId id, Json& json) {
  const Progress progress = view.progress(id);
  json["work_done"] = progress.work_done;
  json["even_per_s"] = progress.even_per_s;
  json["first_start_s"] = or_null(progress.first_start_s);
  json["last_change_s"] = progress.last_change_s;
  json["executed_s"] = progress.executed_s;
  json["attained_gpu_s"] = progress.attained_gpu_s;
  json["restarts"] = progress.restarts;
  json["has"] = placement_json(view, progress.placement);
  json["beside"] = progress.beside.valid() ? Json(view.job(progress.beside).name) : Json(nullptr);
}

Json job_json(const Question& question, const JobNews& news, Known& known) {
  const View& view = question.view;
  Json json = {{"job", view.job(news.job).name}};
  if (news.whole) add_fixed(view.job(news.job), json);
  if (news.rates) known.rates_hold(news.job, add_rates(view, news.job, question.greeting.curves, json));
  add_progress(view, news.job, json);
  return json;
}

// Hosts of which fewer GPUs may be given away than they have.
Json short_hosts(const View& view) {
  Json list = Json::array();
  for (size_t h = 0; h < view.fleet().hosts.size(); ++h) {
    const int gpus = view.capacity(HostId(static_cast<int64_t>(h)));
    if (gpus < view.fleet().hosts[h].gpus) list.push_back({{"host", h}, {"gpus", gpus}});
  }
  return list;
}

absl::StatusOr<bool> flag(const Json& json, const char* name) {
  if (!json.contains(name)) return false;
  if (json[name].is_boolean()) return json[name].get<bool>();
  return failed(fmt::format("\"{}\" is to be true or false", name));
}

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
  return external::line_of({{"scalai_policy", kExternalProtocol},
                            {"ask", "hello"},
                            {"offers", {"beside", "curves", "delta", "past", "rates", "change_costs"}},
                            {"seed", seed},
                            {"types", types},
                            {"hosts", hosts}});
}

absl::StatusOr<Greeting> check_hello(const std::string& answer) {
  SCALAI_ASSIGN_OR_RETURN(const Json json, external::parse(answer));
  const Json version = json.value("scalai_policy", Json());
  if (!version.is_number_integer() || version != kExternalProtocol) {
    return failed(fmt::format("it speaks version {} of the protocol, this program speaks {}: {}",
                              version.is_null() ? "?" : json_text(version), kExternalProtocol,
                              external::shown(answer)));
  }
  const std::vector<std::string> fields = {"scalai_policy", "name", "delta", "past", "curves"};
  for (const auto& [name, value] : json.items()) {
    if (std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
    return failed(fmt::format("its greeting has a field \"{}\", which is none of {}: {}", name, fmt::join(fields, ", "),
                              external::shown(answer)));
  }
  const absl::StatusOr<bool> delta = flag(json, "delta"), past = flag(json, "past"), curves = flag(json, "curves");
  for (const absl::Status& status : {delta.status(), past.status(), curves.status()}) {
    if (!status.ok()) return failed(fmt::format("{}: {}", message_of(status), external::shown(answer)));
  }
  return Greeting{.delta = *delta, .past = *past, .curves = *curves};
}

std::string decide_line(const Question& question, const News& news, Known& known) {
  const View& view = question.view;
  Json happened = Json::array(), jobs = Json::array();
  for (const Event& event : question.events) {
    Json json = {{"event", name_of(event.kind)}};
    if (event.job.valid()) json["job"] = view.job(event.job).name;
    happened.push_back(std::move(json));
  }
  Json line = {{"ask", "decide"},
               {"now_s", view.now_s()},
               {"events", std::move(happened)},
               {"capacity", by_type(view, [&](GpuType type) { return view.capacity(type); })},
               {"price", by_type(view, [&](GpuType type) { return view.price(type); })}};
  const bool delta = question.greeting.delta;
  if (news.capacity || !delta) line["short_hosts"] = short_hosts(view);
  if (delta) {
    for (const JobNews& one : news.jobs) jobs.push_back(job_json(question, one, known));
    line["changed"] = std::move(jobs);
    line["gone"] = news.gone;
  } else {
    for (const JobId id : view.active()) jobs.push_back(job_json(question, {.job = id}, known));
    line["jobs"] = std::move(jobs);
  }
  return external::line_of(line);
}

}  // namespace scalai::policy
