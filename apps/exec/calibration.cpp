#include "apps/exec/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

// Compute is not measured: an arbitrary small number, for scenarios that give no step times.
constexpr const char* kPeakTflops = "0.1";

std::string bandwidth(double bytes_per_s) { return fmt::format("\"{:.3f}MB/s\"", std::max(bytes_per_s, 1e3) / 1e6); }

double error_of(const LineFit& fit, const Timing& timing) {
  const double fitted = fit.latency_s + static_cast<double>(timing.bytes) / fit.bytes_per_s;
  return std::abs(fitted - timing.seconds) / timing.seconds;
}

LineFit with_worst_error(LineFit fit, std::span<const Timing> timings) {
  for (const Timing& timing : timings) fit.worst_error = std::max(fit.worst_error, error_of(fit, timing));
  return fit;
}

// With u = 1/t and v = bytes/t the squares are (latency·u + v/rate − 1)²: linear in latency and 1/rate.
LineFit least_squares(std::span<const Timing> timings) {
  double uu = 0, uv = 0, vv = 0, su = 0, sv = 0;
  for (const Timing& timing : timings) {
    const double u = 1 / timing.seconds, v = static_cast<double>(timing.bytes) / timing.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    su += u;
    sv += v;
  }
  const double determinant = uu * vv - uv * uv;
  const double latency_s = (su * vv - sv * uv) / determinant;
  const double seconds_per_byte = (sv * uu - su * uv) / determinant;
  if (latency_s < 0) return {.latency_s = 0, .bytes_per_s = vv / sv};  // the best line through the origin
  return {.latency_s = latency_s, .bytes_per_s = 1 / seconds_per_byte};
}

std::optional<LineFit> fit_of(std::span<const Measured> measured, const std::string& series) {
  const auto fit = fit_line(medians_of(measured, series));
  return fit.ok() ? std::optional(*fit) : std::nullopt;
}

std::string fit_comment(const std::string& series, const std::optional<LineFit>& fit) {
  if (!fit) return "";
  return fmt::format("#   {:<12} t = {} + bytes / {}, at most {:.0f} % off\n", series + ":",
                     format_seconds(fit->latency_s), format_bandwidth(fit->bytes_per_s), 100 * fit->worst_error);
}

std::string comments(const CalibratedMachine& machine, const Calibration& calibration,
                     std::span<const Measured> measured) {
  std::string text = "# A machine as `scalai exec calibrate` has measured it.\n#\n";
  for (const std::string& fact : machine.facts) text += fmt::format("# {}\n", fact);
  text += "#\n# Fits:\n";
  text += fit_comment("pair", calibration.pair) + fit_comment("together", calibration.together) +
          fit_comment("same host", calibration.same_host) + fit_comment("same device", calibration.same_device);
  text += "#\n# For scenarios on this cluster:\n#   " + costs_text(calibration);
  text += "#\n# Measured: series, plan, bytes, seconds\n";
  for (const Measured& one : measured) {
    text += fmt::format("#   {}, {}, {},", one.series, one.plan, one.bytes);
    for (const double seconds : one.seconds) text += fmt::format(" {:.6f}", seconds);
    text += "\n";
  }
  if (!machine.rows.empty()) text += "#\n";
  for (const std::string& line : machine.rows) text += fmt::format("# {}\n", line);
  return text;
}

double rate_of(const std::optional<LineFit>& fit) { return fit ? fit->bytes_per_s : 0; }

}  // namespace

absl::StatusOr<LineFit> fit_line(std::span<const Timing> timings) {
  std::vector<Timing> kept;
  std::copy_if(timings.begin(), timings.end(), std::back_inserter(kept),
               [](const Timing& timing) { return timing.bytes > 0 && timing.seconds > 0; });
  if (kept.empty()) return absl::FailedPreconditionError("no timing to fit: each lacks bytes or a time");
  const auto smaller = [](const Timing& a, const Timing& b) { return a.bytes < b.bytes; };
  const auto [least, most] = std::minmax_element(kept.begin(), kept.end(), smaller);
  if (least->bytes < most->bytes) {
    const LineFit fit = least_squares(kept);
    if (std::isfinite(fit.bytes_per_s) && fit.bytes_per_s > 0) return with_worst_error(fit, kept);
  }
  return with_worst_error({.latency_s = 0, .bytes_per_s = static_cast<double>(most->bytes) / most->seconds}, kept);
}

std::vector<Timing> medians_of(std::span<const Measured> measured, const std::string& series) {
  std::map<int64_t, std::vector<double>> by_size;
  for (const Measured& one : measured) {
    if (one.series != series) continue;
    std::vector<double>& seconds = by_size[one.bytes];
    seconds.insert(seconds.end(), one.seconds.begin(), one.seconds.end());
  }
  std::vector<Timing> medians;
  for (const auto& [bytes, seconds] : by_size) {
    if (!seconds.empty()) medians.push_back({bytes, *median(seconds)});
  }
  return medians;
}

absl::StatusOr<Calibration> calibrate(std::span<const Measured> measured) {
  Calibration result{.pair = fit_of(measured, "pair"),
                     .together = fit_of(measured, "together"),
                     .same_host = fit_of(measured, "same host"),
                     .same_device = fit_of(measured, "same device")};
  const auto write = fit_of(measured, "write"), read = fit_of(measured, "read");
  result.write_bytes_per_s = rate_of(write);
  result.read_bytes_per_s = rate_of(read);
  result.allocate_bytes_per_s = rate_of(fit_of(measured, "prepare"));
  if (result.pair && result.together) {
    result.transfer_start_s = (result.pair->latency_s + result.together->latency_s) / 2;
    return result;
  }
  if (!result.same_host) return absl::FailedPreconditionError("neither transfers between hosts nor inside one");
  result.transfer_start_s = result.same_host->latency_s;
  return result;
}

std::string costs_text(const Calibration& calibration) {
  std::string text = fmt::format("costs {{ transfer_start: \"{:.3f}ms\"", 1e3 * calibration.transfer_start_s);
  if (calibration.allocate_bytes_per_s > 0)
    text += fmt::format(" allocate_rate: {}", bandwidth(calibration.allocate_bytes_per_s));
  return text + " }\n";
}

std::string cluster_text(const CalibratedMachine& machine, const Calibration& calibration,
                         std::span<const Measured> measured) {
  const double copy = rate_of(calibration.same_device) / 2;
  const double link = rate_of(calibration.same_host) / machine.gpus;
  const double nic = rate_of(calibration.pair);
  const double host = std::max({nic, copy, rate_of(calibration.same_host)});
  const double machine_copy = std::max(host, calibration.together ? rate_of(calibration.together) : 2 * copy);
  // Transfers between hosts cross it too, where it must not be what limits them.
  const double pcie = std::max({nic, link, copy});
  std::string text = comments(machine, calibration, measured);
  text += "schema_version: 1\nname: \"calibrated\"\n";
  text += fmt::format(
      "gpu_kinds {{\n  name: \"host-memory\"\n  memory: \"{}B\"  # of the machine: all devices share it\n"
      "  peak_tflops: {}  # not measured\n  memory_bandwidth: {}\n  link: {}\n  pcie: {}\n}}\n",
      machine.memory_bytes, kPeakTflops, bandwidth(2 * (copy > 0 ? copy : pcie)), bandwidth(link > 0 ? link : pcie),
      bandwidth(pcie));
  text += fmt::format("hosts {{\n  count: {}\n  gpus: {}\n  gpu: \"host-memory\"\n", machine.hosts, machine.gpus);
  if (nic > 0) text += fmt::format("  nic: {}\n", bandwidth(nic));
  text += fmt::format("  copy: {}\n}}\nmachine_copy: {}\n", bandwidth(host), bandwidth(machine_copy));
  if (calibration.read_bytes_per_s > 0 && calibration.write_bytes_per_s > 0) {
    text += fmt::format("storage {{ read: {} write: {} }}\n", bandwidth(calibration.read_bytes_per_s),
                        bandwidth(calibration.write_bytes_per_s));
  }
  return text;
}

}  // namespace scalai::apps
