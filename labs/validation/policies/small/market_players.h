#pragma once
// Jobs on GPUs that come, go and change their price, and under deadlines, from the definitions alone (see players.h).

#include <optional>
#include <utility>
#include <vector>

namespace scalai::policy::small {

// One job, one spot GPU and one on-demand GPU of the same speed ("Can't Be Late", NSDI'24). Whole seconds.
struct SpotCase {
  std::vector<std::pair<int, int>> gone;  // [from, to): no spot GPU
  int work_s = 1;                         // C0
  int deadline_s = 1;                     // R0, after the submission at 0
  int change_s = 0;                       // d, of each start and move
};
enum class SpotRule { kOnDemandOnly, kSpotOnly, kGreedy, kUniform };
struct SpotStay {
  int end_s = 0, spot_s = 0, demand_s = 0;  // the end of the job; seconds on each GPU
};
// Every second, the rules in this order: from the moment that no more than the work left and two changes fits before
// the deadline, on demand (greedy, uniform); spot where it is offered and the job is not on demand; idle and not ahead
// of an even pace: on demand (uniform); on demand, and ahead of the even pace two changes from now: to spot (uniform).
SpotStay play_spot(SpotRule rule, const SpotCase& one);

// One job, types of one GPU that are always there (price chaser, DISPA'20).
struct ChaserCase {
  std::vector<double> per_s;  // iterations a second, by type
  std::vector<double> price;  // dollars an hour at first, by type
  struct Price {
    double at_s = 0;
    int type = 0;
    double price = 0;
  };
  std::vector<Price> changes;  // by time
  double work = 1;
  double change_s = 0;    // of each start and move
  double move_usd = 0;    // egress of a move
  double stay_s = 86400;  // expected after a move
  double moves_per_day = 1;
};
struct ChaserStay {
  double end_s = 0, usd = 0;
  int moves = 0;
};
// Starts where an iteration costs least. At each change of a price, and when it may move again: to where it costs
// least, if that saves more over the stay than egress and restart cost.
ChaserStay play_chaser(const ChaserCase& one);

// Jobs with a deadline that are all there at second 0, in slots (ElasticFlow, ASPLOS'23).
struct DueJob {
  double work = 1;               // iterations
  int slots = 1;                 // to its deadline
  std::vector<double> per_slot;  // iterations a slot on 1, 2, 4 … GPUs
};
// Progressive filling: by deadline, each with the least level (1, 2, 4 … GPUs, or what is free of it in a slot) that
// ends in time. Whether all do.
bool fills(const std::vector<DueJob>& jobs, int gpus);
// Whether any way at all to give out 0, 1, 2, 4 … GPUs slot by slot ends all in time, by trying all.
bool possible(const std::vector<DueJob>& jobs, int gpus);

// One job that always trains on all hosts there are, at one sample a second and host. Whole seconds.
struct HostsCase {
  struct Host {
    std::vector<std::pair<int, int>> up;  // [from, to)
    std::vector<int> notice_s;            // of each of these, before its end; 0 = none: its end is a loss
  };
  std::vector<Host> hosts;
  int detect_s = 0, change_s = 0, until_s = 1;
  int step = 1;              // samples; a loss repeats the step under way
  bool heeds_notice = true;  // leaves a host when it is told so; else stays until the end, which is a loss then
  int checkpoint_s = 0;  // > 0: a loss repeats all since the last of so many seconds of training, or the last change
};
// Samples kept at the end. A change stops training for change_s, a loss for detect_s more; a further loss or notice
// meanwhile starts the pause again, hosts that come wait for its end.
int play_hosts(const HostsCase& one);

// One job on pipelines in which each host stands in for the next one (Bamboo, NSDI'23). A sample a second and host in a
// whole pipeline; the other hosts wait.
struct PairsCase {
  HostsCase row;  // hosts, detect_s, until_s, step, checkpoint_s
  int stages = 1;
  double change_s = 0, fatal_s = 0;
  double slow = 1;  // all take so many times as long while a host works for two
};
// Samples kept at the end. A host's loss costs nothing but the slower pace; from when 5 % of the hosts at work are of
// such a pair, or as many wait as are lost, the pipelines are formed anew when the step ends. A host that comes back
// waits like a new one. A lost host whose stand-in is lost too: all go back to the last checkpoint. Hosts that make one
// pipeline more join at once; a loss while it stands still for a change begins that anew.
double play_pairs(const PairsCase& one);

}  // namespace scalai::policy::small
