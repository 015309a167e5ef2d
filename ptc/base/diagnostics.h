#pragma once
// Problems in a user's input, all of them at once. A Diagnostics object owns a copy of one file's text and the problems
// found in it. One thread at a time. render() prints each problem as
//
//     elastic.textproto:14:7: error: "35mn" is not a duration: unknown unit "mn"
//        14 |   at: "35mn"
//           |       ^~~~~~
//     hint: write it like "35min" (units: ns, us, ms, s, min, h, d)
//     elastic.textproto:3:1: note: the cluster has 16 GPUs
//         3 | cluster { gpus: 16 }
//           | ^
//
// Lines and columns count from 1; columns count characters (UTF-8), and a tab is one column.

#include <string>
#include <string_view>
#include <vector>

namespace scalai {

struct SourcePlace {
  int line = 0;    // 1-based; 0 = the whole file
  int column = 0;  // 1-based; 0 = the whole line, without a caret
  int length = 1;  // characters underlined
};

struct Diagnostic {
  SourcePlace place;
  std::string message;
  std::string hint;                                        // may be empty
  std::vector<std::pair<SourcePlace, std::string>> notes;  // other places that the problem involves
};

class Diagnostics {
 public:
  Diagnostics(std::string file, const std::string& text);

  void error(SourcePlace place, std::string message, std::string hint = "");
  void error(Diagnostic diagnostic);
  bool empty() const { return problems_.empty(); }
  // In the order of the calls. The reference is valid until the next error() or the end of this object.
  const std::vector<Diagnostic>& problems() const { return problems_; }
  const std::string& file() const { return file_; }

  // All problems sorted by place, without duplicates, then "N errors\n"; "" without problems.
  std::string render() const;

 private:
  std::string file_;
  std::vector<std::string> lines_;
  std::vector<Diagnostic> problems_;
};

// The candidate nearest to `word` by edit distance, or "" if none is near enough to be a typo (at most a third of the
// longer text's bytes, at least 1).
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace scalai
