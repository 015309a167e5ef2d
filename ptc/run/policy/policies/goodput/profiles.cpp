#include "ptc/run/policy/policies/goodput/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr int kMostNodes = 16;      // of scalability.csv
constexpr double kRounding = 1e-8;  // for ceilings of quotients, as in the authors' simulator

int64_t ceiling(double value) { return static_cast<int64_t>(std::ceil(value - kRounding)); }

// Rows of numbers under a header that must be `header`.
absl::StatusOr<std::vector<std::vector<double>>> read_numbers(const std::string& path, std::string_view header) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::vector<std::vector<double>> rows;
  const auto fields = static_cast<size_t>(std::count(header.begin(), header.end(), ',')) + 1;
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row(text.data() + at, end - at);
    at = end + 1;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    if (line == 1) {
      if (row != header) return invalid(fmt::format("{}:1: the header is \"{}\", not \"{}\"", path, row, header));
      continue;
    }
    std::vector<double> values;
    while (values.size() < fields) {
      const std::string_view field = row.substr(0, row.find(','));
      double value = 0;
      const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), value);
      if (error != std::errc{} || rest != field.data() + field.size() || !std::isfinite(value)) {
        return invalid(fmt::format("{}:{}: field {} \"{}\" is not a number", path, line, values.size() + 1, field));
      }
      values.push_back(value);
      row.remove_prefix(std::min(row.size(), field.size() + 1));
    }
    if (!row.empty()) return invalid(fmt::format("{}:{}: more than {} fields", path, line, fields));
    rows.push_back(std::move(values));
  }
  if (rows.empty()) return invalid(fmt::format("{}: no rows", path));
  return rows;
}

// Hosts stand in a ring: the least rotation of the digits names a placement.
std::string least_rotation(const std::string& digits) {
  std::string least = digits;
  for (size_t k = 1; k < digits.size(); ++k) least = std::min(least, digits.substr(k) + digits.substr(0, k));
  return least;
}

StepTime mix(const StepTime& a, const StepTime& b, double weight_b) {
  return {a.step_s + (b.step_s - a.step_s) * weight_b, a.sync_s + (b.sync_s - a.sync_s) * weight_b};
}

// A step takes time, and the exchange no more than the step (extrapolation may overshoot).
StepTime sane(StepTime time) {
  time.step_s = std::max(time.step_s, 1e-6);
  time.sync_s = std::clamp(time.sync_s, 0.0, time.step_s * 0.999);
  return time;
}

}  // namespace

double step_gain(const GradientNoise& noise, double scale) {
  const double denominator = noise.var / scale + noise.sqr;
  return denominator > 0 ? (noise.var + noise.sqr) / denominator : 1.0;
}

absl::StatusOr<Application> Application::load(const std::string& name, const std::string& folder) {
  Application app;
  app.name_ = name;
  SCALAI_RETURN_IF_ERROR(app.read_steps(folder));
  SCALAI_RETURN_IF_ERROR(app.read_epochs(folder));
  if (app.most_batch() < app.least_local_) return invalid(fmt::format("{}: every batch is below a local one", folder));
  // The authors' simulator holds YOLOv3 to 8 samples a pass, all that scalability.csv measured (applications.py).
  if (name == "yolov3") app.most_local_ = std::min<int64_t>(app.most_local_, 8);
  return app;
}

absl::Status Application::read_steps(const std::string& folder) {
  const std::string placements = folder + "/placements.csv";
  SCALAI_ASSIGN_OR_RETURN(const auto placed, read_numbers(placements, "placement,local_bsz,step_time,sync_time"));
  SCALAI_ASSIGN_OR_RETURN(const auto spread, read_numbers(folder + "/scalability.csv",
                                                          "num_nodes,num_replicas,local_bsz,step_time,sync_time"));
  struct Sum {
    StepTime time;
    int count = 0;
  };
  std::map<std::pair<int, int>, std::map<int64_t, Sum>> sums;
  for (const std::vector<double>& row : placed) {
    const std::string digits = fmt::format("{}", static_cast<int64_t>(row[0]));
    const auto local = static_cast<int64_t>(row[1]);
    if (digits.find_first_not_of("1234") != std::string::npos || local <= 0 || row[2] <= 0) {
      return invalid(fmt::format("{}: placement {} with batch {}: digits 1 to 4, batch and time above 0", placements,
                                 digits, local));
    }
    placements_[least_rotation(digits)].push_back({local, {row[2], row[3]}});
    int replicas = 0;
    for (const char digit : digits) replicas += digit - '0';
    Sum& sum = sums[{static_cast<int>(digits.size()), replicas}][local];
    sum.time.step_s += row[2];
    sum.time.sync_s += row[3];
    sum.count += 1;
    least_local_ = least_local_ == 0 ? local : std::min(least_local_, local);
    most_local_ = std::max(most_local_, local);
  }
  for (auto& [digits, curve] : placements_) {
    std::sort(curve.begin(), curve.end(), [](const Sample& a, const Sample& b) { return a.local < b.local; });
  }
  for (const auto& [size, curve] : sums) {
    for (const auto& [local, sum] : curve) {
      grid_[size.first][size.second].push_back({local, {sum.time.step_s / sum.count, sum.time.sync_s / sum.count}});
    }
  }
  for (const std::vector<double>& row : spread) {
    grid_[static_cast<int>(row[0])][static_cast<int>(row[1])].push_back(
        {static_cast<int64_t>(row[2]), {row[3], row[4]}});
  }
  if (grid_.empty() || grid_.begin()->first != 1) {  // more nodes are measured against one
    return invalid(fmt::format("{}: no placement on one node (1 to 4)", placements));
  }
  for (auto& [nodes, by_replicas] : grid_) {
    for (auto& [replicas, curve] : by_replicas) {
      std::sort(curve.begin(), curve.end(), [](const Sample& a, const Sample& b) { return a.local < b.local; });
    }
  }
  return absl::OkStatus();
}

absl::Status Application::read_epochs(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    int64_t batch = 0;
    if (!file.starts_with("validation-") || !file.ends_with(".csv")) continue;
    const char* end = file.data() + file.size() - 4;
    const auto [rest, wrong] = std::from_chars(file.data() + 11, end, batch);
    if (wrong != std::errc{} || rest != end || batch <= 0) {
      return invalid(fmt::format("{}/{}: the name should hold a global batch: validation-<batch>.csv", folder, file));
    }
    SCALAI_ASSIGN_OR_RETURN(const auto rows,
                            read_numbers(entry.path().string(), "progress,iteration,metric,grad_sqr,grad_var"));
    for (const auto& row : rows) noise_[batch].push_back({row[0], row[1], row[3], row[4]});
  }
  if (noise_.empty()) return missing(fmt::format("{}: no validation-<batch>.csv", folder));
  size_t epochs = noise_.begin()->second.size();
  for (const auto& [batch, rows] : noise_) epochs = std::min(epochs, rows.size());
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    double end = noise_.begin()->second[epoch].progress;
    for (const auto& [batch, rows] : noise_) end = std::min(end, rows[epoch].progress);
    if (end <= (ends_.empty() ? 0 : ends_.back())) {
      return invalid(fmt::format("{}: progress does not grow in epoch {}", folder, epoch + 1));
    }
    ends_.push_back(end);
  }
  return absl::OkStatus();
}

int Application::epoch_at(double progress) const {
  const auto at = std::upper_bound(ends_.begin(), ends_.end(), progress);
  return std::min(static_cast<int>(at - ends_.begin()), epochs() - 1);
}

std::pair<const std::vector<Application::EpochRow>*, const std::vector<Application::EpochRow>*> Application::around(
    int64_t batch, double& weight) const {
  const int64_t inside = std::clamp(batch, initial_batch(), most_batch());
  const auto upper = noise_.lower_bound(inside);
  if (upper->first == inside) {
    weight = 0;
    return {&upper->second, &upper->second};
  }
  const auto lower = std::prev(upper);
  weight = static_cast<double>(inside - lower->first) / static_cast<double>(upper->first - lower->first);
  return {&lower->second, &upper->second};
}

double Application::iterations(int64_t batch, int epoch) const {
  if (epoch <= 0) return 0;
  double weight = 0;
  const auto [lower, upper] = around(batch, weight);
  const auto row = static_cast<size_t>(std::min(epoch, epochs())) - 1;
  return (*lower)[row].iteration * (1 - weight) + (*upper)[row].iteration * weight;
}

GradientNoise Application::noise(int64_t batch, int epoch) const {
  double weight = 0;
  const auto [lower, upper] = around(batch, weight);
  const EpochRow& a = (*lower)[static_cast<size_t>(epoch)];
  const EpochRow& b = (*upper)[static_cast<size_t>(epoch)];
  return {a.sqr * (1 - weight) + b.sqr * weight, a.var * (1 - weight) + b.var * weight};
}

// Linear between measured batches; beyond them nothing, or the line of the last two.
std::optional<StepTime> Application::along(const Curve& curve, int64_t local, bool extrapolate) {
  if (!extrapolate && (local < curve.front().local || local > curve.back().local)) return std::nullopt;
  if (curve.size() == 1) return curve.front().time;
  const auto upper =
      std::lower_bound(curve.begin(), curve.end(), local, [](const Sample& s, int64_t b) { return s.local < b; });
  const auto last = std::min<size_t>(static_cast<size_t>(upper - curve.begin()), curve.size() - 1);
  const Sample& b = curve[std::max<size_t>(last, 1)];
  const Sample& a = curve[std::max<size_t>(last, 1) - 1];
  return mix(a.time, b.time, static_cast<double>(local - a.local) / static_cast<double>(b.local - a.local));
}

StepTime Application::at_nodes(const std::map<int, Curve>& by_replicas, double replicas, int64_t local) const {
  const auto upper = by_replicas.lower_bound(static_cast<int>(std::ceil(replicas)));
  if (upper == by_replicas.end()) return *along(std::prev(upper)->second, local, true);
  if (upper == by_replicas.begin() || upper->first == replicas) return *along(upper->second, local, true);
  const auto lower = std::prev(upper);
  return mix(*along(lower->second, local, true), *along(upper->second, local, true),
             (replicas - lower->first) / (upper->first - lower->first));
}

std::optional<StepTime> Application::step_time(int nodes, int replicas, int64_t local) const {
  if (nodes < 1 || replicas < nodes || local < least_local_ || local > most_local_) return std::nullopt;
  nodes = std::min(nodes, kMostNodes);
  if (replicas > 4 * nodes) return std::nullopt;
  const auto upper = grid_.lower_bound(nodes);
  if (upper == grid_.end()) return std::nullopt;
  if (upper->first == nodes) return sane(at_nodes(upper->second, replicas, local));
  const auto lower = std::prev(upper);
  const double density = static_cast<double>(replicas) / nodes;
  return sane(mix(at_nodes(lower->second, density * lower->first, local),
                  at_nodes(upper->second, density * upper->first, local),
                  static_cast<double>(nodes - lower->first) / (upper->first - lower->first)));
}

std::optional<StepTime> Application::step_time(std::span<const int> gpus, int64_t local) const {
  std::string digits;
  int replicas = 0;
  for (const int count : gpus) {
    if (count < 1 || count > 4) return std::nullopt;
    digits += static_cast<char>('0' + count);
    replicas += count;
  }
  // Only four nodes were measured placement by placement.
  if (digits.size() <= 4) {
    if (const auto it = placements_.find(least_rotation(digits)); it != placements_.end()) {
      return along(it->second, local, false);
    }
  }
  return step_time(static_cast<int>(gpus.size()), replicas, local);
}

BatchCut Application::cut(int64_t batch, int replicas) const {
  const int64_t local = ceiling(static_cast<double>(batch) / replicas);
  int64_t accumulation = ceiling(static_cast<double>(local) / static_cast<double>(most_local_)) - 1;
  if (replicas == 1 && batch > initial_batch()) accumulation = std::max<int64_t>(accumulation, 1);
  const int64_t passes = replicas * (accumulation + 1);
  return {std::min(ceiling(static_cast<double>(local) / static_cast<double>(accumulation + 1)), most_batch() / passes),
          accumulation};
}

absl::StatusOr<Profiles> Profiles::load(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::exists(entry.path() / "placements.csv", error)) names.push_back(entry.path().filename());
  }
  if (names.empty()) {
    return missing(fmt::format("{}: no profiles there (a folder with placements.csv for each application)", folder));
  }
  std::sort(names.begin(), names.end());
  Profiles profiles;
  for (const std::string& name : names) {
    SCALAI_ASSIGN_OR_RETURN(Application app, Application::load(name, folder + "/" + name));
    profiles.applications_.emplace(name, std::move(app));
  }
  return profiles;
}

const Application* Profiles::find(const std::string& name) const {
  const auto it = applications_.find(name);
  return it == applications_.end() ? nullptr : &it->second;
}

std::vector<std::string> Profiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, app] : applications_) names.push_back(name);
  return names;
}

}  // namespace scalai::policy
