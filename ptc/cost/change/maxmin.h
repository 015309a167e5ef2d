#pragma once
// Exact max-min network back end. FairShares keeps the fair rates of classes of flows up to date; MaxMinBackend moves
// flows through time with these rates. Each object is for one thread at a time.
//
// Flows over the same set of links form one class and always have the same rate. So each class keeps one cumulative
// service (bytes delivered to each of its flows), and a flow ends when the service reaches its target. The cost of an
// event is the number of classes whose rate it changes, times the logarithm of the active classes.

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptc/cost/change/earliest_dates.h"
#include "ptc/cost/change/network.h"

namespace scalai::change {

// Max-min fair rates, updated as classes grow and shrink and capacities change.
//
// Progressive filling raises a common level. A link saturates at the level at which its capacity is used up, and
// freezes its classes there. An update repeats this sweep only where it can matter. A link is `affected` if its own
// classes or its capacity changed, or if the rate of a class on it changed; it becomes affected at the level at which
// that first shows. Classes keep their rates if they froze below that level or on a link that is not affected. Links
// out of reach keep theirs.
//
// A link is never full if all its classes also lie on one other link, its guard, with no smaller weights there, and the
// guard has less capacity: a GPU's PCIe behind its NIC. The guard freezes these classes first, so that updates leave
// such links out. Rates are the same, bit for bit.
class FairShares {
 public:
  // Capacities in bytes/s: link i has capacities[i].
  explicit FairShares(std::vector<double> capacities);

  // Adds a class of 0 flows over these distinct links and returns its id; ids count from 0. A flow uses weights[i]
  // times its rate on links[i] (empty weights = once). CHECK: at least one link, and no weights or one for each link.
  int add_class(const std::vector<int>& links, const std::vector<int64_t>& weights = {});
  void set_count(int class_id, int64_t flows);
  // Changes the capacity of a link from the next update() on.
  void set_capacity(int link, double bytes_per_s);
  // Adds a link and returns its number; numbers continue those of the constructor.
  int add_link(double capacity);

  // Brings all rates up to date. Returns the classes whose rate changed, in an order that depends only on the calls.
  // The span is valid until the next update().
  std::span<const int> update();

  // The rate in bytes/s of each flow of a class with flows, as of the last update.
  double rate(int class_id) const { return classes_[class_id].rate; }
  int64_t count(int class_id) const { return classes_[class_id].flows; }
  // The spans are valid until the next add_class().
  std::span<const int> links(int class_id) const;
  std::span<const int64_t> weights(int class_id) const;
  // The total rate on a link in bytes/s, as of the last update.
  double load(int link) const;
  // The classes with flows on a link, in no particular order.
  std::vector<int> classes_on(int link) const;

 private:
  static constexpr double kNoRate = std::numeric_limits<double>::infinity();

  struct Member {  // a class on a link
    int class_id = 0;
    int slot = 0;  // which of the class's links this is
  };
  struct Link {
    double capacity = 0;
    double free = 0;              // capacity that no settled class uses (affected links only)
    int64_t unsettled = 0;        // weight of flows whose rate this sweep has still to find (affected links only)
    int32_t affected_in = 0;      // last sweep that affected the link
    int guard = -1;               // a link of the first class; −1: none has less capacity
    int outside = 0;              // classes that are not on the guard, or weigh less there
    int frozen = 0;               // classes whose rate it froze
    std::vector<Member> members;  // classes with flows
  };
  // An update touches many classes in no order: each is one cache line.
  static constexpr int kNear = 6;
  struct alignas(64) Class {
    double rate = kNoRate;
    int64_t flows = 0;
    int32_t settled_in = 0;  // last sweep that settled the rate
    int32_t queued_in = 0;   // last sweep in which the old rate was queued
    int bottleneck = -1;     // the link that froze its rate; −1: none yet
    int first_slot = 0;      // its slots are [first_slot, first_slot + links)
    int links = 0;
    bool plain = true;                 // weighs 1 everywhere
    std::array<int, kNear> near = {};  // its links, if there are no more
  };
  struct Event {  // of a sweep: a link saturates (id >= 0), or the old rate of class ~id is reached
    double level = 0;
    int id = 0;
    int bottleneck = -1;  // of the class, when it was queued
  };
  // Links go before classes at the same level: a link that is still full at its old level then changes nothing. Ids of
  // classes are negative, so that as unsigned numbers they come last. Without branches, which would be guessed wrong.
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      const bool same = a.level == b.level;
      return (a.level > b.level) | (same & (static_cast<uint32_t>(a.id) > static_cast<uint32_t>(b.id)));
    }
  };

  bool is_affected(int link) const { return links_[link].affected_in == sweep_; }
  bool is_settled(int class_id) const { return classes_[class_id].settled_in == sweep_; }
  double saturation_level(const Link& link) const;
  void mark_changed(int link);
  void join_links(int class_id);
  void leave_links(int class_id);
  void choose_guard(int link, const Class& its_first);
  bool is_guarded(const Class& c, int slot) const;
  void judge(int link);
  void push(Event event);
  Event pop();
  void affect(int link);
  void take_member(Link& link, Member member);
  void queue(int class_id);
  void reach_old_rates(Event event);
  int64_t weight_of(const Class& c, size_t slot) const {
    return c.plain ? c.flows : c.flows * slot_weights_[static_cast<size_t>(c.first_slot) + slot];
  }
  void reach_saturation(int link, double level);
  void reach_old_rate(int class_id);
  void settle(int class_id, double rate, int bottleneck);

  std::vector<Link> links_;
  std::vector<char> changed_;     // by link: since the last update
  std::vector<char> never_full_;  // by link
  std::vector<int> to_judge_;     // links of which some class was frozen for the first time, or no longer is
  std::vector<Class> classes_;
  // Slots: the links of all classes, one after the other.
  std::vector<int> slot_links_;
  std::vector<int64_t> slot_weights_;
  std::vector<int> slot_positions_;  // where the class stands among that link's members
  std::vector<int> changed_links_;
  std::vector<int> changed_classes_;
  std::vector<Event> events_;  // heap
  // By link: events of classes that it froze, as a heap of its own. The first of each is among the events, too. Their
  // rates are mostly one, so that few of all events serve many classes.
  std::vector<std::vector<Event>> queued_;
  int32_t sweep_ = 0;
  double level_ = 0;
};

class MaxMinBackend final : public NetworkBackend {
 public:
  // Copies the spec, which check_network() accepts. Flows over different links that end within `resolution_s` (≥ 0) of
  // each other end together with the last of them, so that rates change less often; 0: each at its own time.
  explicit MaxMinBackend(const NetworkSpec& spec, double resolution_s = 0);

  double now_s() const override { return now_s_; }
  FlowId start(int src_endpoint, int dst_endpoint, double bytes) override;
  void cancel(FlowId flow) override;
  void set_bandwidth(int link, double bytes_per_s) override;
  std::vector<FlowEnd> advance_to(double until_s) override;
  std::vector<double> link_rates() override;
  // Takes time in proportion to the changes, not to all links.
  std::vector<LinkRate> changed_link_rates() override;
  // The time of the next end of a flow if nothing else begins or changes; infinity if no flow is active.
  double next_end_s();
  // Remaining bytes of a flow; 0 if it has ended or was cancelled.
  double bytes_left(FlowId flow) const;

 private:
  static constexpr int kEnded = -1;
  static constexpr int kPending = -2;

  struct Target {  // a flow ends when the service of its class reaches this
    double service_bytes = 0;
    FlowId flow = 0;
  };
  struct alignas(64) Service {  // of one class: a cache line
    double bytes = 0;           // delivered to each flow up to at_s, since the class was last empty
    double at_s = 0;
    double rate = 0;
    double first_target = 0;      // of `targets`, where there is one
    int active_position = -1;     // in active_ and end_dates_
    int cancelled = 0;            // of `targets`
    std::vector<Target> targets;  // heap, first to end on top; cancelled flows leave when they reach the top
  };
  static bool later(const Target& a, const Target& b);

  int class_between(int src_endpoint, int dst_endpoint);
  bool is_down(int class_id) const;
  void enter(int class_id, FlowId flow, double bytes);
  void leave(int class_id, int64_t flows);
  void end_now(FlowId flow, bool failed);
  void fail_class(int class_id);
  void serve_until_now(int class_id);
  void set_active(int class_id, bool active);
  void update_rates();
  void set_count(int class_id, int64_t flows);
  void note_links(int class_id);
  void update_end_date(int class_id);
  void drop_cancelled(Service& service);
  void drop_first(Service& service);
  void end_due_flows(int class_id, double limit_s);
  std::vector<FlowEnd> take_pending();

  NetworkSpec spec_;
  const double resolution_s_;
  FairShares shares_;
  double now_s_ = 0;
  std::vector<bool> link_down_;
  std::vector<int> class_of_flow_;  // by flow id; kEnded or kPending otherwise
  std::vector<Service> services_;   // by class
  std::map<std::pair<std::vector<int>, std::vector<int64_t>>, int> class_of_route_;
  std::unordered_map<int64_t, int> class_of_pair_;  // source endpoint * endpoints + destination endpoint
  std::vector<int> active_;                         // classes with flows
  EarliestDates end_dates_;                         // when the first flow of each ends
  std::vector<int> touched_;                        // classes whose end date is to be computed again
  std::vector<FlowEnd> pending_;                    // ended, to be reported
  std::vector<double> told_rates_;                  // by link, at the last changed_link_rates()
  std::vector<bool> noted_;                         // by link: in noted_links_
  std::vector<int> noted_links_;                    // on which something has changed since then
};

}  // namespace scalai::change
