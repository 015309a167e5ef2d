#pragma once
// Results of a case, and their output: one table with units, like that of nccl-tests, or JSON. Values and pure
// functions; any thread.
//
//   algorithm bandwidth = bytes of the state / time           rate seen by the job
//   bus bandwidth       = bytes of the busiest device / time  rate of its link: the larger of received and sent
//   ratio               = our time / the yardstick's          below 1: Scalai is faster

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/base/screen.h"

namespace scalai::executor::bench {

struct Yardstick {
  std::string name;
  double seconds = 0;
};

struct Measurement {
  std::string name;
  int devices = 0;
  std::string transport;
  int64_t state_bytes = 0;
  int64_t moved_bytes = 0;    // moved between devices by the plan
  int64_t busiest_bytes = 0;  // the largest number of bytes that one device receives or sends
  int64_t busiest_received = 0;
  double prepare_s = 0;            // median
  double first_s = 0;              // transfer of the first repetition, not in the median
  std::vector<double> transfer_s;  // of each repetition, all rounds
  int64_t errors = 0;              // wrong pieces, over all repetitions
  std::vector<Yardstick> yardsticks;

  double seconds() const;  // median transfer
  double algorithm_bytes_per_s() const;
  double bus_bytes_per_s() const;
  double ratio(const Yardstick& yardstick) const;
};

// One row per case and yardstick.
std::string table_text(const std::vector<Measurement>& list, const Screen& screen = {});
// {"schema_version": 1, "measurements": […]}; SI units.
std::string json_text(const std::vector<Measurement>& list);

}  // namespace scalai::executor::bench
