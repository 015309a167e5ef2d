#pragma once
// Checkpoint period, and effective training time ratio. Pure functions; any thread.
//
// Failures are random, `mtbf_s` seconds apart on average. Training stops for `write_s` seconds at each checkpoint,
// every `period_s` seconds of training. A failure costs half a period of work on average, and `recover_s` seconds of
// detection and restart.
//
//   period   sqrt(2 write_s mtbf_s)                                             J. W. Young, CACM 17(9), 1974
//   ETTR     1 - [write_s / period_s + (period_s / 2 + recover_s) / mtbf_s]     first order
//   exact    period_s / [mtbf_s e^(recover_s / mtbf_s) (e^((period_s + write_s) / mtbf_s) - 1)]
//            J. T. Daly, FGCS 22(3), 2006: the complete model
//
// The first order is accurate if period_s + recover_s is much smaller than mtbf_s. The exact form has exponential times
// between failures, which can also happen during a checkpoint or a recovery.

namespace scalai::jobs {

// Seconds of training between checkpoints. Arguments >= 0; kNever without failures.
double young_daly_period_s(double write_s, double mtbf_s);

struct EttrInput {
  double period_s = 0;  // > 0
  double write_s = 0;
  double recover_s = 0;
  double mtbf_s = 0;  // > 0
};

// Share of wall time that trains and is kept; at least 0.
double first_order_ettr(const EttrInput& input);
double exact_ettr(const EttrInput& input);

}  // namespace scalai::jobs
