#pragma once
// What a case came to, and how it is printed: one table with units, as nccl-tests do it, or JSON. Pure functions.
//
//   algorithm bandwidth = bytes of the state / time           what the job sees
//   bus bandwidth       = bytes of the busiest device / time  what its link carries: the larger of received and sent
//   ratio               = our time / the yardstick's          below 1: we are faster

#include <cstdint>
#include <string>
#include <vector>

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
  int64_t moved_bytes = 0;    // that the plan moves between devices
  int64_t busiest_bytes = 0;  // received or sent by the device that does the most of it
  int64_t busiest_received = 0;
  double prepare_s = 0;            // median
  double first_s = 0;              // transfer of the first time, which the median leaves out
  std::vector<double> transfer_s;  // of each repetition, all rounds
  int64_t errors = 0;              // pieces that were not what they should be, over all times
  std::vector<Yardstick> yardsticks;

  double seconds() const;  // median transfer
  double algorithm_bytes_per_s() const;
  double bus_bytes_per_s() const;
  double ratio(const Yardstick& yardstick) const;
};

// Of an even number of values the mean of the middle two; 0 of none.
double median(std::vector<double> values);

// A row a case and yardstick.
std::string table_text(const std::vector<Measurement>& list);
// {"schema_version": 1, "measurements": […]}; SI units.
std::string json_text(const std::vector<Measurement>& list);

}  // namespace scalai::executor::bench
