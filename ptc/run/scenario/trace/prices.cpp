#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nlohmann/json.hpp"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"

namespace scalai::trace {
namespace {

using nlohmann::json;

constexpr Bounds kPrice{1e-9, 1e6};  // US dollars an hour; nobody gives instances away

bool listed(const Reading& reading, const std::string& option, const std::string& value) {
  const std::vector<std::string> items = reading.options.list(option);
  return items.empty() || std::find(items.begin(), items.end(), value) != items.end();
}

void add_price(PriceTrace::Point point, Reading& reading) {
  if (!listed(reading, "market", point.market)) return reading.drop("of another market");
  if (!listed(reading, "instance", point.instance)) return reading.drop("of another instance type");
  reading.prices.push_back(std::move(point));
}

absl::Status read_aws_csv(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  if (!csv.read_header({"timestamp_utc", "availability_zone", "instance_type", "usd_per_hour"})) return csv.status();
  while (csv.next()) {
    const auto at = csv.time("timestamp_utc");
    const auto zone = csv.name("availability_zone");
    const auto instance = csv.name("instance_type");
    const auto price = csv.number("usd_per_hour", kPrice);
    if (at && zone && instance && price) add_price({*at, *zone, *instance, *price}, reading);
  }
  reading.summary.rows += csv.rows();
  return csv.status();
}

// What `aws ec2 describe-spot-price-history` prints.
class AwsHistory {
 public:
  AwsHistory(std::string file, Reading& reading) : file_(std::move(file)), reading_(reading) {}

  void read(const json& history) {
    for (size_t i = 0; i < history.size(); ++i) {
      pointer_ = fmt::format("/SpotPriceHistory/{}", i);
      ++reading_.summary.rows;
      if (history[i].is_object()) {
        read_row(history[i]);
      } else {
        problem("", "is no object");
      }
    }
  }

 private:
  void problem(std::string_view field, const std::string& reason) {
    reading_.problems.add({file_, 0, pointer_}, field, reason);
  }

  std::optional<std::string> text(const json& row, const char* field) {
    const auto found = row.find(field);
    if (found != row.end() && found->is_string() && fit_as_name(found->get_ref<const std::string&>())) {
      return found->get<std::string>();
    }
    problem(field, found == row.end() ? "is missing" : "is no text that can be a name");
    return std::nullopt;
  }

  void read_row(const json& row) {
    const auto zone = text(row, "AvailabilityZone");
    const auto instance = text(row, "InstanceType");
    const auto stamp = text(row, "Timestamp");
    const auto price_text = text(row, "SpotPrice");
    const auto product = text(row, "ProductDescription");
    if (!zone || !instance || !stamp || !price_text || !product) return;
    const auto at = time_of(*stamp);
    const auto price = number_of(*price_text);
    if (!at) problem("Timestamp", in_quotes(*stamp) + " is not a date and time");
    if (!price || *price < kPrice.low || *price > kPrice.high) {
      problem("SpotPrice", in_quotes(*price_text) + " is no price");
      return;
    }
    if (!at) return;
    if (!listed(reading_, "product", *product)) return reading_.drop("of another product");
    // Answers in pages and of overlapping times repeat rows.
    if (!seen_.insert(fmt::format("{}\n{}\n{}\n{}", *stamp, *zone, *instance, *product)).second) {
      return reading_.drop("there already");
    }
    add_price({*at, *zone, *instance, *price}, reading_);
  }

  std::string file_, pointer_;
  Reading& reading_;
  std::set<std::string> seen_;
};

absl::Status read_aws(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path, reading.bytes_read));
  std::string_view line;
  while (lines.next(line) && trimmed(line).empty()) {
  }
  if (trimmed(line).substr(0, 1) != "{") return read_aws_csv(path, reading);
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const absl::StatusOr<json> read = read_json(text, path);
  if (!read.ok()) {
    reading.problems.add({}, "", message_of(read.status()));
    return absl::OkStatus();
  }
  const json& document = *read;
  if (!document.is_object() || !document.contains("SpotPriceHistory") || !document["SpotPriceHistory"].is_array()) {
    reading.problems.add({path}, "", "is no JSON object with an array SpotPriceHistory");
    return absl::OkStatus();
  }
  AwsHistory(path, reading).read(document["SpotPriceHistory"]);
  return absl::OkStatus();
}

std::string region_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.find_last_of('.'));
}

// A row a day, a column an instance type, "$0.24552"; empty where it is not sold. The file is named after the region.
absl::Status read_azure(const std::string& path, Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  if (!csv.read_header({"Date"})) return csv.status();
  const std::string region = region_of(path);
  if (!fit_as_name(region)) {
    reading.problems.add({path}, "", "the file's name is the region, and is no name");
    return absl::OkStatus();
  }
  while (csv.next()) {
    const auto at = american_date_of(csv.text("Date"));
    if (!at) csv.problem("Date", fmt::format("{} is no date", in_quotes(csv.text("Date"))), "write it like 2/24/2020");
    for (const std::string& instance : csv.header()) {
      if (instance == "Date" || csv.text(instance).empty()) continue;
      std::string_view text = csv.text(instance);
      if (text.front() == '$') text.remove_prefix(1);
      const auto price = number_of(text);
      if (!price || *price < kPrice.low || *price > kPrice.high) {
        csv.problem(instance, fmt::format("{} is no price", in_quotes(csv.text(instance))));
      } else if (!fit_as_name(instance)) {
        csv.problem(instance, "the column's name is no name of an instance type");
      } else if (at) {
        add_price({*at, region, instance, *price}, reading);
      }
    }
  }
  reading.summary.rows += csv.rows();
  return csv.status();
}

std::vector<TraceOption> price_options(std::vector<TraceOption> own) {
  own.push_back({"market", "", "only these zones or regions, parted by +"});
  own.push_back({"instance", "", "only these instance types, parted by +"});
  own.push_back({"from", "0s", "prices count from this time on, with those that hold then"});
  own.push_back({"until", "", "prices at this time or later are left out"});
  return own;
}

}  // namespace

std::vector<Format> price_formats() {
  constexpr TraceContent kPrices = TraceContent::kPrices;
  return {
      {{"aws-spot", kPrices,
        "EC2 spot prices: JSON of `aws ec2 describe-spot-price-history`, or CSV timestamp_utc, availability_zone, "
        "instance_type, usd_per_hour",
        price_options({{"product", "Linux/UNIX", "only these products, parted by + (JSON)"}})},
       read_aws},
      {{"azure", kPrices, "Azure prices: a row a day, a column an instance type; the file is named after the region",
        price_options({})},
       read_azure},
  };
}

}  // namespace scalai::trace
