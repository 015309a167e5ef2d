#pragma once
// The ledger of one job under steady rules: time goes on, samples are made, checkpoints written, and taken back when
// state is lost. Knows nothing of hosts' identities or of designs.

#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs::recovery::internal {

class Ledger {
 public:
  explicit Ledger(const RecoverySetup& setup) : setup_(setup) {}

  // Books what happens until `to_s`: pause, then training and checkpoints at the present rate.
  void advance(double to_s);

  double now_s() const { return now_s_; }
  bool paused() const { return pause_until_s_ > now_s_; }
  int live() const { return live_; }
  double rate() const { return rate_; }
  double step_s() const { return rate_ > 0 ? setup_.samples_per_step / rate_ : 0; }
  double step_left_s() const;  // training time to the end of the step under way

  void set_live(int hosts) { live_ = hosts; }
  void set_used(int hosts) { used_ = hosts; }
  void set_rate(double samples_per_s) { rate_ = samples_per_s; }
  void pause(double seconds) { pause_until_s_ = now_s_ + seconds; }
  void stop() { pause_until_s_ = now_s_; }

  double write_now();  // begins a checkpoint, whatever is written already; returns the seconds that it takes
  void written();      // the one being written is whole
  void roll_back();    // to the last whole checkpoint
  void lose_step();    // the step under way
  void host_lost() { ++result_.losses; }
  void restarted() { ++result_.restarts; }
  void fatal() { ++result_.fatal; }
  void note();  // a phase, if anything changed

  policy::RecoveryResult result();

 private:
  void train(double seconds);
  void lose(double samples, double seconds, double gpu_h);
  double hours(double seconds, int hosts) const { return seconds / 3600 * hosts * setup_.gpus_per_host; }

  const RecoverySetup& setup_;
  double now_s_ = 0;
  double pause_until_s_ = 0;
  int live_ = 0, used_ = 0;
  double rate_ = 0;
  double samples_ = 0;
  double saved_samples_ = 0;                  // in the last whole checkpoint
  double period_s_ = 0;                       // trained since the last checkpoint was begun
  double write_left_s_ = 0;                   // of the one being written
  double train_s_ = 0;                        // training that is kept
  double unsaved_s_ = 0, unsaved_gpu_h_ = 0;  // of it, since the checkpoint that counts
  bool started_ = false;
  double host_s_ = 0;
  policy::RecoveryResult result_;
};

}  // namespace scalai::jobs::recovery::internal
