#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "labs/near/annotation.h"
#include "labs/near/internal/built_in_annotations.h"
#include "labs/near/internal/rules.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/proto/near.pb.h"
#include "ptc/proto/source.h"

namespace scalai::near {
namespace {

constexpr int kVersion = 1;
constexpr int kMostStatus = 125;  // of a command that ended by itself
constexpr std::string_view kNumberOption = "-NUMBER";

Merge merge_of(proto::NearMerge merge) {
  switch (merge) {
    case proto::CONCATENATE: return Merge::kConcatenate;
    case proto::AGAIN: return Merge::kAgain;
    case proto::SORTED: return Merge::kSorted;
    case proto::COUNTED: return Merge::kCounted;
    case proto::SUM: return Merge::kSum;
    case proto::COLUMNS: return Merge::kColumns;
    default: return Merge::kNotSplit;
  }
}

bool is_option_name(const std::string& name) {
  if (name == kNumberOption) return true;
  if (name.starts_with("--")) return name.size() > 3 && name.find('=') == std::string::npos;
  return name.size() == 2 && name[0] == '-' && std::isalpha(static_cast<unsigned char>(name[1])) != 0;
}

void read_options(const proto::CommandAnnotation& message, proto::Source& source, Annotations::Rules& rules) {
  for (int i = 0; i < message.options_size(); ++i) {
    const proto::OptionAnnotation& option = message.options(i);
    const std::string at = fmt::format("options[{}]", i);
    if (option.names_size() == 0) source.missing(at + ".names");
    if (option.number() && !option.value()) source.error(at + ".number", "only a value is a number", "value: true");
    for (int j = 0; j < option.names_size(); ++j) {
      const std::string path = fmt::format("{}.names[{}]", at, j);
      if (!is_option_name(option.names(j))) {
        source.error(path, fmt::format("\"{}\" is no name of an option", option.names(j)),
                     "\"-k\", \"--key\", or \"-NUMBER\" for numbers as in head -5");
      } else if (rules.options.contains(option.names(j))) {
        source.error(path, fmt::format("option {} is given twice", option.names(j)));
      }
      rules.options[option.names(j)] = {.group = static_cast<size_t>(i),
                                        .value = option.value(),
                                        .number = option.number(),
                                        .unsplit = option.unsplit(),
                                        .whole_files = option.whole_files(),
                                        .instead_of_leading = option.instead_of_leading(),
                                        .says_names = option.says_names(),
                                        .one_column = option.one_column(),
                                        .changes_order = option.changes_order(),
                                        .by_record = merge_of(option.by_record())};
    }
  }
}

void check_numbers(const proto::CommandAnnotation& message, proto::Source& source) {
  const auto not_negative = [&](const char* path, double value) {
    if (!(value >= 0)) source.error(path, "is negative");
  };
  not_negative("leading", message.leading());
  not_negative("most_files", message.most_files());
  not_negative("share", message.share());
  not_negative("bytes_a_file", static_cast<double>(message.bytes_a_file()));
  not_negative("bytes_a_part", static_cast<double>(message.bytes_a_part()));
  if (message.last_good_status() < 0 || message.last_good_status() > kMostStatus)
    source.error("last_good_status", fmt::format("is not between 0 and {}", kMostStatus));
}

void check_sense(const proto::CommandAnnotation& message, proto::Source& source) {
  const bool splits = message.by_file() != proto::NOT_SPLIT || message.by_record() != proto::NOT_SPLIT;
  if (message.no_files() && message.by_file() != proto::NOT_SPLIT)
    source.error("by_file", "a command whose operands are no files has no input files",
                 "leave out no_files or by_file");
  if (message.script() && (splits || message.options_size() > 0))
    source.error("script", "a script says itself how it is split", "leave out all else but commands");
  if (message.by_file() == proto::COUNTED || message.by_file() == proto::SUM)
    source.error("by_file", "merges outputs of streams only", "by_record, or another merge");
  if (message.by_record() == proto::COLUMNS)
    source.error("by_record", "COLUMNS merges lines with names of files, which a stream has not", "SUM");
  if (!message.for_several().empty() && !is_option_name(message.for_several()))
    source.error("for_several", fmt::format("\"{}\" is no name of an option", message.for_several()));
}

}  // namespace

absl::StatusOr<Annotations::Rules> Annotations::Rules::parse(const std::string& text, const std::string& file,
                                                             bool declared) {
  proto::Source source(file, text);
  proto::CommandAnnotation message;
  source.parse(text, message);
  Rules rules;
  if (!declared && message.schema_version() != kVersion)
    source.error("schema_version", fmt::format("schema version {} is not known here", message.schema_version()),
                 fmt::format("this program reads version {}", kVersion));
  if (!declared && message.commands_size() == 0) source.missing("commands", "commands: \"grep\"");
  if (declared && message.commands_size() > 0) source.error("commands", "a script declares itself only");
  for (int i = 0; i < message.commands_size(); ++i) {
    const std::string path = fmt::format("commands[{}]", i);
    if (!source.is_name(path, message.commands(i))) continue;
    if (message.commands(i).find('/') != std::string::npos)
      source.error(path, "names a path", "the name of the program alone: it counts wherever the program lies");
    rules.commands.push_back(message.commands(i));
  }
  read_options(message, source, rules);
  check_numbers(message, source);
  check_sense(message, source);
  if (!source.empty()) return invalid(source.render());
  rules.leading = static_cast<size_t>(message.leading());
  rules.most_files = static_cast<size_t>(message.most_files());
  rules.no_files = message.no_files();
  rules.same_on_stdin = message.same_on_stdin();
  rules.text = message.text();
  rules.joins_files = message.joins_files();
  rules.c_locale = message.c_locale();
  rules.keeps_first = message.keeps_first();
  rules.any_zero = message.any_zero();
  rules.is_script = message.script();
  rules.by_file = merge_of(message.by_file());
  rules.by_record = merge_of(message.by_record());
  rules.for_several = message.for_several();
  rules.refused = {message.refused().begin(), message.refused().end()};
  rules.last_good_status = message.last_good_status();
  rules.share = message.share();
  rules.bytes_a_file = message.bytes_a_file();
  rules.bytes_a_part = message.bytes_a_part();
  return rules;
}

Annotations Annotations::built_in() {
  Annotations all;
  for (const internal::BuiltInAnnotation& text : internal::built_in_annotations()) {
    auto rules = Rules::parse(std::string(text.text), std::string(text.name) + ".textproto");
    SCALAI_CHECK(rules.ok(), message_of(rules.status()));
    const auto shared = std::make_shared<const Rules>(*std::move(rules));
    for (const std::string& command : shared->commands) all.rules_[command] = shared;
  }
  return all;
}

absl::Status Annotations::load(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".textproto") paths.push_back(entry->path().string());
  }
  if (error) return missing(fmt::format("{}: {}", folder, error.message()));
  std::sort(paths.begin(), paths.end());
  std::map<std::string, std::shared_ptr<const Rules>> loaded;
  std::map<std::string, std::string> file_of;
  std::string problems;
  for (const std::string& path : paths) {
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    auto rules = Rules::parse(text, path);
    if (!rules.ok()) {
      problems += message_of(rules.status());
      continue;
    }
    const auto shared = std::make_shared<const Rules>(*std::move(rules));
    for (const std::string& command : shared->commands) {
      const auto [first, fresh] = file_of.emplace(command, path);
      if (!fresh) problems += fmt::format("{}: error: command \"{}\" is also in {}\n", path, command, first->second);
      loaded[command] = shared;
    }
  }
  if (!problems.empty()) return invalid(problems);
  for (auto& [command, rules] : loaded) rules_[command] = std::move(rules);
  return absl::OkStatus();
}

}  // namespace scalai::near
