#pragma once
// How often to write a checkpoint, and what is left of the time. Pure functions.
//
// Failures come at random, `mtbf_s` seconds apart on average. Training stops `write_s` seconds for each checkpoint,
// every `period_s` seconds of training; a failure costs half a period of work on average, and `recover_s` seconds of
// detection and restart.
//
//   period   sqrt(2 write_s mtbf_s)                                             J. W. Young, CACM 17(9), 1974
//   ETTR     1 - [write_s / period_s + (period_s / 2 + recover_s) / mtbf_s]     first order
//   exact    period_s / [mtbf_s e^(recover_s / mtbf_s) (e^((period_s + write_s) / mtbf_s) - 1)]
//            J. T. Daly, FGCS 22(3), 2006: the complete model
//
// The first order is good where period_s + recover_s is much smaller than mtbf_s; the exact form has exponential times
// between failures, which also strike while a checkpoint is written or the job recovers.

namespace scalai::sched {

// Seconds of training between checkpoints. Arguments >= 0; kNever when nothing ever fails.
double young_daly_period_s(double write_s, double mtbf_s);

struct EttrInput {
  double period_s = 0;  // > 0
  double write_s = 0;
  double recover_s = 0;
  double mtbf_s = 0;  // > 0
};

// Effective training time ratio: the share of wall time that trains and is kept; at least 0.
double first_order_ettr(const EttrInput& input);
double exact_ettr(const EttrInput& input);

}  // namespace scalai::sched
