#pragma once
// The generators by family. Each fills what it makes into an Imported; generate() sums it up.

#include <vector>

#include "ptc/base/random.h"
#include "ptc/run/scenario/trace/generate.h"
#include "ptc/run/scenario/trace/internal/reading.h"

namespace scalai::trace {

struct Making {
  OptionValues options;
  Problems problems;  // a generator that finds some returns at once
  Random random;
  int hosts = 0, gpus_per_host = 1;
  double end_s = 0;  // of host events
  Imported made;
};

struct Generator {
  GeneratorInfo info;
  absl::Status (*make)(Making& making);
};

std::vector<Generator> job_generators();         // generate_jobs.cpp
std::vector<Generator> failure_generators();     // generate_failures.cpp
std::vector<Generator> resampling_generators();  // generate_resampled.cpp

}  // namespace scalai::trace
