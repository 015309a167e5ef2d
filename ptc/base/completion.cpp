#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

using Words = std::vector<std::string>;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// --- what is offered ----------------------------------------------------------------------------------------------

// The offers for one word, those that begin as it does.
class Offers {
 public:
  explicit Offers(std::string current) : current_(std::move(current)) {}

  void word(const std::string& text, const std::string& help = "") {
    const std::string line = help.empty() ? text : text + "\t" + replaced(help, "\n", " ");
    if (text.starts_with(current_)) lines_.push_back(line);
  }
  void files(const Words& endings) { lines_.push_back(fmt::format(":files {}", fmt::join(endings, " "))); }
  void folders() { lines_.push_back(":folders"); }
  Words lines() && { return std::move(lines_); }

 private:
  std::string current_;
  Words lines_;
};

const OptionSpec* named(const std::vector<OptionSpec>& options, const std::string& name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const auto& one) { return one.name == name; });
  return found == options.end() ? nullptr : &*found;
}

// `start` is what stands before the value in its word: "--name=" or nothing.
void offer_values(const OptionSpec& option, const std::string& start, const std::string& value, Offers& offers) {
  std::string before;
  if (option.type == ValueType::kList && value.find(',') != std::string::npos)
    before = value.substr(0, value.rfind(',') + 1);
  const std::string given = "," + before;
  for (const Words& words : {option.choices, option.suggestions}) {
    for (const std::string& word : words) {
      if (given.find("," + word + ",") == std::string::npos) offers.word(start + before + word);
    }
  }
  if (!option.choices.empty()) return;
  if (option.value_name.find("FILE") != std::string::npos) {
    offers.files({});
  } else if (option.value_name.find("DIR") != std::string::npos || option.value_name == "FOLDER") {
    offers.folders();
  }
}

void offer_options(const std::vector<OptionSpec>& options, const Words& earlier, Offers& offers) {
  for (const OptionSpec& option : options) {
    const std::string name = "--" + option.name;
    const bool given = std::any_of(earlier.begin(), earlier.end(), [&](const std::string& word) {
      return word == name || word.starts_with(name + "=");
    });
    if (given && option.type != ValueType::kTexts) continue;
    offers.word(option.type == ValueType::kFlag ? name : name + "=", option_help(option));
  }
}

bool takes_next(const std::vector<OptionSpec>& options, const std::string& word) {
  if (!word.starts_with("--") || word.find('=') != std::string::npos) return false;
  const OptionSpec* const option = named(options, word.substr(2));
  return option != nullptr && option->type != ValueType::kFlag;
}

void offer_arguments(const CommandSpec& spec, int position, Offers& offers) {
  if (spec.max_arguments >= 0 && position >= spec.max_arguments) return;
  if (position == 0) {
    for (const Verb& verb : spec.verbs) offers.word(verb.name, verb.help);
    for (const std::string& word : spec.operands) offers.word(word);
    if (!spec.verbs.empty()) return;
  }
  if (spec.operands.empty() || !spec.endings.empty()) offers.files(spec.endings);
}

// `words` follow the command's name; the last one is to be completed.
void offer_of_command(const CommandSpec& spec, const Words& words, Offers& offers) {
  const std::vector<OptionSpec> options = joined({spec.options, common_options()});
  const std::string& current = words.back();
  const Words earlier(words.begin(), words.end() - 1);
  int position = 0;
  bool options_end = false;
  for (size_t i = 0; i < earlier.size(); ++i) {
    options_end = options_end || earlier[i] == "--";
    const bool is_value = i > 0 && takes_next(options, earlier[i - 1]);
    if (!earlier[i].starts_with('-') && (options_end || !is_value)) ++position;
  }
  const size_t equals = current.find('=');
  if (options_end) return offer_arguments(spec, position, offers);
  if (current.starts_with("--") && equals != std::string::npos) {
    if (const OptionSpec* const option = named(options, current.substr(2, equals - 2)))
      offer_values(*option, current.substr(0, equals + 1), current.substr(equals + 1), offers);
    return;
  }
  if (!earlier.empty() && takes_next(options, earlier.back()))
    return offer_values(*named(options, earlier.back().substr(2)), "", current, offers);
  if (current.starts_with('-')) return offer_options(options, earlier, offers);
  offer_arguments(spec, position, offers);
}

void offer_commands(const Program& program, Offers& offers) {
  std::string last;
  for (const Command& command : program.commands) {
    const std::string name = command.spec.name.substr(0, command.spec.name.find(' '));
    if (name != last) offers.word(name, command.spec.summary);
    last = name;
  }
  for (const auto& part : program.parts) offers.word(word_of(*part), part->summary);
  for (const auto& [name, summary] : program.external) offers.word(name, summary);
  for (const CommandSpec& spec : builtin_specs(program)) offers.word(spec.name, spec.summary);
}

// --- the scripts --------------------------------------------------------------------------------------------------

// bash takes --key=value as three words, and replaces the last of them only.
constexpr std::string_view kBash = R"sh(# bash completion of @PROGRAM@; try it with: source <(@PROGRAM@ completion bash)
@FUNCTION@() {
  local words=() lines=() line found ending start='' value i
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    if ((${#words[@]} > 0)) && [[ ${COMP_WORDS[i]} == '=' && ${words[-1]} == --* ]]; then words[-1]+='='
    elif ((i > 1)) && [[ ${COMP_WORDS[i-1]} == '=' && ${words[-1]} == --*= ]]; then words[-1]+=${COMP_WORDS[i]}
    else words+=("${COMP_WORDS[i]}"); fi
  done
  if [[ ${words[-1]} == --*=* ]]; then start=${words[-1]%%=*}=; fi
  value=${words[-1]#"$start"}
  COMPREPLY=()
  mapfile -t lines < <("${COMP_WORDS[0]/#\~\//$HOME/}" complete "${words[@]}" 2>/dev/null)
  for line in "${lines[@]}"; do
    case $line in
      :folders) compopt -o filenames 2>/dev/null
        while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -d -- "$value") ;;
      :files*) compopt -o filenames 2>/dev/null
        while IFS= read -r found; do
          if [[ $line == ':files ' || -d $found ]]; then COMPREPLY+=("$found"); continue; fi
          for ending in ${line#:files }; do
            if [[ $found == *"$ending" ]]; then COMPREPLY+=("$found"); fi
          done
        done < <(compgen -f -- "$value") ;;
      *) line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$start"}") ;;
    esac
  done
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  return 0
}
complete -F @FUNCTION@ @PROGRAM@
)sh";

constexpr std::string_view kZsh = R"sh(#compdef @PROGRAM@
# zsh completion of @PROGRAM@; try it with: source <(@PROGRAM@ completion zsh)
@FUNCTION@() {
  local -a lines plain keys
  local line word help files
  lines=("${(@f)$("${(Q)words[1]/#\~\//$HOME/}" complete "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    case $line in
      '') ;;
      :f*) files=$line ;;
      *)
        word=${line%%$'\t'*} help=
        if [[ $line == *$'\t'* ]]; then help=:${line#*$'\t'}; fi
        if [[ $word == *= ]]; then keys+=("${word//:/\\:}$help"); else plain+=("${word//:/\\:}$help"); fi ;;
    esac
  done
  if (( $#keys )); then _describe option keys -S ''; fi
  if (( $#plain )); then _describe word plain; fi
  if [[ -n $files ]]; then compset -P '--*='; fi
  case $files in
    '') ;;
    :folders) _path_files -/ ;;
    ':files ') _path_files ;;
    *) _path_files -g "*(${(j:|:)${=files#:files }}) *(-/)" ;;
  esac
}
# As an autoloaded file this text is the function; sourced, it registers the function.
if [[ $funcstack[1] == @FUNCTION@ ]]; then @FUNCTION@ "$@"; else compdef @FUNCTION@ @PROGRAM@; fi
)sh";

constexpr std::string_view kFish = R"sh(# fish completion of @PROGRAM@; try it with: @PROGRAM@ completion fish | source
function @FUNCTION@
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l start ''  # an empty list would empty what it is joined with
  if string match -q -r -- '^--[^=]*=' $current
    set start (string match -r -- '^--[^=]*=' $current)
  end
  set -l value (string replace -r -- '^--[^=]*=' '' $current)
  for line in ($words[1] complete $words[2..-1] "$current" 2>/dev/null)
    switch $line
      case ':folders'
        printf '%s\n' $start(__fish_complete_directories "$value" folder)
      case ':files*'
        set -l endings (string split -n ' ' -- (string replace ':files' '' -- $line))
        for found in (__fish_complete_path "$value")
          set -l path (string split \t -- $found)[1]
          set -l fits (test -z "$endings"; and echo yes)
          for ending in '/' $endings
            if string match -q -- "*$ending" $path; set fits yes; end
          end
          if test -n "$fits"; printf '%s\n' $start$found; end
        end
      case '*'
        printf '%s\n' $line
    end
  end
end
complete -c @PROGRAM@ -f -a '(@FUNCTION@)'
)sh";

}  // namespace

Words offers_for_commands(const Program& program, const std::string& current) {
  Offers offers(current);
  offer_commands(program, offers);
  if (current.starts_with('-')) {
    offers.word("--help", "Print the overview.");
    offers.word("--version", "Print the version.");
  }
  return std::move(offers).lines();
}

Words offers_for_command(const Program& program, const CommandSpec& spec, const Words& words) {
  SCALAI_CHECK(!words.empty(), "the word to complete");
  Offers offers(words.back());
  if (spec.name == "help" || spec.name == "man") {
    if (words.size() == 1) offer_commands(program, offers);
    return std::move(offers).lines();
  }
  // Commands of two words: "accuracy model" beside "accuracy".
  for (const Command& command : program.commands) {
    const std::string& name = command.spec.name;
    if (words.size() == 1 && name.starts_with(spec.name + " "))
      offers.word(name.substr(spec.name.size() + 1), command.spec.summary);
  }
  offer_of_command(spec, words, offers);
  return std::move(offers).lines();
}

std::string completion_script(const Program& program, const std::string& shell) {
  SCALAI_CHECK(shell == "bash" || shell == "zsh" || shell == "fish", shell);
  const std::string_view script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
  const std::string function = (shell == "fish" ? "__" : "_") + replaced(program.name, "-", "_");
  return replaced(replaced(std::string(script), "@PROGRAM@", program.name), "@FUNCTION@", function);
}

}  // namespace scalai
