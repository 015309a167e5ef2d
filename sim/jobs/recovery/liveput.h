#pragma once
// Choice of pipelines when hosts come and go every minute: Parcae's liveput (Duan et al., NSDI'24), the expected
// samples over the next intervals including the cost of migrations, instead of the present throughput. Values and pure
// functions; any thread.
//
// The cost of a migration depends on the lost hosts, and these are uniform among all hosts. Parcae draws 10,000 samples
// for each case; we use closed forms (hypergeometric counts), without seed and noise.
//
//   migrate(N hosts, dp x pp; in, out → dp' x pp')
//     nothing lost, same layout                       0
//     same pp, every stage keeps dp' hosts            regroup, shrinking: no state moves
//     same pp, a stage is short                       + one stage's state from a peer, rendezvous if it grows
//     other pp                                        + a new stage's state, + its broadcast to dp' - 1 others
//
//   plan: V_i(layout, pause left) = max over layouts' of V_{i+1}; each interval adds throughput' x (interval - pause)
//         of several paths to a layout that is still paused, the one with most samples is kept, as in the publication

#include <compare>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace scalai::jobs {

struct PipelineLayout {
  int dp = 0;
  int pp = 0;
  int hosts() const { return dp * pp; }
  friend auto operator<=>(const PipelineLayout&, const PipelineLayout&) = default;
};

// Seconds to build the communicators of a layout: dp + pp + 1 + dp pp of them, `grow_s` or `shrink_s` each, plus 35 ms.
// Parcae's rule for GPT.
std::function<double(PipelineLayout, bool grows)> gpt_regroup(double grow_s, double shrink_s);

// Measured or published values of one model. Times in seconds.
struct LiveputModel {
  std::map<PipelineLayout, double> samples_per_s;  // layouts that can run
  std::map<int, double> build_s;                   // by pp: create a stage's module; else the nearest smaller pp
  double state_bytes = 0;                          // parameters and optimizer of the whole model
  std::map<double, double> p2p_s;  // bytes → seconds between two hosts; linear between, proportional above
  double process_s = 0.24;         // start a process
  double rendezvous_s = 6.6;       // hosts find each other, if the job grows
  double extra_grow_s = 0;         // data and engine, if the job grows
  std::function<double(PipelineLayout, bool grows)> regroup_s;  // build the communicators of a layout; none = 0
};

// Hosts at the end of an interval; hosts that came and went in it.
struct HostInterval {
  int hosts = 0;
  int in = 0;
  int out = 0;
};

class Liveput {
 public:
  Liveput(LiveputModel model, double interval_s);

  double interval_s() const { return interval_s_; }
  // Lives as long as this object.
  const LiveputModel& model() const { return model_; }
  double throughput(PipelineLayout layout) const;  // 0 = cannot run

  // The layout of highest throughput on `hosts` hosts, without foresight. {} = none can run. Ties: smaller dp.
  PipelineLayout best(int hosts) const;

  // Expected seconds from layout `from` ({} = none) on `hosts` hosts to `to`, after `in` hosts came and `out` went.
  double migration_s(int hosts, PipelineLayout from, int in, int out, PipelineLayout to) const;
  // Seconds of a restart of all processes in a layout; added by a migration that begins during another one.
  double restart_s(PipelineLayout layout, bool grows) const;

  // The first layout of the best sequence through the intervals `ahead`; {} = none can run. `pause_left_s`: rest of a
  // migration under way. Ties: fewer stages before, then smaller dp.
  PipelineLayout plan(int hosts, PipelineLayout from, double pause_left_s, std::span<const HostInterval> ahead) const;

 private:
  struct Value;
  double regroup_s(PipelineLayout layout, bool grows) const;
  double transfer_s(double bytes) const;
  double build_s(int pp) const;
  std::vector<Value> step(const std::vector<Value>& now, int hosts, const HostInterval& next) const;

  LiveputModel model_;
  std::vector<PipelineLayout> layouts_;  // keys of model_.samples_per_s, in order
  double interval_s_;
};

// Probability that each of `stages` groups of `size` hosts, out of `hosts` hosts, keeps at least `keep` hosts when
// `out` uniformly chosen hosts go.
double stages_keep(int hosts, int stages, int size, int keep, int out);

// Forecast of the next `count` numbers of hosts by ARIMA(1,1,0) on the past ones (oldest first), conditional least
// squares, clamped to [at_least, at_most] and to within 3 of the first forecast, as Parcae does. Fewer than 7 past
// values, or all equal: the last one.
std::vector<int> forecast_hosts(std::span<const int> past, int count, int at_least, int at_most);

}  // namespace scalai::jobs
