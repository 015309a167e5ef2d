#include "ptc/base/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iterator>
#include <utility>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

namespace po = boost::program_options;

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  size_t begin = 0;
  for (size_t comma = 0; comma != std::string::npos; begin = comma + 1) {
    comma = text.find(',', begin);
    items.push_back(text.substr(begin, comma == std::string::npos ? comma : comma - begin));
  }
  return items;
}

std::string did_you_mean(const std::string& suggestion) {
  return suggestion.empty() ? "" : fmt::format("; did you mean {}?", suggestion);
}

absl::Status check_choice(const std::string& text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return absl::OkStatus();
  const std::string nearest = closest(text, choices);
  return invalid(
      fmt::format("\"{}\" is not one of {}{}", clipped(text, 41), fmt::join(choices, ", "), did_you_mean(nearest)));
}

absl::Status check_list(const std::string& text, const std::vector<std::string>& choices) {
  for (const std::string& item : split_list(text)) {
    if (item.empty()) return invalid(fmt::format("\"{}\" has an empty item", clipped(text, 41)));
    if (!choices.empty()) SCALAI_RETURN_IF_ERROR(check_choice(item, choices));
  }
  return absl::OkStatus();
}

absl::Status check_value(const OptionSpec& option, const std::string& text) {
  switch (option.type) {
    case ValueType::kFlag:
    case ValueType::kTexts:
    case ValueType::kText: return absl::OkStatus();
    case ValueType::kCount: return parse_count(text).status();
    case ValueType::kBytes: return parse_bytes(text).status();
    case ValueType::kSeconds: return parse_seconds(text).status();
    case ValueType::kChoice: return check_choice(text, option.choices);
    case ValueType::kList: return check_list(text, option.choices);
  }
  SCALAI_CHECK(false, "unknown value type");
}

bool is_former(const OptionSpec& option, const std::string& name) {
  return std::find(option.former.begin(), option.former.end(), name) != option.former.end();
}

const OptionSpec* find_option(const CommandSpec& spec, const std::string& name) {
  const auto named = [&](const OptionSpec& option) { return option.name == name || is_former(option, name); };
  const auto found = std::find_if(spec.options.begin(), spec.options.end(), named);
  return found == spec.options.end() ? nullptr : &*found;
}

// "-q" is "--quiet".
std::string long_word(const CommandSpec& spec, const std::string& word) {
  if (word.size() != 2 || word[0] != '-') return word;
  for (const OptionSpec& option : spec.options) {
    if (option.short_name != 0 && option.short_name == word[1]) return "--" + option.name;
  }
  return word;
}

std::string without_dashes(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

// `given` is what the user wrote, up to a "=".
absl::Status unknown_option(const CommandSpec& spec, const std::string& given) {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec.options) names.push_back(option.name);
  const std::string nearest = closest(without_dashes(given), names);
  return invalid(
      fmt::format("unknown option {}{}", clipped(given, 41), did_you_mean(nearest.empty() ? "" : "--" + nearest)));
}

absl::Status value_missing(const OptionSpec& option) {
  return invalid(fmt::format("option --{} needs a value, as in --{}=…", option.name, option.name));
}

absl::Status describe(const CommandSpec& spec, const po::error_with_option_name& problem) {
  const std::string word = problem.get_option_name();  // "--name", or "--name=value" when it is unknown
  const std::string given = word.substr(0, word.find('='));
  const OptionSpec* option = find_option(spec, without_dashes(given));
  if (option == nullptr) return unknown_option(spec, given);
  if (option->type != ValueType::kFlag) return value_missing(*option);
  return invalid(fmt::format("option --{} takes no value", option->name));
}

// What Boost makes of the words: options in order, positional arguments among them. It knows long options only, in
// full; --key=value and --key value.
absl::StatusOr<std::vector<po::option>> split(const CommandSpec& spec, const std::vector<std::string>& words) {
  namespace style = po::command_line_style;
  po::options_description known;
  for (const OptionSpec& option : spec.options) {
    std::vector<std::string> names = option.former;
    names.push_back(option.name);
    for (const std::string& name : names) {
      if (option.type == ValueType::kFlag) {
        known.add_options()(name.c_str(), "");
      } else {
        known.add_options()(name.c_str(), po::value<std::string>(), "");
      }
    }
  }
  try {
    po::command_line_parser parser(words);
    parser.options(known);
    parser.style(style::allow_long | style::long_allow_adjacent | style::long_allow_next);
    return parser.run().options;
  } catch (const po::error_with_option_name& problem) {
    return describe(spec, problem);
  } catch (const po::error& problem) {
    return invalid(problem.what());
  }
}

// One option as Boost split it, checked against the spec; the text to keep.
absl::StatusOr<std::string> checked_value(const OptionSpec& option, const po::option& parsed) {
  if (option.type == ValueType::kFlag) return "true";
  const std::string& text = parsed.value.at(0);
  // "--out --force" gives `--out` no value; a value that starts so is written --out=--force.
  const bool next_word = parsed.original_tokens.size() == 2;
  if (text.empty() || (next_word && text.starts_with("--"))) return value_missing(option);
  if (absl::Status status = check_value(option, text); !status.ok()) {
    return invalid(fmt::format("option --{}: {}", option.name, message_of(status)));
  }
  return text;
}

absl::Status check_argument_count(const CommandSpec& spec, const std::vector<std::string>& arguments) {
  const auto given = static_cast<int>(arguments.size());
  if (given < spec.min_arguments) return invalid(fmt::format("an argument is missing; usage: {}", spec.usage));
  if (spec.max_arguments < 0 || given <= spec.max_arguments) return absl::OkStatus();
  const std::string& extra = arguments[static_cast<size_t>(spec.max_arguments)];
  return invalid(fmt::format("unexpected argument \"{}\"; usage: {}", clipped(extra, 41), spec.usage));
}

std::map<std::string, std::string> default_values(const CommandSpec& spec) {
  std::map<std::string, std::string> values;
  for (const OptionSpec& option : spec.options) {
    const bool valid_default = option.default_value.empty() || check_value(option, option.default_value).ok();
    SCALAI_CHECK(valid_default, "default of --" + option.name);
    SCALAI_CHECK(values.emplace(option.name, option.default_value).second, "two options --" + option.name);
  }
  return values;
}

const std::string& value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  SCALAI_CHECK(found != values.end(), "the command has no option --" + name);
  return found->second;
}

template <class T>
T must(const absl::StatusOr<T>& value, const std::string& name) {
  SCALAI_CHECK(value.ok(), "--" + name + " is absent or of another type; ask has() first");
  return *value;
}

}  // namespace

OptionSpec flag_option(std::string name, std::string help) {
  return {std::move(name), ValueType::kFlag, "", std::move(help), "", {}};
}

OptionSpec text_option(std::string name, std::string value_name, std::string help, std::string default_value) {
  return {std::move(name), ValueType::kText, std::move(value_name), std::move(help), std::move(default_value), {}};
}

OptionSpec texts_option(std::string name, std::string value_name, std::string help) {
  return {std::move(name), ValueType::kTexts, std::move(value_name), std::move(help), "", {}};
}

OptionSpec count_option(std::string name, std::string value_name, std::string help, std::string default_value) {
  return {std::move(name), ValueType::kCount, std::move(value_name), std::move(help), std::move(default_value), {}};
}

OptionSpec bytes_option(std::string name, std::string value_name, std::string help, std::string default_value) {
  return {std::move(name), ValueType::kBytes, std::move(value_name), std::move(help), std::move(default_value), {}};
}

OptionSpec seconds_option(std::string name, std::string value_name, std::string help, std::string default_value) {
  return {std::move(name), ValueType::kSeconds, std::move(value_name), std::move(help), std::move(default_value), {}};
}

OptionSpec choice_option(std::string name, std::string value_name, std::string help, std::vector<std::string> choices,
                         std::string default_value) {
  return {std::move(name), ValueType::kChoice,       std::move(value_name),
          std::move(help), std::move(default_value), std::move(choices)};
}

OptionSpec list_option(std::string name, std::string value_name, std::string help, std::vector<std::string> choices,
                       std::string default_value) {
  return {std::move(name), ValueType::kList,         std::move(value_name),
          std::move(help), std::move(default_value), std::move(choices)};
}

OptionSpec suggesting(OptionSpec option, std::vector<std::string> values) {
  option.suggestions = std::move(values);
  return option;
}

OptionSpec formerly(OptionSpec option, std::vector<std::string> names) {
  option.former = std::move(names);
  return option;
}
OptionSpec answered_by(std::string program, OptionSpec option) {
  option.program = std::move(program);
  return option;
}

std::vector<OptionSpec> common_options() {
  std::vector<OptionSpec> options = {
      flag_option("wide", "Tables with all columns, as wide as they are."),
      choice_option("color", "WHEN", "Colour in tables.", {"auto", "always", "never"}, "auto"),
      flag_option("quiet", "No progress, no legends; results, warnings and errors only."),
      flag_option("verbose", "Say at the end how long it took, and the peak memory."),
      flag_option("help", "Print this help.")};
  for (const auto& [name, letter] : {std::pair("quiet", 'q'), std::pair("verbose", 'v'), std::pair("help", 'h')}) {
    for (OptionSpec& option : options) option.short_name = option.name == name ? letter : option.short_name;
  }
  return options;
}

OptionSpec format_option(std::vector<std::string> choices) {
  return choice_option("format", "FORMAT", "How the result is printed.", std::move(choices), "table");
}

std::vector<OptionSpec> joined(std::initializer_list<std::vector<OptionSpec>> parts) {
  std::vector<OptionSpec> options;
  for (const std::vector<OptionSpec>& part : parts) options.insert(options.end(), part.begin(), part.end());
  return options;
}

absl::StatusOr<Arguments> parse_arguments(const CommandSpec& own, const std::vector<std::string>& words) {
  CommandSpec spec = own;
  spec.options = joined({own.options, common_options()});
  Arguments result;
  result.values_ = default_values(spec);
  const auto terminator = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> long_words;
  std::transform(words.begin(), terminator, std::back_inserter(long_words),
                 [&](const std::string& word) { return long_word(spec, word); });
  SCALAI_ASSIGN_OR_RETURN(const std::vector<po::option> parsed, split(spec, long_words));
  std::vector<std::string> given;
  for (const po::option& part : parsed) {
    if (part.string_key.empty()) {
      const std::string& word = part.original_tokens.at(0);
      if (word.size() > 1 && word[0] == '-') return unknown_option(spec, word.substr(0, word.find('=')));
      result.positional_.push_back(word);
      continue;
    }
    const OptionSpec* option = find_option(spec, part.string_key);
    SCALAI_CHECK(option != nullptr, part.string_key);
    const bool repeats = option->type == ValueType::kTexts;
    if (!repeats && std::find(given.begin(), given.end(), option->name) != given.end()) {
      return invalid(fmt::format("option --{} is given twice", option->name));
    }
    given.push_back(option->name);
    if (option->name != part.string_key)
      result.notes_.push_back(fmt::format("--{} is now called --{}", part.string_key, option->name));
    SCALAI_ASSIGN_OR_RETURN(result.values_[option->name], checked_value(*option, part));
    if (repeats) result.texts_[option->name].push_back(result.values_[option->name]);
  }
  if (terminator != words.end()) result.positional_.insert(result.positional_.end(), terminator + 1, words.end());
  SCALAI_RETURN_IF_ERROR(check_argument_count(spec, result.positional_));
  return result;
}

bool Arguments::has(const std::string& name) const { return !value_of(values_, name).empty(); }
bool Arguments::flag(const std::string& name) const { return has(name); }
std::string Arguments::text(const std::string& name) const { return value_of(values_, name); }
int64_t Arguments::count(const std::string& name) const { return must(parse_count(text(name)), name); }
int64_t Arguments::bytes(const std::string& name) const { return must(parse_bytes(text(name)), name); }
double Arguments::seconds(const std::string& name) const { return must(parse_seconds(text(name)), name); }

std::vector<std::string> Arguments::list(const std::string& name) const {
  return has(name) ? split_list(text(name)) : std::vector<std::string>{};
}

std::vector<std::string> Arguments::texts(const std::string& name) const {
  return has(name) ? texts_.at(name) : std::vector<std::string>{};
}

}  // namespace scalai
