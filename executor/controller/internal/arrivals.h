#pragma once
// Arrivals: what comes upon a run from outside of its agenda: workers that are lost, devices whose trainers left no
// whole state, requests of users. It owns the losses that the control loop has not been told. Whoever waits for
// anything real waits here. One thread: that of the runtime.

#include "executor/controller/internal/run_state.h"
#include "executor/rpc/controller_end.h"

namespace scalai::executor::controller {

constexpr double kLossTimeout_s = 30;  // from a failed transfer to the loss that explains it
constexpr double kPoll_s = 0.02;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
// Whether a lost worker may be what a command failed of.
inline bool may_be_loss(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsCancelled(status); }

class Arrivals {
 public:
  // Both outlive this object.
  Arrivals(RunState& run, rpc::ControllerEnd& controller) : run_(run), controller_(controller) {}

  // Takes what is there, after at most this time without anything, and reports it to the control loop.
  void receive(double timeout_s);
  // Receives until something is so, or for `most_s`.
  void await(double most_s, const std::function<bool()>& is_so);
  // Receives for a while, before another attempt at what has failed: at first, where that is 0, a short one.
  void pause(double& pause_s);
  // Of a worker that could not be reached. Returns OK if a worker is lost; the control loop receives DevicesLost
  // instead.
  absl::Status unless_lost(const absl::Status& status);
  void lose_worker(HostId host, const std::string& why);
  // Devices whose trainers ended amid a step, without a whole state.
  absl::Status lose(const Interruption& interruption);
  void report_losses();
  // An error that came up where nobody could be told.
  const absl::Status& trouble() const { return trouble_; }

 private:
  struct Loss {
    std::vector<DeviceId> devices;
    bool usable = false;  // as DevicesLost::usable
    std::string cause = {};
  };
  // Whether trainers stand beyond where scenario time is, as an earlier controller left them.
  bool catching_up() const;

  RunState& run_;
  rpc::ControllerEnd& controller_;
  int64_t losses_ = 0;               // workers lost so far
  std::vector<Loss> unreported_;     // the control loop has not been told
  std::map<DeviceId, int> emptied_;  // how often trainers left a device without its state
  bool reporting_ = false;
  absl::Status trouble_;
};

}  // namespace scalai::executor::controller
