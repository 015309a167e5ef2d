#include "ptc/run/scenario/trace/gavel_table.h"

#include <fmt/format.h>

#include <optional>

#include "nlohmann/json.hpp"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/internal/values.h"
#include "ptc/run/scenario/trace/problems.h"

namespace scalai::trace {
namespace {

using nlohmann::json;

constexpr double kMaxRate = 1e12;

// "('ResNet-18 (batch size 16)', 1)": the text of a Python pair.
std::optional<GavelKey> key_of(std::string_view text) {
  if (text.size() < 8 || text.substr(0, 2) != "('" || text.back() != ')') return std::nullopt;
  const size_t end = text.rfind("', ");
  if (end == std::string_view::npos || end <= 2) return std::nullopt;
  const std::string_view type = text.substr(2, end - 2);
  const auto gpus = whole_of(text.substr(end + 3, text.size() - end - 4));
  if (!fit_as_name(type) || !gpus || *gpus < 1 || *gpus > 1000000) return std::nullopt;
  return GavelKey{std::string(type), static_cast<int>(*gpus)};
}

std::optional<double> rate_of(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double rate = value.get<double>();
  if (!(rate >= 0 && rate <= kMaxRate)) return std::nullopt;
  return rate;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  absl::StatusOr<GavelTable> read(const json& document) {
    if (!document.is_object() || document.empty()) {
      problem("", "", "is no Gavel throughput table", "expected an object: worker type, job key, rates");
      return problems_.status();
    }
    GavelTable table;
    for (const auto& [worker, jobs] : document.items()) {
      if (!jobs.is_object()) {
        problem("/" + worker, "", "is not an object of job keys");
        continue;
      }
      if (!fit_as_name(worker)) problem("/" + worker, "", "is no name of a worker type");
      for (const auto& [key, rates] : jobs.items()) read_job("/" + worker + "/" + key, key, rates, table[worker]);
    }
    SCALAI_RETURN_IF_ERROR(problems_.status());
    return table;
  }

 private:
  void problem(const std::string& pointer, std::string_view field, const std::string& reason,
               const std::string& hint = "") {
    problems_.add(Place{path_, 0, pointer}, field, reason, hint);
  }

  void read_job(const std::string& pointer, const std::string& text, const json& rates,
                std::map<GavelKey, GavelRates>& jobs) {
    const std::optional<GavelKey> key = key_of(text);
    if (!key) {
      problem(pointer, "", "is no job key", "write it like ('ResNet-18 (batch size 16)', 1)");
      return;
    }
    if (!rates.is_object() || !rates.contains("null")) {
      problem(pointer, "null", "the rate of the job alone is missing");
      return;
    }
    GavelRates& result = jobs[*key];
    for (const auto& [name, value] : rates.items()) {
      if (name == "null") {
        const std::optional<double> rate = rate_of(value);
        if (!rate) problem(pointer, name, fmt::format("{} is no rate", in_quotes(json_text(value))));
        result.alone = rate.value_or(0);
        continue;
      }
      read_pair(pointer, name, value, result);
    }
  }

  void read_pair(const std::string& pointer, const std::string& name, const json& value, GavelRates& result) {
    const std::optional<GavelKey> other = key_of(name);
    if (!other) {
      problem(pointer, name, "is no job key");
      return;
    }
    const bool pair = value.is_array() && value.size() == 2;
    const std::optional<double> own = pair ? rate_of(value[0]) : std::nullopt;
    const std::optional<double> others = pair ? rate_of(value[1]) : std::nullopt;
    if (!own || !others) {
      problem(pointer, name, fmt::format("{} is no pair of rates", in_quotes(json_text(value))));
      return;
    }
    result.beside[*other] = {*own, *others};
  }

  std::string path_;
  Problems problems_;
};

}  // namespace

absl::StatusOr<GavelTable> read_gavel_table(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  SCALAI_ASSIGN_OR_RETURN(const json document, read_json(text, path));
  return Reader(path).read(document);
}

}  // namespace scalai::trace
