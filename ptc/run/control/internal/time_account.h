#pragma once
// Where the time of a job goes. From its submission on, each stretch begins where the one before it ends, so that the
// parts of the downtime and the time of steps that count add up to the wall time. A value; one thread.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/run/control/records.h"
#include "ptc/run/control/training.h"

namespace scalai::control {

class TimeAccount {
 public:
  void begin(double at_s) { since_s_ = at_s; }

  // The stretch under way ends at `at_s`, and it was … A stretch that has not begun by then has no length.
  void changed(double at_s) { down_.reconfigurations_s += take(at_s); }
  void waited(double at_s);  // for the reason that wait_for() named last
  void stood_for_copy(double at_s) { down_.snapshots_s += take(at_s); }
  // … training, with `steps` of it done. What is left is a pause for a snapshot before the first step, and a step cut
  // off after the last; a wait while a step stands still on a link that is down.
  void trained(const Training& training, int64_t steps, double at_s);

  // More samples than steps of the job's global batch would have, in steps that count; < 0 = fewer.
  int64_t more_samples() const;

  // Of waits from now on, in words.
  void wait_for(std::string reason) { reason_ = std::move(reason); }
  // The job goes on from `step`: later steps count no more.
  void roll_back(int64_t step);

  const DowntimeRecord& down() const { return down_; }
  // The wait under way is the last.
  void wait_to_the_end();

 private:
  struct Steps {
    int64_t from = 0, until = 0;
    double step_s = 0;
    int64_t more_samples = 0;  // of each step
  };

  double take(double at_s);
  void add_wait(const std::string& reason, double seconds);

  double since_s_ = 0;
  std::string reason_;
  std::vector<Steps> steps_;  // that count, in order
  DowntimeRecord down_;
};

}  // namespace scalai::control
