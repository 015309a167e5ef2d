#pragma once
// For tests of this folder and below: public data where it is present, small fleets and workloads, a plain throughput.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::policy::testing {

#ifdef SCALAI_SOURCE_DIR
// A file or folder of the public data ("philly/philly_jobs.csv"): under $SCALAI_DATA, else under ../shared/data beside
// the checkout. "" when it is not there: skip the test, and say data_hint().
inline std::string data_path(const std::string& name) {
  const char* root = std::getenv("SCALAI_DATA");
  const std::string path = (root != nullptr ? std::string(root) : SCALAI_SOURCE_DIR "/../shared/data") + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

inline std::string data_hint(const std::string& name) {
  return "public data " + name + " is not here; set SCALAI_DATA to the folder that has it";
}
#endif

// A fleet of one type.
inline Fleet plain_fleet(int hosts, int gpus_per_host, double price_per_gpu_hour = 0) {
  Fleet fleet;
  fleet.types.push_back(TypeSpec{.name = "gpu", .price_per_gpu_hour = price_per_gpu_hour});
  fleet.hosts.assign(static_cast<size_t>(hosts), HostSpec{.type = GpuType(0), .gpus = gpus_per_host});
  return fleet;
}

// A job that runs for `seconds` on exactly `gpus` GPUs (at one iteration a second).
inline Job rigid_job(std::string name, double submit_s, int gpus, double seconds) {
  Job job;
  job.name = std::move(name);
  job.submit_s = submit_s;
  job.gpus = job.min_gpus = job.max_gpus = gpus;
  job.work = job.duration_s = seconds;
  return job;
}

// One iteration a second on the GPUs asked for, in proportion on others; type k is `speed[k]` times as fast (1 beyond).
// Two jobs that share run at `shared` of that each.
class PlainThroughput : public Throughput {
 public:
  explicit PlainThroughput(std::vector<double> speed = {}, double shared = 0)
      : speed_(std::move(speed)), shared_(shared) {}

  Rate rate(const Job& job, GpuType type, int gpus, double /*work_done*/) const override {
    const size_t k = static_cast<size_t>(type.value);
    return Rate{.per_s = (k < speed_.size() ? speed_[k] : 1) * gpus / job.gpus};
  }
  std::pair<double, double> shared_rate(const Job& a, const Job& b, GpuType type, int gpus) const override {
    return {shared_ * rate(a, type, gpus, 0).per_s, shared_ * rate(b, type, gpus, 0).per_s};
  }
  std::string description() const override { return "plain"; }

 private:
  std::vector<double> speed_;
  double shared_;
};

}  // namespace scalai::policy::testing
