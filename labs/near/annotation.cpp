#include "labs/near/annotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>

#include "labs/near/internal/rules.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

constexpr std::string_view kDeclares = "# scalai-near:";
constexpr int kDeclaringLines = 64;  // of a script
constexpr int kAllColumns = 3;       // of wc

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Goes through the words after the command's name once, as getopt_long does: operands and options in any order, short
// options together, values in the same word or in the next.
class WordReader {
 public:
  WordReader(const Annotations::Rules& rules, const std::vector<std::string>& words, size_t first_word)
      : rules_(rules), words_(words), at_(first_word) {}

  // "" or the reason to run locally.
  std::string read() {
    for (; at_ < words_.size() && why_.empty(); ++at_) {
      const std::string& word = words_[at_];
      if (ended_ || word.size() < 2 || word[0] != '-') {
        operands.push_back(at_);
        continue;
      }
      if (!operands.empty() && (word == "--" || std::getenv("POSIXLY_CORRECT") != nullptr)) {
        why_ = fmt::format("\"{}\" after an operand of {} makes what follows operands", word, words_[0]);
      } else if (word == "--") {
        ended_ = true;
      } else if (word[1] == '-') {
        long_option(word);
      } else if (std::isdigit(static_cast<unsigned char>(word[1])) != 0) {
        number_option(word);
      } else {
        short_options(word);
      }
    }
    return why_;
  }

  std::vector<size_t> operands;
  std::vector<const OptionRule*> options;

 private:
  const OptionRule* rule_of(const std::string& name) {
    const auto found = rules_.options.find(name);
    if (found != rules_.options.end()) {
      options.push_back(&found->second);
      return &found->second;
    }
    why_ = fmt::format("option {} is not in the annotation of {}", name, words_[0]);
    return nullptr;
  }

  void check_value(const std::string& name, const OptionRule& rule, const std::string& value) {
    if (value.find('\n') != std::string::npos) why_ = fmt::format("the end of a line in {} of {}", name, words_[0]);
    if (rule.number && !is_number(value)) why_ = fmt::format("{} of {} is no number", name, words_[0]);
  }

  void next_value(const std::string& name, const OptionRule& rule) {
    if (at_ + 1 == words_.size()) {
      why_ = fmt::format("{} of {} has no value", name, words_[0]);
    } else {
      check_value(name, rule, words_[++at_]);
    }
  }

  void long_option(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionRule* rule = rule_of(name);
    if (rule == nullptr) return;
    if (equals != std::string::npos && !rule->value) {
      why_ = fmt::format("{} of {} takes no value", name, words_[0]);
    } else if (equals != std::string::npos) {
      check_value(name, *rule, word.substr(equals + 1));
    } else if (rule->value) {
      next_value(name, *rule);
    }
  }

  void number_option(const std::string& word) {
    if (!rules_.options.contains("-NUMBER")) {
      why_ = fmt::format("option {} is not in the annotation of {}", word, words_[0]);
    } else if (const OptionRule* rule = rule_of("-NUMBER"); rule != nullptr) {
      check_value(word, *rule, word.substr(1));
    }
  }

  void short_options(const std::string& word) {
    for (size_t i = 1; i < word.size() && why_.empty(); ++i) {
      const std::string name = {'-', word[i]};
      const OptionRule* rule = rule_of(name);
      if (rule == nullptr || !rule->value) continue;
      if (i + 1 < word.size()) {
        check_value(name, *rule, word.substr(i + 1));
      } else {
        next_value(name, *rule);
      }
      return;
    }
  }

  const Annotations::Rules& rules_;
  const std::vector<std::string>& words_;
  size_t at_;
  bool ended_ = false;
  std::string why_;
};

Use locally(std::string why) {
  Use use;
  use.why_local = std::move(why);
  return use;
}

// What the given options change.
void apply_options(const std::vector<const OptionRule*>& options, Use& use, bool& says_names, bool& whole_files) {
  std::set<size_t> columns;
  for (const OptionRule* option : options) {
    if (option->unsplit) use.by_file = use.by_record = Merge::kNotSplit;
    if (option->by_record != Merge::kNotSplit && use.by_record != Merge::kNotSplit) use.by_record = option->by_record;
    if (option->one_column) columns.insert(option->group);
    whole_files = whole_files || option->whole_files;
    says_names = says_names || option->says_names;
    if (option->changes_order) use.byte_order = false;
  }
  if (whole_files) use.by_record = Merge::kNotSplit;
  const bool of_files = use.by_file == Merge::kColumns;
  use.columns = !columns.empty() ? static_cast<int>(columns.size()) : of_files ? kAllColumns : 1;
}

}  // namespace

std::string_view name_of(Merge merge) {
  constexpr std::array<std::string_view, 7> kNames = {"not split", "concatenate",      "again", "sort -m", "add counts",
                                                      "sum",       "columns and total"};
  return kNames[static_cast<size_t>(merge)];
}

std::vector<std::string> Use::words_for(const std::vector<std::string>& files) const {
  std::vector<std::string> words = other_words;
  words.insert(words.begin() + static_cast<ptrdiff_t>(inputs_at), files.begin(), files.end());
  if (!implied.empty()) words.insert(words.begin() + static_cast<ptrdiff_t>(script_at) + 1, implied);
  return words;
}

namespace internal {

Use apply_rules(const Annotations::Rules& rules, const std::vector<std::string>& words, size_t first_word,
                const UseOptions& options) {
  WordReader reader(rules, words, first_word);
  if (std::string why = reader.read(); !why.empty()) return locally(std::move(why));
  Use use{.by_file = rules.by_file,
          .by_record = rules.by_record,
          .same_on_stdin = rules.same_on_stdin,
          .text = rules.text,
          .joins_files = rules.joins_files,
          .keeps_first = rules.keeps_first,
          .byte_order = options.byte_locale,
          .last_good_status = rules.last_good_status,
          .any_zero = rules.any_zero,
          .share = rules.share,
          .bytes_a_file = rules.bytes_a_file,
          .bytes_a_part = rules.bytes_a_part};
  bool says_names = false, whole_files = false;
  apply_options(reader.options, use, says_names, whole_files);
  const bool leading_given = std::any_of(reader.options.begin(), reader.options.end(),
                                         [](const OptionRule* option) { return option->instead_of_leading; });
  const size_t leading = rules.no_files ? reader.operands.size() : leading_given ? 0 : rules.leading;
  if (reader.operands.size() < leading) return locally(fmt::format("{} has too few operands", words[0]));
  const size_t files = reader.operands.size() - leading;
  if (rules.most_files > 0 && files > rules.most_files)
    return locally(fmt::format("{} has more than {} input file", words[0], rules.most_files));
  for (size_t i = 0; i < leading; ++i) {
    for (const std::string& refused : rules.refused) {
      if (words[reader.operands[i]].find(refused) != std::string::npos)
        return locally(fmt::format("\"{}\" in an operand of {}", refused, words[0]));
    }
  }
  if (!options.first && files > 0) return locally(fmt::format("{} reads files, not the command before it", words[0]));
  if (options.first && files == 0) return locally(fmt::format("{} has no input file", words[0]));
  use.inputs_at = files > 0 ? reader.operands[leading] : words.size();
  for (size_t i = 0; i < words.size(); ++i) {
    const bool input = std::find(reader.operands.begin() + static_cast<ptrdiff_t>(leading), reader.operands.end(), i) !=
                       reader.operands.end();
    if (input && words[i] == "-") return locally(fmt::format("{} reads standard input", words[0]));
    (input ? use.inputs : use.other_words).push_back(words[i]);
  }
  if (rules.c_locale && !options.byte_locale) use.by_file = use.by_record = Merge::kNotSplit;
  if (files > 1 && !rules.for_several.empty() && !says_names) use.implied = rules.for_several;
  // With names in front of lines, files are not the same as a stream.
  if (!rules.for_several.empty() && (files > 1 || says_names)) use.same_on_stdin = false;
  return use;
}

std::string declaration_in(const std::string& script) {
  std::istringstream lines(script);
  std::string text, line;
  for (int i = 0; i < kDeclaringLines && std::getline(lines, line); ++i) {
    if (line.starts_with(kDeclares)) text += line.substr(kDeclares.size()) + "\n";
  }
  return text;
}

}  // namespace internal

Use Annotations::use_of(const Command& command, const UseOptions& options) const {
  const std::vector<std::string>& words = command.words;
  const std::string& name = words[0];  // with a path it may be any program
  const auto found = rules_.find(name);
  if (found == rules_.end()) return locally(fmt::format("no annotation of {}", name));
  if (!found->second->is_script) return internal::apply_rules(*found->second, words, 1, options);
  if (words.size() < 2 || words[1].starts_with("-"))
    return locally(fmt::format("{} has no script as its first word", name));
  const std::string script = options.find_script ? options.find_script(words[1]) : words[1];
  if (script.empty()) return locally(fmt::format("{} lies on other hosts only", words[1]));
  const auto text = read_file(script);
  if (!text.ok()) return locally(message_of(text.status()));
  const std::string declaration = internal::declaration_in(*text);
  if (declaration.empty()) {
    Use undeclared = locally(fmt::format("{} does not declare itself", words[1]));
    undeclared.script = script;
    undeclared.script_at = 1;
    return undeclared;
  }
  const auto rules = Rules::parse(declaration, words[1] + " (lines \"" + std::string(kDeclares) + "\")", true);
  if (!rules.ok()) {
    Use use = locally(fmt::format("{} declares itself wrongly", words[1]));
    use.wrong = message_of(rules.status());
    return use;
  }
  Use use = internal::apply_rules(*rules, words, 2, options);
  use.script = script;
  use.script_at = 1;
  return use;
}

std::vector<std::string> Annotations::commands() const {
  std::vector<std::string> names;
  for (const auto& [name, rules] : rules_) names.push_back(name);
  return names;
}

}  // namespace scalai::near
