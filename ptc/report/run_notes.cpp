#include "ptc/report/run_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/utf8.h"

namespace scalai::report {
namespace {

constexpr size_t kMostLabels = 4, kMostSentences = 20;

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
  for (size_t i = 0; i < words.notes.size(); ++i) {
    const std::pair<Place, size_t> here{{alternative, seed}, i};
    Text& text = notes_.emplace(words.notes[i], Text{here, {}}).first->second;
    text.first = std::min(text.first, here);
    text.alternatives.insert(alternative);
  }
  const auto [known, fresh] = remarks_.emplace(alternative, Remarks{seed, words.remarks});
  if (fresh) return;
  known->second.differ = known->second.differ || known->second.text != words.remarks;
  if (seed > known->second.seed) return;
  known->second.seed = seed;
  known->second.text = words.remarks;
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
  std::vector<std::pair<std::pair<Place, size_t>, std::string>> notes;
  for (const auto& [text, where] : notes_) notes.emplace_back(where.first, labels_of(where.alternatives) + text);
  std::sort(notes.begin(), notes.end());
  std::vector<std::string> sentences;
  for (auto& [place, text] : notes) sentences.push_back(std::move(text));
  std::map<std::string, std::set<size_t>> who;
  std::vector<std::string> remarks;
  for (const auto& [alternative, said] : remarks_) {
    if (said.text.empty()) continue;
    const std::string text = said.text + (said.differ ? " (of the first seed)" : "");
    if (who[text].empty()) remarks.push_back(text);
    who[text].insert(alternative);
  }
  for (const std::string& text : remarks) sentences.push_back(labels_of(who[text]) + "policy: " + text);
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
