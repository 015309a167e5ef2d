#pragma once
// One input file while it is checked: where its fields stand, and the problems found in it so far. Fields go by path
// ("jobs[0].configs[2].layout"); a field whose problem is already reported is not judged again.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/diagnostics.h"
#include "ptc/proto/textproto.h"

namespace scalai::proto {

// The other place of a cross-field problem.
struct Note {
  std::string path;
  std::string text;
};

class Source {
 public:
  // JSON when the name ends in ".json" or the first character is '{', else textproto.
  Source(const std::string& file, const std::string& text);
  void parse(const std::string& text, google::protobuf::Message& message, size_t max_bytes = kMaxTextBytes);

  bool given(const std::string& path) const { return places_.has(path); }
  bool broken(const std::string& path) const { return places_.broken(path); }
  bool broken_inside(const std::string& path) const { return places_.broken_inside(path); }

  void error(const std::string& path, const std::string& message, std::string hint = "",
             const std::vector<Note>& notes = {});
  // "x" is missing.
  void missing(const std::string& path, std::string hint = "");
  // Points at characters position … position + length − 1 (from 1) of the text `value` that stands at `path`.
  void error_inside(const std::string& path, const std::string& value, int position, int length,
                    const std::string& message, std::string hint = "", const std::vector<Note>& notes = {});
  // A text that is none of `known`: the nearest one, or all of them, become the hint.
  void error_unknown(const std::string& path, const std::string& what, const std::string& name,
                     const std::vector<std::string>& known);

  // The value in base units; a problem is reported and gives nothing.
  std::optional<double> seconds(const std::string& path, const std::string& text);
  std::optional<double> bandwidth(const std::string& path, const std::string& text);
  std::optional<int64_t> bytes(const std::string& path, const std::string& text);
  // Whether value >= lowest; reports a smaller one, or that the field is missing.
  bool at_least(const std::string& path, int64_t value, int64_t lowest);
  // Whether the text is there and is fit to be printed as a name.
  bool is_name(const std::string& path, const std::string& text);

  // Grows with every error, whether or not it was already known.
  int errors() const { return errors_; }
  bool empty() const { return diagnostics_.empty(); }
  std::string render() const { return diagnostics_.render(); }

 private:
  void report(const std::string& path, SourcePlace place, const std::string& message, std::string hint,
              const std::vector<Note>& notes);

  bool json_;
  Diagnostics diagnostics_;
  Places places_;
  int errors_ = 0;
};

// The last name of a path: "jobs[0].name" → "name".
std::string field_of(const std::string& path);

}  // namespace scalai::proto
