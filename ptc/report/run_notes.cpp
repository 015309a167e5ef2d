#include "ptc/report/run_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "ptc/base/json.h"
#include "ptc/base/utf8.h"

namespace scalai::report {
namespace {

constexpr size_t kMostLabels = 4, kMostSentences = 20;
constexpr size_t kRemarks = std::numeric_limits<size_t>::max();  // the place of remarks

std::string without_numbers(const std::string& text) {
  std::string rest;
  for (const char c : text)
    if (c < '0' || c > '9') rest += c;
  return rest;
}

std::string text_of_key(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

RunWords words_of_run(const std::string& summary_json_text) {
  const nlohmann::json json = read_json(summary_json_text).value_or(nullptr);
  if (!json.is_object()) return {};
  RunWords words{.notes = {}, .remarks = text_of_key(json, "policy_remarks"), .rules = text_of_key(json, "rules")};
  if (const auto notes = json.find("notes"); notes != json.end() && notes->is_array()) {
    for (const nlohmann::json& note : *notes)
      if (note.is_string()) words.notes.push_back(note.get<std::string>());
  }
  return words;
}

void RunNotes::add(size_t alternative, size_t seed, const std::string& label, const RunWords& words) {
  labels_[alternative] = label;
  rules_.emplace(alternative, words.rules);
  std::map<std::string, int> times;
  for (size_t i = 0; i < words.notes.size(); ++i) {
    const std::string key = without_numbers(words.notes[i]);
    say(alternative, fmt::format("{} {}", key, ++times[key]), {seed, i, words.notes[i]});
  }
  if (!words.remarks.empty()) say(alternative, "", {seed, kRemarks, "policy: " + words.remarks});
}

void RunNotes::say(size_t alternative, const std::string& key, Said said) {
  const auto [known, fresh] = said_[alternative].emplace(key, said);
  if (fresh) return;
  said.differs = known->second.differs || known->second.text != said.text;
  if (said.seed < known->second.seed)
    known->second = std::move(said);
  else
    known->second.differs = said.differs;
}

// "" = all have it.
std::string RunNotes::labels_of(const std::set<size_t>& alternatives) const {
  if (alternatives.size() == labels_.size()) return "";
  std::string text;
  size_t shown = 0;
  for (const size_t alternative : alternatives) {
    if (shown == kMostLabels && alternatives.size() > kMostLabels + 1)
      return fmt::format("{} and {} more: ", text, alternatives.size() - shown);
    text += (shown++ == 0 ? "" : ", ") + labels_.at(alternative);
  }
  return text + ": ";
}

std::vector<std::string> RunNotes::sentences() const {
  using Place = std::tuple<bool, size_t, size_t, size_t>;  // remarks, alternative, seed, index
  std::map<std::string, std::pair<Place, std::set<size_t>>> texts;
  for (const auto& [alternative, all] : said_) {
    for (const auto& [key, said] : all) {
      const Place place{said.index == kRemarks, alternative, said.seed, said.index};
      const std::string text = said.text + (said.differs ? " (of the first seed)" : "");
      texts.emplace(text, std::pair(place, std::set<size_t>())).first->second.second.insert(alternative);
    }
  }
  std::vector<std::pair<Place, std::string>> ordered;
  for (const auto& [text, where] : texts) ordered.emplace_back(where.first, labels_of(where.second) + text);
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::string> sentences;
  for (auto& [place, text] : ordered) sentences.push_back(std::move(text));
  if (sentences.size() > kMostSentences + 1) {
    const size_t more = sentences.size() - kMostSentences;
    sentences.resize(kMostSentences);
    sentences.push_back(fmt::format("and {} more notes, which summary.json of each run has", more));
  }
  for (std::string& sentence : sentences) sentence = printable_text(sentence);
  return sentences;
}

std::string RunNotes::warning() const {
  std::string text;
  size_t shown = 0;
  bool differ = false;
  for (const auto& [alternative, rules] : rules_) {
    differ = differ || rules != rules_.begin()->second;
    if (++shown > 2 * kMostLabels) continue;
    text +=
        fmt::format("{} {} is {}", shown == 1 ? "" : ",", labels_.at(alternative), rules.empty() ? "not said" : rules);
  }
  if (!differ) return "";
  if (shown > 2 * kMostLabels) text += fmt::format(" and {} more", shown - 2 * kMostLabels);
  return printable_text("the runs' rules differ, and what they differ in may be that:" + text);
}

}  // namespace scalai::report
