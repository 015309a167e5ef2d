#include "sim/jobs/recovery/parcae_costs.h"

#include <map>

#include "fmt/format.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/host_tables.h"

namespace scalai::jobs {
namespace {

// Measured between two p3.2xlarge at 10 Gb/s; the rows below 64 KiB are latency alone.
std::map<double, double> ten_gigabit() {
  return {{4, 142.907e-6},
          {8192, 145.364e-6},
          {65536, 194.492e-6},
          {262144, 385.104e-6},
          {1048576, 1428.108e-6},
          {2097152, 3006.771e-6},
          {4194304, 5182.599e-6},
          {8388608, 9727.047e-6},
          {16777216, 18622.294e-6},
          {33554432, 38560.219e-6},
          {67108864, 74432.216e-6},
          {134217728, 153550.589e-6},
          {268435456, 305811.282e-6},
          {536870912, 601380.752e-6},
          {1073741824, 1.1982559}};
}

std::map<int, double> milliseconds(std::initializer_list<std::pair<int, int>> rows) {
  std::map<int, double> seconds;
  for (const auto& [pp, ms] : rows) seconds[pp] = ms / 1000.0;
  return seconds;
}

double small_model_regroup(PipelineLayout layout, bool grows) {
  const double base = layout.dp >= 12 ? 2.0 : layout.dp >= 6 ? 1.5 : 1.0;
  return 0.035 + base * (grows ? 1.5 : 1.0);
}

constexpr double kAdamBytes = 12;  // fp32 parameter and two moments
constexpr double kSgdBytes = 8;    // fp32 parameter and momentum

}  // namespace

absl::StatusOr<LiveputModel> parcae_costs(const std::string& model) {
  LiveputModel costs;
  costs.p2p_s = ten_gigabit();
  const std::string name = plain_model_name(model);
  if (name == plain_model_name("gpt-1.5b")) {
    costs.state_bytes = 1.56e9 * kAdamBytes;
    costs.regroup_s = gpt_regroup(0.5, 0.0393);
    // 430 ms a layer of 48, and the embedding (50257 x 1024 in fp32) from a peer.
    for (int pp = 6; pp <= 48; ++pp) costs.build_s[pp] = 0.2348 + 0.43 * ((48 + pp - 1) / pp);
    return costs;
  }
  if (name == plain_model_name("gpt-6.7b")) {
    costs.state_bytes = 6.66e9 * kAdamBytes;
    costs.regroup_s = gpt_regroup(0.5, 0.1156);
    costs.extra_grow_s = 2;
    costs.build_s = milliseconds({{12, 7961},
                                  {13, 6911},
                                  {14, 6926},
                                  {15, 7002},
                                  {16, 7195},
                                  {18, 4734},
                                  {20, 5245},
                                  {22, 4818},
                                  {24, 4798},
                                  {26, 4932}});
    return costs;
  }
  costs.process_s = 0.03;
  costs.regroup_s = small_model_regroup;
  if (name == "bert") {
    costs.state_bytes = 0.34e9 * kAdamBytes;
    costs.build_s = milliseconds({{2, 1752},
                                  {3, 1123},
                                  {4, 1095},
                                  {5, 854},
                                  {6, 860},
                                  {7, 767},
                                  {8, 754},
                                  {10, 633},
                                  {12, 626},
                                  {14, 505},
                                  {16, 531}});
    return costs;
  }
  if (name == "resnet152") {
    costs.state_bytes = 60e6 * kSgdBytes;
    costs.extra_grow_s = 3.360374;
    costs.build_s = milliseconds({{2, 110}, {4, 90}, {6, 133}, {8, 135}, {10, 120}, {12, 55}, {14, 120}, {16, 125}});
    return costs;
  }
  if (name == "vgg19") {
    costs.state_bytes = 144e6 * kSgdBytes;
    costs.extra_grow_s = 2;
    costs.regroup_s = [](PipelineLayout layout, bool grows) { return 0.035 + layout.hosts() * (grows ? 0.44 : 0.34); };
    costs.build_s = milliseconds({{2, 110}, {3, 94}, {4, 90}, {5, 105}, {6, 133}, {7, 90}, {8, 120}, {9, 106}});
    return costs;
  }
  constexpr std::string_view kKnown = "gpt-1.5b, gpt-6.7b, bert, resnet152, vgg19";
  if (model.empty())
    return invalid(
        fmt::format("the proactive design has migration costs for some models: set model=… to one of {}", kKnown));
  return invalid(fmt::format("no migration costs for model \"{}\"; there are {}", model, kKnown));
}

}  // namespace scalai::jobs
