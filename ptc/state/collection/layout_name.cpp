#include "ptc/state/collection/layout_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::collection {
namespace {

constexpr int64_t kMaxWorld = int64_t{1} << 24;
constexpr const char* kNoBlanks = "a layout has no blanks";
constexpr const char* kStagesExample = "stages=12:12:11:11";

struct SizeField {
  std::string_view name;
  int ParallelConfig::*size;
};
constexpr std::array kSizes = {SizeField{"tp", &ParallelConfig::tp},  SizeField{"pp", &ParallelConfig::pp},
                               SizeField{"dp", &ParallelConfig::dp},  SizeField{"cp", &ParallelConfig::cp},
                               SizeField{"ep", &ParallelConfig::ep},  SizeField{"etp", &ParallelConfig::etp},
                               SizeField{"vpp", &ParallelConfig::vpp}};
const std::vector<std::string> kAxes = {"tp", "cp", "dp", "pp"};
const std::vector<std::string> kNames = {"tp", "pp", "dp", "cp", "ep", "etp", "vpp", "zero", "order", "stages"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class LayoutParser {
 public:
  explicit LayoutParser(std::string_view text) : text_(text) {}

  // The first problem, or nothing and `config()` is the layout. `whole`: what is not named is 1.
  std::optional<LayoutProblem> parse(bool whole);
  const ParallelConfig& config() const { return config_; }
  std::set<std::string, std::less<>> named() const;

 private:
  struct Span {
    size_t begin = 0;
    size_t end = 0;
  };
  using Result = std::optional<LayoutProblem>;

  LayoutProblem problem(Span span, std::string message, std::string hint = "") const;
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view take(bool (*wanted)(char));
  Span span_from(size_t begin) const { return {begin, std::max(begin, at_)}; }
  Result parse_field();
  Result parse_name(std::string& name);
  Result parse_size(const std::string& name, int64_t lowest, int64_t highest, int& size,
                    const std::string& example = "");
  Result parse_order(size_t begin);
  Result parse_stages();
  Result parse_separator();
  Result check_sizes(bool whole) const;
  Span span_of(const std::string& field) const;

  std::string_view text_;
  size_t at_ = 0;
  ParallelConfig config_;
  std::map<std::string, Span, std::less<>> fields_;
};

LayoutProblem LayoutParser::problem(Span span, std::string message, std::string hint) const {
  LayoutProblem result;
  result.position = 1 + static_cast<int>(columns_of(text_.substr(0, span.begin)));
  result.length = std::max(1, static_cast<int>(columns_of(text_.substr(span.begin, span.end - span.begin))));
  result.message = std::move(message);
  result.hint = std::move(hint);
  return result;
}

std::string_view LayoutParser::take(bool (*wanted)(char)) {
  const size_t begin = at_;
  while (at_ < text_.size() && wanted(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

LayoutParser::Result LayoutParser::parse(bool whole) {
  if (text_.empty()) return problem({}, "the layout is empty", "write for example \"tp4,pp2,dp2\"");
  while (true) {
    if (Result bad = parse_field()) return bad;
    if (at_ == text_.size()) return check_sizes(whole);
    if (Result bad = parse_separator()) return bad;
  }
}

LayoutParser::Result LayoutParser::parse_separator() {
  const char c = text_[at_];
  if (c != ',' && c != '-') {
    const std::string shown(printable(characters(rest())[0]));
    const std::string hint = c == ' ' ? kNoBlanks : "fields are separated by \",\" or \"-\"";
    return problem({at_, at_ + characters(rest())[0].size()}, fmt::format("unexpected \"{}\"", shown), hint);
  }
  ++at_;
  if (at_ == text_.size()) return problem({at_ - 1, at_}, fmt::format("nothing follows the last \"{}\"", c));
  return {};
}

LayoutParser::Result LayoutParser::parse_name(std::string& name) {
  const size_t begin = at_;
  name = std::string(take(is_letter));
  if (name.empty()) {
    const std::string shown = at_ < text_.size() ? std::string(printable(characters(rest())[0])) : "";
    return problem({at_, at_ + 1}, fmt::format("expected a field, found \"{}\"", shown),
                   shown == " " ? kNoBlanks : fmt::format("the fields are {}", fmt::join(kNames, ", ")));
  }
  const Span span = span_from(begin);
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    const std::string near = closest(name, kNames);
    return problem(span, fmt::format("unknown field \"{}\"", clipped(name, 40)),
                   near.empty() ? fmt::format("the fields are {}", fmt::join(kNames, ", "))
                                : fmt::format("did you mean \"{}\"?", near));
  }
  if (!fields_.emplace(name, span).second) return problem(span, fmt::format("\"{}\" is given twice", name));
  return {};
}

LayoutParser::Result LayoutParser::parse_field() {
  const size_t begin = at_;
  std::string name;
  if (Result bad = parse_name(name)) return bad;
  Result bad;
  if (name == "order") {
    bad = parse_order(begin);
  } else if (name == "stages") {
    bad = parse_stages();
  } else if (name == "zero") {
    bad = parse_size(name, 0, 3, config_.zero);
  } else {
    const auto field = std::find_if(kSizes.begin(), kSizes.end(), [&](const SizeField& s) { return s.name == name; });
    bad = parse_size(name, 1, kMaxWorld, config_.*(field->size));
  }
  if (!bad) fields_[name] = span_from(begin);
  return bad;
}

LayoutParser::Result LayoutParser::parse_size(const std::string& name, int64_t lowest, int64_t highest, int& size,
                                              const std::string& example) {
  const size_t begin = at_;
  const std::string_view digits = take(is_digit);
  if (digits.empty()) {
    return problem({at_, at_ + 1}, fmt::format("expected a number after \"{}\"", name),
                   fmt::format("write it like \"{}\"", example.empty() ? name + "2" : example));
  }
  int64_t value = 0;
  const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{};
  if (!fits || value < lowest || value > highest) {
    return problem(span_from(begin),
                   fmt::format("\"{}\" must be {} to {}, found {}", name, lowest, highest, clipped(digits, 40)));
  }
  size = static_cast<int>(value);
  return {};
}

LayoutParser::Result LayoutParser::parse_order(size_t begin) {
  const std::string hint = "write it like \"order=tp-cp-dp-pp\", fastest axis first";
  if (!rest().starts_with('=')) return problem({at_, at_ + 1}, "expected \"=\" after \"order\"", hint);
  config_.order.clear();
  do {
    ++at_;  // the "=" or a "-"
    const size_t axis_begin = at_;
    const std::string axis(take([](char c) { return is_letter(c) || is_digit(c) || c == '='; }));
    const Span span = span_from(axis_begin);
    if (config_.order.size() == kAxes.size()) {
      return problem(span, "nothing may follow \"order=\" after a \"-\"",
                     "put order= last, or separate fields with \",\"");
    }
    if (std::find(kAxes.begin(), kAxes.end(), axis) == kAxes.end()) {
      return problem(span, fmt::format("\"{}\" is not an axis; the axes are tp, cp, dp and pp", clipped(axis, 40)),
                     hint);
    }
    if (std::find(config_.order.begin(), config_.order.end(), axis) != config_.order.end()) {
      return problem(span, fmt::format("axis \"{}\" is given twice", axis), hint);
    }
    config_.order.push_back(axis);
  } while (rest().starts_with('-'));
  if (config_.order.size() == kAxes.size()) return {};
  return problem(span_from(begin), "\"order=\" must name tp, cp, dp and pp, each once", hint);
}

LayoutParser::Result LayoutParser::parse_stages() {
  if (!rest().starts_with('=')) {
    return problem({at_, at_ + 1}, "expected \"=\" after \"stages\"",
                   fmt::format("write it like \"{}\"", kStagesExample));
  }
  do {
    ++at_;  // the "=" or a ":"
    int layers = 0;
    if (Result bad = parse_size("stages", 1, kMaxWorld, layers, kStagesExample)) return bad;
    config_.stages.push_back(layers);
  } while (rest().starts_with(':'));
  return {};
}

LayoutParser::Span LayoutParser::span_of(const std::string& field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? Span{0, text_.size()} : found->second;
}

LayoutParser::Result LayoutParser::check_sizes(bool whole) const {
  int64_t world = 1;
  for (const int size : {config_.tp, config_.cp, config_.dp, config_.pp}) {
    world *= size;
    if (world > kMaxWorld) {
      return problem({0, text_.size()}, fmt::format("the layout needs more than {} devices", kMaxWorld));
    }
  }
  const int64_t expert_ranks = int64_t{config_.etp} * config_.ep;
  const int64_t stage_ranks = world / config_.pp;
  if (whole && stage_ranks % expert_ranks != 0) {
    return problem(span_of(config_.ep > 1 ? "ep" : "etp"),
                   fmt::format("etp x ep = {} must divide the {} ranks of a pipeline stage (tp x cp x dp)",
                               expert_ranks, stage_ranks));
  }
  const int64_t stages = int64_t{config_.pp} * config_.vpp;
  const int64_t given = static_cast<int64_t>(config_.stages.size());
  if (given != 0 && given != stages) {
    return problem(span_of("stages"), fmt::format("\"stages\" has {} entries, pp x vpp = {}", given, stages));
  }
  return {};
}

std::set<std::string, std::less<>> LayoutParser::named() const {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, span] : fields_) names.insert(name);
  return names;
}

absl::Status status_of(std::string_view text, const LayoutProblem& bad) {
  const std::string hint = bad.hint.empty() ? "" : fmt::format("; {}", bad.hint);
  return invalid(
      fmt::format("layout \"{}\": at character {}: {}{}", clipped(text, 80), bad.position, bad.message, hint));
}

}  // namespace

absl::StatusOr<ParallelConfig> parse_layout(std::string_view text, LayoutProblem* problem) {
  LayoutParser parser(text);
  std::optional<LayoutProblem> bad = parser.parse(/*whole=*/true);
  if (!bad) return parser.config();
  absl::Status status = status_of(text, *bad);
  if (problem != nullptr) *problem = std::move(*bad);
  return status;
}

absl::StatusOr<LayoutFields> parse_layout_fields(std::string_view text, LayoutProblem* problem) {
  LayoutParser parser(text);
  std::optional<LayoutProblem> bad = parser.parse(/*whole=*/false);
  if (!bad) return LayoutFields{parser.config(), parser.named()};
  absl::Status status = status_of(text, *bad);
  if (problem != nullptr) *problem = std::move(*bad);
  return status;
}

std::string canonical(const ParallelConfig& config, char separator, bool with_etp) {
  std::vector<std::string> fields;
  for (const SizeField& field : kSizes) {
    const bool wanted = config.*(field.size) != 1 || (with_etp && field.size == &ParallelConfig::etp);
    if (wanted) fields.push_back(fmt::format("{}{}", field.name, config.*(field.size)));
  }
  if (config.zero != 0) fields.push_back(fmt::format("zero{}", config.zero));
  const bool default_order = config.order == ParallelConfig{}.order;
  if (!default_order) fields.push_back(fmt::format("order={}", fmt::join(config.order, "-")));
  if (!config.stages.empty()) fields.push_back(fmt::format("stages={}", fmt::join(config.stages, ":")));
  if (fields.empty()) return "tp1";
  // A "-" after the order would look like one more axis.
  const bool stages_first = separator == '-' && !default_order && !config.stages.empty();
  if (stages_first) std::swap(fields[fields.size() - 1], fields[fields.size() - 2]);
  return fmt::format("{}", fmt::join(fields, std::string(1, separator)));
}

int most_virtual_stages(const ParallelConfig& config, int layers) {
  return layers + (config.pp > 1 && config.vpp > 1 ? 2 : 0);
}

std::vector<int> layers_per_stage(const ParallelConfig& config, int layers) {
  if (!config.stages.empty()) {
    const int sum = std::accumulate(config.stages.begin(), config.stages.end(), 0);
    SCALAI_CHECK(sum == layers, fmt::format("stages sum to {}, the model has {} layers", sum, layers));
    return config.stages;
  }
  const int stages = config.pp * config.vpp;
  std::vector<int> counts(static_cast<size_t>(stages), layers / stages);
  if (config.pp > 1 && layers % stages > 0 && (layers + 2) % stages == 0) {  // both ends count as a layer
    std::fill(counts.begin(), counts.end(), (layers + 2) / stages);
    --counts.front(), --counts.back();
    return counts;
  }
  for (int i = 0; i < layers % stages; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

}  // namespace scalai::collection
