#pragma once
// What several runs say beside their numbers, each text once: notes (assumptions, parts that are left out), remarks of
// policies, rules that differ. One thread.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace scalai::report {

// Of summary.json of many jobs or of a recovery design; empty for other texts.
struct RunWords {
  std::vector<std::string> notes;
  std::string remarks;  // of the policy
  std::string rules;    // of a recovery run
};
RunWords words_of_run(const std::string& summary_json_text);

// Collects them in any order; the texts depend on the runs alone.
class RunNotes {
 public:
  // Runs of one `alternative` have one label and differ in seeds.
  void add(size_t alternative, size_t seed, const std::string& label, const RunWords& words);

  // A sentence a text: those of all alternatives as they are, others behind the labels that have them ("fifo, srtf and
  // 3 more: …"), remarks last. Of texts that differ only in numbers from seed to seed, and of remarks, that of the
  // first seed is there. After 20 sentences one says how many more there are.
  std::vector<std::string> sentences() const;
  // Of recovery runs under different rules, which differ by these first; "" = all have the same.
  std::string warning() const;

 private:
  struct Said {
    size_t seed = 0, index = 0;  // the first that has it, and where
    std::string text;
    bool differs = false;  // another seed has other numbers
  };
  void say(size_t alternative, const std::string& key, Said said);
  std::string labels_of(const std::set<size_t>& alternatives) const;

  std::map<size_t, std::string> labels_;                // by alternative
  std::map<size_t, std::map<std::string, Said>> said_;  // by alternative, and by text without its numbers
  std::map<size_t, std::string> rules_;
};

}  // namespace scalai::report
