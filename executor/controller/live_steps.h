#pragma once
// LiveSteps: steps of jobs that are shown to readers outside of the run (executor/live): who waits for one, and who
// keeps which.
//
//   reader ── CtlLive ──► answer() ── waits ──────────────┐             a thread of the server
//                                                         ▼
//   run's thread, while the job rests at a step: serve() ── show ──► LiveState to all who wait
//                                                take_unkept() ──► what no reader keeps any more: it goes
//
// Readers decide nothing of the run: no event, no scenario time, nothing in the journal. What is shown is of one step
// for ever; its version is never used again. A reader that says nothing for a while keeps nothing. What readers have
// fetched of a step they read from each other (live_holders.h).

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/controller/live_holders.h"
#include "executor/state/state_version.h"

namespace scalai::proto {
class CtlLive;
class LiveState;
class LiveTouch;
}  // namespace scalai::proto

namespace scalai::executor::controller {

struct LiveLimits {
  double patience_s = 5;              // of one request; then it is told to ask again
  double forget_after_s = 60;         // without a word from a reader
  int64_t least_digest_bytes = 4096;  // smaller pieces cost workers more than they save
  size_t most = 8;                    // steps of one job; the memory of its hosts may hold fewer
};

class LiveSteps {
 public:
  explicit LiveSteps(LiveLimits limits = {});
  ~LiveSteps();

  // Any thread. A serialized LiveState for a request of this job; `wake` tells the run's thread that somebody
  // waits. For a touch LiveSources, at once; for a version what it is, at once. Errors: of the copy that was to be
  // made; NotFound: a version that nobody keeps; Unavailable after end().
  absl::StatusOr<std::string> answer(int job, const proto::CtlLive& request, const std::function<void()>& wake);
  // Whoever waits is told that the run is over.
  void end();

  // By the run's thread. Whether somebody waits for a step of the job, or reads one.
  bool waits(int job) const;
  bool watched(int job) const;
  struct Kind {
    bool optimizer = false;    // masters and moments, too
    bool fleeting = false;     // goes when training rewrites it
    int64_t digest_bytes = 0;  // with digests of so many bytes each; 0: without
    bool stats = false;        // statistics, and nothing to be read
    bool serves(const Kind& wish) const {
      if (stats || wish.stats) return stats == wish.stats && optimizer >= wish.optimizer;
      const bool digested = wish.digest_bytes == 0 || wish.digest_bytes == digest_bytes;
      return optimizer >= wish.optimizer && fleeting <= wish.fleeting && digested;
    }
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  // The job rests at `step` of its epoch: gives it to all who wait for it, by what is shown already, or what `show`
  // shows. An error of `show` is theirs, and returned.
  using Show = std::function<absl::StatusOr<proto::LiveState>(state::StateVersion version, const Kind& kind)>;
  absl::Status serve(int job, int64_t epoch, int64_t step, const Show& show);
  // The job changes: nobody gets what is fleeting any more.
  void lose_fleeting(int job);
  // What of the job nobody keeps; it is forgotten here.
  std::vector<state::StateVersion> take_unkept(int job);

 private:
  using Clock = std::chrono::steady_clock;
  struct Shown {
    int job = 0;
    int64_t epoch = 0, step = 0;
    Kind kind;
    bool lost = false;
    std::unique_ptr<proto::LiveState> state;
  };
  struct Reader {
    Clock::time_point last_asked;
    std::set<int64_t> keeps;  // versions
  };
  struct Waiting {
    int job = 0;
    uint64_t reader = 0;
    Kind kind;
    int64_t after_step = -1;
    bool done = false;
    absl::StatusOr<int64_t> version = absl::UnavailableError("the run is over");
  };
  static std::string whole(const Shown& shown, const proto::LiveState& reply);
  bool is_kept(int64_t version) const;
  std::string sources(uint64_t reader, const proto::LiveTouch& touch);
  absl::StatusOr<int64_t> version_for(const Waiting& waiting, int64_t epoch, int64_t step, const Show& show);

  const LiveLimits limits_;
  mutable std::mutex mutex_;  // guards all below; not held while a step is shown
  std::condition_variable served_;
  bool over_ = false;
  int64_t next_;                    // number of the next version
  std::map<int64_t, Shown> shown_;  // by version
  std::map<uint64_t, Reader> readers_;
  LiveHolders holders_;
  std::list<Waiting> waiting_;
};

}  // namespace scalai::executor::controller
