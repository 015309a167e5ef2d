// PlacementsAudit: every built-in policy of many jobs on random loads with hosts that fail, audited from
// placements.csv, hosts.csv and jobs.csv alone. `./dev soak` plays two thousand loads.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/csv_rows.h"
#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace placements_audit_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
struct Files {
  std::string placements, hosts, jobs;
};

// What is wrong, a line each. `side_by_side`: so many jobs may share a GPU.
class Audit {
 public:
  Audit(const Files& files, int side_by_side) : side_by_side_(side_by_side) {
    for (const Row& row : rows_of(files.hosts)) {
      Host& host = hosts_[row.at("host")];
      host.gpus = std::stoi(row.at("gpus"));
      host.up.emplace_back(number(row, "up_from_s"), number(row, "up_to_s"));
    }
    for (const Row& row : rows_of(files.placements)) take(row);
    for (auto& [name, host] : hosts_) look_at(name, host);
    for (const Row& row : rows_of(files.jobs)) look_at(row);
    if (jobs_.size() != rows_of(files.jobs).size()) problems_.emplace_back("jobs without a placement");
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Host {
    int gpus = 0;
    std::vector<std::pair<double, double>> up;
    std::map<double, int> change;                 // of GPUs in use
    std::map<int, std::map<double, int>> device;  // of jobs on it
  };
  struct Job {
    double from_s = 0, to_s = -1, held = 0, changing = 0;
    std::string reason, devices;  // of its last row
    bool lost = false;            // a host of its last row went down at its end
  };

  void wrong(const std::string& what) { problems_.push_back(what); }

  void take(const Row& row) {
    const double from_s = number(row, "from_s"), to_s = number(row, "to_s");
    Job& job = jobs_[row.at("job")];
    if (job.to_s < 0) job.from_s = from_s;
    if (job.to_s >= 0 && job.to_s != from_s)
      wrong(fmt::format("job {}: {} to {} is in no row, or in two", row.at("job"), job.to_s, from_s));
    if (from_s >= to_s) wrong(fmt::format("job {}: {} to {} is no time", row.at("job"), from_s, to_s));
    follow(row, job);
    job.to_s = to_s;
    job.lost = false;
    int gpus = 0;
    for (const std::string& part : split(row.at("hosts"), ' ')) {
      const std::vector<std::string> host = split(part, ':');
      const int count = std::stoi(host.at(1));
      gpus += count;
      const auto found = hosts_.find(host.at(0));
      if (found == hosts_.end()) {
        wrong(fmt::format("job {}: {} is never up", row.at("job"), host.at(0)));
        continue;
      }
      found->second.change[from_s] += count;
      found->second.change[to_s] -= count;
      const bool up = std::any_of(found->second.up.begin(), found->second.up.end(),
                                  [&](const auto& time) { return time.first <= from_s && to_s <= time.second; });
      if (!up) wrong(fmt::format("job {}: {} is down between {} and {}", row.at("job"), host.at(0), from_s, to_s));
      job.lost = job.lost || std::any_of(found->second.up.begin(), found->second.up.end(),
                                         [&](const auto& time) { return time.second == to_s; });
    }
    take_devices(row, from_s, to_s);
    const bool waits = row.at("what") == "waits";
    if (gpus != std::stoi(row.at("gpus")) || (gpus == 0) != waits)
      wrong(fmt::format("job {}: {} {} GPUs, of hosts {}", row.at("job"), row.at("what"), row.at("gpus"), gpus));
    job.held += gpus * (to_s - from_s);
    if (row.at("what") == "changes") job.changing += gpus * (to_s - from_s);
  }

  // "h0:0-1+3" is three devices of h0: as many of each host as it has GPUs there.
  void take_devices(const Row& row, double from_s, double to_s) {
    std::string counts;
    for (const std::string& part : split(row.at("devices"), ' ')) {
      const std::vector<std::string> host = split(part, ':');
      int count = 0;
      for (const std::string& range : split(host.at(1), '+')) {
        const std::vector<std::string> ends = split(range, '-');
        for (int device = std::stoi(ends.front()); device <= std::stoi(ends.back()); ++device, ++count) {
          if (device >= hosts_[host.at(0)].gpus) wrong(fmt::format("{} has no device {}", host.at(0), device));
          hosts_[host.at(0)].device[device][from_s] += 1;
          hosts_[host.at(0)].device[device][to_s] -= 1;
        }
      }
      counts += fmt::format("{}{}:{}", counts.empty() ? "" : " ", host.at(0), count);
    }
    if (counts != row.at("hosts"))
      wrong(fmt::format("job {}: devices {} of hosts {}", row.at("job"), row.at("devices"), row.at("hosts")));
  }

  // Whether the reason of the last row fits this one, which follows it; a job that goes on keeps its devices.
  void follow(const Row& row, Job& job) {
    const std::string &reason = job.reason, what = row.at("what");
    bool fits = job.to_s < 0;
    if (reason == "started") fits = what != "waits";
    if (reason == "ready") fits = what == "trains" && row.at("devices") == job.devices;
    if (reason == "preempted") fits = what == "waits" && !job.lost;
    if (reason == "resized" || reason == "moved" || reason == "changed") fits = what != "waits" && !job.lost;
    if (reason == "host lost") fits = job.lost;
    if (!fits) wrong(fmt::format("job {}: \"{}\", and then it {}", row.at("job"), reason, what));
    job.reason = row.at("reason");
    job.devices = row.at("devices");
  }

  void look_at(const std::string& name, const Host& host) {
    for (const auto& [device, changes] : host.device) {
      int jobs = 0;
      for (const auto& [at_s, change] : changes) {
        jobs += change;
        if (jobs > side_by_side_) wrong(fmt::format("{} gives device {} to {} jobs at {}", name, device, jobs, at_s));
      }
    }
    int used = 0;
    for (const auto& [at_s, change] : host.change) {
      used += change;
      if (used > host.gpus * side_by_side_)
        wrong(fmt::format("{} has {} GPUs and gives {} at {}", name, host.gpus, used, at_s));
    }
  }

  void look_at(const Row& row) {
    const Job& job = jobs_[row.at("job")];
    const auto equal = [](double a, double b) { return std::abs(a - b) <= 1e-6 * std::max({1.0, a, b}); };
    if (!equal(job.held, number(row, "attained_gpu_s")))
      wrong(fmt::format("job {}: {} GPU-s held, {} said", row.at("job"), job.held, row.at("attained_gpu_s")));
    if (!equal(job.changing, number(row, "changing_gpu_s")))
      wrong(fmt::format("job {}: {} GPU-s in changes, {} said", row.at("job"), job.changing, row.at("changing_gpu_s")));
    if (job.from_s != number(row, "submit_s")) wrong(fmt::format("job {} is there before it comes", row.at("job")));
    if (row.at("end") == "finished" && job.to_s != number(row, "finish_s"))
      wrong(fmt::format("job {} ends at {}, {} said", row.at("job"), job.to_s, row.at("finish_s")));
    if ((row.at("end") == "finished") != (job.reason == "completed"))
      wrong(fmt::format("job {} {}, \"{}\" said", row.at("job"), row.at("end"), job.reason));
  }

  const int side_by_side_;
  std::map<std::string, Host> hosts_;
  std::map<std::string, Job> jobs_;
  std::vector<std::string> problems_;
};

// Free GPUs, of these on partly used hosts, and of these of no use to a job of the workload on average (x seconds):
// again from the files, without the engine's ledger. Only where a GPU has one job.
struct Free {
  double gpu_s = 0, scattered_gpu_s = 0, unusable_gpu_s = 0;
};

Free free_of(const Files& files) {
  std::set<double> times;
  for (const std::string* file : {&files.hosts, &files.placements}) {
    for (const Row& row : rows_of(*file)) {
      for (const auto& [name, cell] : row)
        if (name.ends_with("_s")) times.insert(std::stod(cell));
    }
  }
  const std::vector<double> at(times.begin(), times.end());
  const auto index = [&](double time) { return std::lower_bound(at.begin(), at.end(), time) - at.begin(); };
  std::vector<std::map<std::string, std::pair<int, int>>> hosts(at.size());  // by time: GPUs and free ones of those up
  for (const Row& row : rows_of(files.hosts)) {
    const int gpus = std::stoi(row.at("gpus"));
    for (auto k = index(number(row, "up_from_s")); k < index(number(row, "up_to_s")); ++k)
      hosts[static_cast<size_t>(k)][row.at("host")] = {gpus, gpus};
  }
  for (const Row& row : rows_of(files.placements)) {
    for (const std::string& part : split(row.at("hosts"), ' ')) {
      const std::vector<std::string> host = split(part, ':');
      for (auto k = index(number(row, "from_s")); k < index(number(row, "to_s")); ++k)
        hosts[static_cast<size_t>(k)].at(host.at(0)).second -= std::stoi(host.at(1));
    }
  }
  const std::vector<Row> jobs = rows_of(files.jobs);
  Free sum;
  for (size_t k = 0; k + 1 < at.size(); ++k) {
    const double dt = at[k + 1] - at[k];
    for (const auto& [name, host] : hosts[k]) {
      const auto [gpus, free] = host;
      sum.gpu_s += dt * free;
      if (free < gpus) sum.scattered_gpu_s += dt * free;
      int fails = 0;
      for (const Row& job : jobs) fails += free < std::min(std::stoi(job.at("gpus")), gpus);
      sum.unusable_gpu_s += dt * free * fails / static_cast<double>(jobs.size());
    }
  }
  return sum;
}

const Files kRight{
    "from_s,to_s,job,what,gpus,hosts,devices,reason\n0,4,a,changes,3,h0:2 h1:1,h0:0-1 h1:0,ready\n"
    "4,8,a,trains,3,h0:2 h1:1,h0:0-1 h1:0,completed\n2,8,b,waits,0,,,started\n8,9,b,trains,2,h0:2,h0:0-1,resized\n"
    "9,10,b,trains,1,h0:1,h0:1,completed\n",
    "host,type,gpus,up_from_s,up_to_s\nh0,x,2,0,10\nh1,x,2,0,8\n",
    "job,submit_s,end,finish_s,attained_gpu_s,changing_gpu_s\na,0,finished,8,24,12\nb,2,finished,10,3,0\n"};

TEST(PlacementsAuditItself, FindsWhatIsWrong) {
  EXPECT_THAT(Audit(kRight, 1).problems(), IsEmpty());
  const auto changed = [](std::string Files::*file, const std::string& from, const std::string& to) {
    Files files = kRight;
    const size_t at = (files.*file).find(from);
    (files.*file).replace(at, from.size(), to);
    const std::vector<std::string> problems = Audit(files, 1).problems();
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_THAT(changed(&Files::placements, "8,9,b", "7,9,b"), HasSubstr("8 to 7 is in no row, or in two"));
  EXPECT_THAT(changed(&Files::placements, "3,h0:2 h1:1,h0:0-1 h1:0,r", "3,h0:1 h1:2,h0:0 h1:0-1,r"),
              HasSubstr("\"ready\", and then it trains"));
  EXPECT_THAT(changed(&Files::placements, "2,h0:2,h0:0-1", "3,h0:3,h0:0-2"), HasSubstr("h0 has no device 2"));
  EXPECT_THAT(changed(&Files::placements, "8,9,b,trains,2,h0:2", "8,9,b,trains,2,h1:2"), HasSubstr("h1 is down"));
  EXPECT_THAT(changed(&Files::placements, "8,9,b,trains,2,h0:2", "8,9,b,trains,2,h7:2"), HasSubstr("never up"));
  EXPECT_THAT(changed(&Files::placements, "trains,2", "trains,1"), HasSubstr("trains 1 GPUs, of hosts 2"));
  EXPECT_THAT(changed(&Files::placements, "2,h0:2,h0:0-1", "2,h0:2,h0:0"), HasSubstr("devices h0:0 of hosts h0:2"));
  EXPECT_THAT(changed(&Files::placements, "2,8,b,waits,0,,,started", "2,8,b,trains,1,h0:1,h0:1,moved"),
              HasSubstr("h0 gives device 1 to 2 jobs at 2"));
  EXPECT_THAT(changed(&Files::placements, "resized", "preempted"), HasSubstr("\"preempted\", and then it trains"));
  EXPECT_THAT(changed(&Files::placements, "resized", "host lost"), HasSubstr("\"host lost\", and then it trains"));
  EXPECT_THAT(changed(&Files::placements, "h0:1,completed", "h0:1,end of run"), HasSubstr("\"end of run\" said"));
  EXPECT_THAT(changed(&Files::hosts, "h1,x,2,0,8", "h1,x,2,0,7"), HasSubstr("h1 is down between 4 and 8"));
  EXPECT_THAT(changed(&Files::jobs, "8,24,12", "8,25,12"), HasSubstr("24 GPU-s held, 25 said"));
  EXPECT_THAT(changed(&Files::jobs, "8,24,12", "8,24,11"), HasSubstr("12 GPU-s in changes, 11 said"));
  EXPECT_THAT(changed(&Files::jobs, "a,0", "a,1"), HasSubstr("before it comes"));
  EXPECT_THAT(changed(&Files::jobs, "finished,8", "finished,9"), HasSubstr("ends at 8, 9 said"));
}

// From 0 to 8 h1 has one of two GPUs free, h0 none; then h1 is down, and from 9 to 10 h0 has one.
TEST(PlacementsAuditItself, CountsFreeGpus) {
  Files files = kRight;
  files.jobs = "job,gpus\na,3\nb,1\n";
  const Free free = free_of(files);
  EXPECT_EQ(free.gpu_s, 9);
  EXPECT_EQ(free.scattered_gpu_s, 9);
  EXPECT_EQ(free.unusable_gpu_s, 4.5) << "a wants whole hosts, b takes it";
}

class PlacementsAudit : public SchedEndToEnd {
 protected:
  // Jobs that come faster than they can be served, now and then; hosts that fail.
  std::string load(uint64_t seed, bool one_gpu) const {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::string jobs = "submit_s,duration_s,num_gpus,vc\n";
    const int64_t count = 5 + below(40), gap_s = 30 + below(600);
    int64_t at_s = 0;
    for (int64_t i = 0; i < count; ++i, at_s += below(gap_s))
      jobs +=
          fmt::format("{},{},{},vc{}\n", at_s, 60 + below(1 << (8 + below(6))), one_gpu ? 1 : 1 << below(4), below(3));
    write_all(path("jobs.csv"), jobs);
    const bool mixed = below(2) == 0;
    write_all(path("load.textproto"),
              fmt::format(R"(schema_version: 1
name: "load"
seed: {}
cluster {{ hosts {{ count: {} gpus: 4 gpu: "v100-16g" nic: "10Gbps" price_per_hour: 8 }} {} }}
workload {{ file: "jobs.csv" format: "philly" }}
throughputs {{ source: "duration" beyond: "linear" set: "elastic-min=0.5" set: "elastic-max=2" }}
availability {{ generator: "poisson" set: "host-mtbf={}min" set: "repair=20min" set: "span=10d" }}
policy {{ name: "fifo" }}
changes {{ seconds: "30s" set: "start=5s" set: "checkpoint-every={}min" }}
)",
                          seed, 2 + below(4),
                          mixed ? R"(hosts { count: 2 gpus: 4 gpu: "a100-40g" nic: "10Gbps" price_per_hour: 16 })" : "",
                          60 + below(600), below(30)));
    return path("load.textproto");
  }

  void expect_free(const Free& free) const {
    const nlohmann::json metrics = nlohmann::json::parse(read_all(folder_ / "out/summary.json")).at("metrics");
    const auto near = [&](const char* name, double value) {
      EXPECT_NEAR(metrics.at(name).get<double>(), value, 1e-9 * (1 + value)) << name;
    };
    near("free_gpu_h", free.gpu_s / 3600);
    if (free.gpu_s == 0) {  // a share of nothing
      for (const char* share : {"scattered", "fragmentation"}) EXPECT_TRUE(metrics.at(share).is_null()) << share;
      return;
    }
    near("scattered", free.scattered_gpu_s / free.gpu_s);
    near("fragmentation", free.unusable_gpu_s / free.gpu_s);
  }

  // More of all: jobs with types, deadlines, weights and tenants on three kinds of GPUs that run each type at another
  // rate, alone and in pairs, with prices that change.
  std::string rich_load(uint64_t seed, bool one_gpu) const {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    write_rates(random);
    std::string jobs = "scalai-trace,1,jobs\nsubmit_s,gpus,work,type,deadline_s,weight,entity\n";
    const int64_t count = 45 + below(soaking() ? 150 : 30), gap_s = 30 + below(120);
    int64_t at_s = 0;
    for (int64_t i = 0; i < count; ++i, at_s += below(gap_s)) {
      const int64_t work = 100 + below(1 << (10 + below(9)));
      const std::string deadline = below(3) == 0 ? std::to_string(at_s + work / 2 + 60 + below(40'000)) : "";
      jobs += fmt::format("{},{},{},{},{},{},t{}\n", at_s, one_gpu ? 1 : 1 << below(4), work, kTypes[below(3)],
                          deadline, 1 + below(3), below(4));
    }
    write_all(path("rich.csv"), jobs);
    std::string prices = "scalai-trace,1,prices\nat_s,market,instance,usd_per_hour\n";
    for (int64_t hour = 0; hour < 48; ++hour)
      prices += fmt::format("{},m,{},{}\n", hour * 1800, kKinds[hour % 3], 1 + below(30));
    write_all(path("prices.csv"), prices);
    write_all(path("rich.textproto"),
              fmt::format(R"(schema_version: 1
name: "rich"
seed: {}
cluster {{ {} {} {} }}
workload {{ file: "rich.csv" }}
throughputs {{ source: "table" format: "gavel" file: "rates.json" beyond: "linear" set: "elastic-min=0.5" set: "elastic-max=2" }}
availability {{ generator: "poisson" set: "host-mtbf={}min" set: "repair=20min" set: "span=10d" }}
prices {{ file: "prices.csv" set: "v100-16g=m/v100" set: "p100-16g=m/p100" set: "k80-12g=m/k80" }}
policy {{ name: "fifo" }}
changes {{ seconds: "30s" set: "start=5s" set: "checkpoint-every={}min" }}
)",
                          seed, hosts(3 + below(8), "v100-16g"), hosts(3 + below(8), "p100-16g"),
                          hosts(3 + below(8), "k80-12g"), 200 + below(900), below(30)));
    return path("rich.textproto");
  }

 private:
  static constexpr const char* kTypes[] = {"bert", "resnet", "lstm"};
  static constexpr const char* kKinds[] = {"v100", "p100", "k80"};

  static std::string hosts(int64_t count, const std::string& gpu) {
    return fmt::format(R"(hosts {{ count: {} gpus: 4 gpu: "{}" nic: "10Gbps" price_per_hour: 8 }})", count, gpu);
  }

  // Gavel's form: rates of a type on 1 to 8 GPUs, alone and beside another one.
  void write_rates(std::mt19937_64& random) const {
    nlohmann::json rates;
    const auto factor = [&](double low, double high) {
      return low + (high - low) * static_cast<double>(random() % 1000) / 1000;
    };
    for (size_t kind = 0; kind < 3; ++kind) {
      for (const char* type : kTypes) {
        for (const int gpus : {1, 2, 4, 8}) {
          nlohmann::json& own = rates[kKinds[kind]][fmt::format("('{}', {})", type, gpus)];
          const double alone = factor(0.5, 1) * gpus * (3.0 - static_cast<double>(kind));
          own["null"] = alone;
          for (const char* other : kTypes)
            own[fmt::format("('{}', {})", other, gpus)] = {alone * factor(0.3, 0.9), alone * factor(0.3, 0.9)};
        }
      }
    }
    write_all(path("rates.json"), rates.dump());
  }
};

TEST_F(PlacementsAudit, OfEveryPolicy) {
  const nlohmann::json policies = nlohmann::json::parse(scalai("policies --format=json").out);
  const uint64_t first = std::random_device()(), loads = soaking() ? 30 : 1;
  uint64_t audited = 0;
  for (const nlohmann::json& policy : policies) {
    if (policy.at("family") == "recovery") continue;
    const std::string name = policy.at("name");
    for (uint64_t k = 0; k < 2 * loads; ++k) {
      // Outside the soak one policy in four has a rich load, too.
      if (k == loads && !soaking() && (first + audited) % 4 != 0) break;
      const uint64_t seed = first + k;
      SCOPED_TRACE(fmt::format("{}, seed {}{}", name, seed, k < loads ? "" : ", rich"));
      const std::string file = k < loads ? load(seed, name == "allox") : rich_load(seed, name == "allox");
      const Outcome run = sim(fmt::format("{} --set=policy.name={} --out='{}'", file, name, path("out")));
      EXPECT_EQ(run.code, 0) << run.err;
      if (run.code != 0) continue;
      const Files files{read_all(folder_ / "out/placements.csv"), read_all(folder_ / "out/hosts.csv"),
                        read_all(folder_ / "out/jobs.csv")};
      EXPECT_THAT(Audit(files, name == "gandiva" ? 2 : 1).problems(), IsEmpty());
      if (name != "gandiva") expect_free(free_of(files));
      ++audited;
    }
  }
  EXPECT_GT(audited, 30U);
}

}  // namespace placements_audit_test
}  // namespace scalai::testing
