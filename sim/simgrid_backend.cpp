#include "sim/simgrid_backend.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <simgrid/s4u.hpp>
// After s4u.hpp: it uses macros that it does not define itself.
#include <simgrid/version.h>
#if SIMGRID_VERSION >= 33600
#include <simgrid/simcall.hpp>
#else
#include <simgrid/simix.hpp>
#endif

#include "ptc/base/status.h"
#include "ptc/cost/change/maxmin.h"

namespace sg4 = simgrid::s4u;

namespace scalai::sim {
namespace {

// SimGrid takes whole numbers of bytes. We give it bytes in units of 2^-10, so that rounding stays below any tolerance.
constexpr double kUnitsPerByte = 1024;

uint64_t units_of(double bytes) { return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(bytes))); }

// What is spelled differently in the versions of SimGrid.
#if SIMGRID_VERSION >= 40000
sg4::NetZone* make_zone(sg4::Engine& engine) { return engine.get_netzone_root()->add_netzone_star("network"); }
sg4::Host* add_host(sg4::NetZone* zone, const std::string& name) { return zone->add_host(name, 1e9); }
sg4::Link* add_link(sg4::NetZone* zone, const std::string& name, double rate) { return zone->add_link(name, rate); }
#else
sg4::NetZone* make_zone(sg4::Engine&) { return sg4::create_star_zone("network"); }
sg4::Host* add_host(sg4::NetZone* zone, const std::string& name) { return zone->create_host(name, 1e9); }
sg4::Link* add_link(sg4::NetZone* zone, const std::string& name, double rate) { return zone->create_link(name, rate); }
#endif
#if SIMGRID_VERSION >= 40100
void add_actor(sg4::Host* host, const std::function<void()>& code) { host->add_actor("controller", code); }
#elif SIMGRID_VERSION >= 40000
void add_actor(sg4::Host* host, const std::function<void()>& code) {
  sg4::Engine::get_instance()->add_actor("controller", host, code);
}
#else
void add_actor(sg4::Host* host, const std::function<void()>& code) { sg4::Actor::create("controller", host, code); }
#endif
#if SIMGRID_VERSION >= 33600
using RoutePoint = const sg4::Host*;
RoutePoint point_of(const sg4::Host* host) { return host; }
void add_route(sg4::NetZone* zone, RoutePoint src, RoutePoint dst, const std::vector<sg4::LinkInRoute>& links) {
  zone->add_route(src, dst, links, false);
}
#else
using RoutePoint = simgrid::kernel::routing::NetPoint*;
RoutePoint point_of(const sg4::Host* host) { return host->get_netpoint(); }
void add_route(sg4::NetZone* zone, RoutePoint src, RoutePoint dst, const std::vector<sg4::LinkInRoute>& links) {
  zone->add_route(src, dst, nullptr, nullptr, links, false);
}
#endif
#if SIMGRID_VERSION >= 33400
double rate_on(const sg4::Link* link) { return link->get_load(); }
template <class Callback>
void on_comm_end(Callback callback) {
  sg4::Comm::on_completion_cb(callback);
}
#else
double rate_on(const sg4::Link* link) { return link->get_usage(); }
template <class Callback>
void on_comm_end(Callback callback) {
  sg4::Activity::on_completion_cb(callback);
}
#endif

struct SimgridPlatform {
  std::vector<sg4::Link*> links;
  std::vector<sg4::Host*> hosts;  // by endpoint
  sg4::Host* controller = nullptr;
};

std::vector<sg4::LinkInRoute> route_over(const SimgridPlatform& platform, const std::vector<int>& links) {
  std::vector<sg4::LinkInRoute> route;
  for (int link : links) route.emplace_back(platform.links[link]);
  return route;
}

// Names start with the index, so that no name of the spec clashes with one of SimGrid's own.
SimgridPlatform make_platform(sg4::Engine& engine, const change::NetworkSpec& spec) {
  SimgridPlatform platform;
  sg4::NetZone* zone = make_zone(engine);
  for (const change::LinkSpec& link : spec.links) {
    const std::string name = fmt::format("{}:{}", platform.links.size(), link.name);
    platform.links.push_back(add_link(zone, name, link.bandwidth_bytes_per_s * kUnitsPerByte)->set_latency(0)->seal());
  }
  for (const change::EndpointSpec& endpoint : spec.endpoints) {
    sg4::Host* host = add_host(zone, fmt::format("{}:{}", platform.hosts.size(), endpoint.name));
    add_route(zone, point_of(host), nullptr, route_over(platform, endpoint.up));
    add_route(zone, nullptr, point_of(host), route_over(platform, endpoint.down));
    platform.hosts.push_back(host->seal());
  }
  platform.controller = add_host(zone, "controller")->seal();
  zone->seal();
  return platform;
}

// Flows are host-to-host comms started by maestro (SimGrid's scheduler), because only the ends of those are signalled
// when no actor waits for them. The controller waits for the signal, with a timeout, on a semaphore.
class SimGridBackend final : public change::NetworkBackend {
 public:
  explicit SimGridBackend(SimgridPlatform platform)
      : platform_(std::move(platform)), wake_up_(sg4::Semaphore::create(0)) {
    on_comm_end([this](const sg4::Activity& comm) { on_end(comm); });
  }

  double now_s() const override { return now_s_; }
  change::FlowId start(int src_endpoint, int dst_endpoint, double bytes) override;
  void cancel(change::FlowId flow) override;
  void set_bandwidth(int link, double bytes_per_s) override;
  std::vector<change::FlowEnd> advance_to(double until_s) override;
  std::vector<double> link_rates() override;

  void cancel_all();

 private:
  struct Flow {
    sg4::Host* src = nullptr;
    sg4::Host* dst = nullptr;
    std::vector<sg4::Link*> route;
    double rate_limit = 0;  // SimGrid caps a comm at the smallest bandwidth its route had when it started
    sg4::CommPtr comm;
  };

  void launch(change::FlowId id, Flow& flow, uint64_t units);
  void relaunch_capped(sg4::Link* raised);
  sg4::CommPtr forget(change::FlowId id);
  void on_end(const sg4::Activity& comm);
  void wait_until(double until_s);
  std::vector<change::FlowEnd> take_ended();

  SimgridPlatform platform_;
  sg4::SemaphorePtr wake_up_;
  double now_s_ = 0;
  change::FlowId next_id_ = 0;
  bool waiting_ = false;
  std::unordered_map<change::FlowId, Flow> active_;
  std::unordered_map<const sg4::Activity*, change::FlowId> flow_of_comm_;
  std::vector<change::FlowEnd> ended_;  // to be reported
  std::vector<sg4::CommPtr> retired_;   // their comms
};

double smallest_bandwidth(const std::vector<sg4::Link*>& route) {
  double smallest = route.front()->get_bandwidth();
  for (const sg4::Link* link : route) smallest = std::min(smallest, link->get_bandwidth());
  return smallest;
}

change::FlowId SimGridBackend::start(int src_endpoint, int dst_endpoint, double bytes) {
  SCALAI_CHECK(bytes >= 0 && std::isfinite(bytes));
  const change::FlowId id = next_id_++;
  Flow flow;
  flow.src = platform_.hosts.at(src_endpoint);
  flow.dst = platform_.hosts.at(dst_endpoint);
  flow.src->route_to(flow.dst, flow.route, nullptr);
  const bool failed = std::any_of(flow.route.begin(), flow.route.end(), [](sg4::Link* link) { return !link->is_on(); });
  if (failed || bytes == 0 || flow.route.empty()) {
    ended_.push_back({.flow = id, .at_s = now_s_, .failed = failed});
  } else {
    launch(id, active_[id] = std::move(flow), units_of(bytes * kUnitsPerByte));
  }
  return id;
}

void SimGridBackend::launch(change::FlowId id, Flow& flow, uint64_t units) {
  flow.rate_limit = smallest_bandwidth(flow.route);
  simgrid::kernel::actor::simcall_answered([this, id, &flow, units] {
    flow.comm = sg4::Comm::sendto_init();
    flow_of_comm_[flow.comm.get()] = id;
    flow.comm->set_payload_size(units)->set_source(flow.src)->set_destination(flow.dst);
  });
}

// Takes the flow out of our tables first, so that the end that SimGrid signals for a cancelled comm is not reported.
sg4::CommPtr SimGridBackend::forget(change::FlowId id) {
  const auto found = active_.find(id);
  sg4::CommPtr comm = std::move(found->second.comm);
  flow_of_comm_.erase(comm.get());
  active_.erase(found);
  return comm;
}

void SimGridBackend::cancel(change::FlowId flow) {
  SCALAI_CHECK(flow >= 0 && flow < next_id_);
  std::erase_if(ended_, [flow](const change::FlowEnd& end) { return end.flow == flow; });
  if (active_.contains(flow)) forget(flow)->cancel();
}

void SimGridBackend::cancel_all() {
  while (!active_.empty()) cancel(active_.begin()->first);
}

void SimGridBackend::set_bandwidth(int link_id, double bytes_per_s) {
  SCALAI_CHECK(bytes_per_s >= 0 && std::isfinite(bytes_per_s));
  sg4::Link* link = platform_.links.at(link_id);
  if (bytes_per_s == 0) {
    link->turn_off();
    return;
  }
  if (!link->is_on()) link->turn_on();
  link->set_bandwidth(bytes_per_s * kUnitsPerByte);
  relaunch_capped(link);
}

// The only way to lift the cap of a comm is to start it again with the bytes it has left.
void SimGridBackend::relaunch_capped(sg4::Link* raised) {
  std::vector<change::FlowId> capped;
  for (const auto& [id, flow] : active_) {
    const bool uses = std::find(flow.route.begin(), flow.route.end(), raised) != flow.route.end();
    if (uses && smallest_bandwidth(flow.route) > flow.rate_limit) capped.push_back(id);
  }
  std::sort(capped.begin(), capped.end());
  for (change::FlowId id : capped) {
    Flow flow = active_.at(id);
    const double left = flow.comm->get_remaining();
    forget(id)->cancel();
    launch(id, active_[id] = std::move(flow), units_of(left));
  }
}

// Runs in maestro, inside a call on the comm: it must outlive this function.
void SimGridBackend::on_end(const sg4::Activity& comm) {
  const auto found = flow_of_comm_.find(&comm);
  if (found == flow_of_comm_.end()) return;
  const bool failed = comm.get_state() != sg4::Activity::State::FINISHED;
  ended_.push_back({.flow = found->second, .at_s = now_s_, .failed = failed});
  retired_.push_back(forget(found->second));
  if (std::exchange(waiting_, false)) wake_up_->release();
}

std::vector<change::FlowEnd> SimGridBackend::advance_to(double until_s) {
  SCALAI_CHECK(until_s >= now_s_);
  if (ended_.empty()) {
    SCALAI_CHECK(std::isfinite(until_s) || !active_.empty(), "no flow is active and there is no time to stop at");
    wait_until(until_s);
    now_s_ = ended_.empty() ? until_s : std::clamp(sg4::Engine::get_clock(), now_s_, until_s);
  }
  return take_ended();
}

// SimGrid's clock can be off `until_s` by its precision, hence our own now_s_.
void SimGridBackend::wait_until(double until_s) {
  const double timeout_s = until_s - sg4::Engine::get_clock();
  if (timeout_s <= 0) return;
  waiting_ = true;
  if (std::isfinite(until_s)) {
    wake_up_->acquire_timeout(timeout_s);
  } else {
    wake_up_->acquire();
  }
  waiting_ = false;
  while (!wake_up_->would_block()) wake_up_->acquire();  // a flow that ended at the very timeout left a token
}

std::vector<change::FlowEnd> SimGridBackend::take_ended() {
  std::sort(ended_.begin(), ended_.end(),
            [](const change::FlowEnd& a, const change::FlowEnd& b) { return a.flow < b.flow; });
  for (change::FlowEnd& end : ended_) end.at_s = now_s_;
  retired_.clear();
  return std::exchange(ended_, {});
}

std::vector<double> SimGridBackend::link_rates() {
  simgrid::kernel::actor::simcall_answered([] {  // rates are stale until the models look for their next event
    for (auto* model : sg4::Engine::get_instance()->get_all_models()) {
      model->next_occurring_event(sg4::Engine::get_clock());
    }
  });
  std::vector<double> rates;
  for (const sg4::Link* link : platform_.links) rates.push_back(rate_on(link) / kUnitsPerByte);
  return rates;
}

// Exact max-min sharing, errors only on stderr, and stacks that the sanitizers can follow. The engine stays for the
// rest of the process, as SimGrid cannot make a second one.
sg4::Engine& make_engine() {
  std::vector<std::string> words = {"scalai", "--log=root.thresh:critical"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  struct sigaction interrupt {};
  ::sigaction(SIGINT, nullptr, &interrupt);
  sg4::Engine* engine = sg4::Engine::get_instance(&argc, argv.data());
  ::sigaction(SIGINT, &interrupt, nullptr);  // SimGrid's own would end the process with code 1
  for (const char* option :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e30", "maxmin/precision:1e-12"}) {
    sg4::Engine::set_config(option);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  sg4::Engine::set_config("contexts/factory:thread");
#endif
  return *engine;
}

void run(sg4::Engine& engine, const change::NetworkSpec& spec, const std::function<void(change::NetworkBackend&)>& body,
         absl::Status& status) {
  SimgridPlatform platform = make_platform(engine, spec);
  sg4::Host* controller = platform.controller;
  SimGridBackend backend(std::move(platform));
  add_actor(controller, [&] {
    try {
      body(backend);
      backend.cancel_all();
    } catch (const simgrid::Exception& error) {
      status = failed(fmt::format("SimGrid stopped the simulation at {} s: {}", backend.now_s(), error.what()));
    }
  });
  engine.run();
}

}  // namespace

absl::Status with_simgrid(const change::NetworkSpec& spec, const std::function<void(change::NetworkBackend&)>& body) {
  for (const change::EndpointSpec& endpoint : spec.endpoints) {
    if (endpoint.up_weights.empty()) continue;
    return invalid(fmt::format("endpoint '{}' has weights, which SimGrid cannot take; use our solver", endpoint.name));
  }
  if (sg4::Engine::has_instance()) {
    return absl::FailedPreconditionError("SimGrid can run once in a process; start another process for another run");
  }
  absl::Status status = absl::OkStatus();
  try {
    run(make_engine(), spec, body, status);
  } catch (const std::exception& error) {
    status = failed(fmt::format("SimGrid rejected the network: {}", error.what()));
  }
  return status;
}

absl::Status with_backend(BackendKind kind, const change::NetworkSpec& spec,
                          const std::function<void(change::NetworkBackend&)>& body, double resolution_s) {
  SCALAI_RETURN_IF_ERROR(change::check_network(spec));
  if (kind == BackendKind::kSimGrid) return with_simgrid(spec, body);
  change::MaxMinBackend backend(spec, resolution_s);
  body(backend);
  return absl::OkStatus();
}

}  // namespace scalai::sim
