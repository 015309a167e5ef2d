#pragma once
// What a word means: a field of a scenario, a number of a report, or a term of the glossary. Read from the schemas and
// pages inside the program. Pure functions; any thread.

#include <string>
#include <vector>

namespace scalai::apps {

struct Explanation {
  std::string kind;   // "field", "value" (one of a few that a field takes), "metric", "term"
  std::string name;   // path of a field, key of a report, term
  std::string about;  // type of a field, unit of a metric; "" = none
  std::string text;   // a sentence or two, without markup
  std::string where;  // "ptc/proto/scenario.proto:66", "docs/reports.md, summary.json"
};

// All meanings of a word, fields first: "jobs.checkpoint", "downtime_s", "kept". Empty: nobody says it here.
std::vector<Explanation> explanations(const std::string& word);

// The words nearest to an unknown one, best first, at most three.
std::vector<std::string> words_like(const std::string& word);

}  // namespace scalai::apps
