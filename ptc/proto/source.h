#pragma once
// One input file during its checks: the places of its fields, and the problems found so far. Fields have paths
// ("jobs[0].configs[2].layout"). A field with a reported problem is not judged again. Owns a copy of the text; one
// thread at a time.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
  // JSON if the name ends in ".json" or the first character is '{', else textproto.
  Source(const std::string& file, const std::string& text);
  // Parses the same text into `message` (parse_textproto, parse_json). Problems become problems of this source;
  // `message` has the fields that did parse.
  void parse(const std::string& text, google::protobuf::Message& message, size_t max_bytes = kMaxTextBytes);

  // Whether the file has the field; whether it is broken, or something inside it is (Places).
  bool given(const std::string& path) const { return places_.has(path); }
  bool broken(const std::string& path) const { return places_.broken(path); }
  bool broken_inside(const std::string& path) const { return places_.broken_inside(path); }

  // A setting from outside the file ("--set=policy.name=srtf") has changed `path`: it now has a value, or is gone.
  // given() follows; problems at the path and inside it name the setting instead of a place in the file.
  void replaced(const std::string& path, const std::string& setting, bool present);
  // The same of a list of which the setting changed one element: element i was element `from[i]` of the file's list;
  // nullopt: the setting brought it.
  void replaced_element(const std::string& list, const std::string& setting,
                        const std::vector<std::optional<int>>& from);
  // Whether a setting gave `path` its value.
  bool is_replaced(const std::string& path) const { return replaced_.count(path) != 0; }

  // Reports a problem at the value of `path`. Nothing is added for a broken field.
  void error(const std::string& path, const std::string& message, std::string hint = "",
             const std::vector<Note>& notes = {});
  // Reports that the field is missing.
  void missing(const std::string& path, std::string hint = "");
  // Reports a problem at characters position … position + length − 1 (from 1) of the text `value` at `path`. Underlines
  // the whole value if the file spells it with escapes or in parts.
  void error_inside(const std::string& path, const std::string& value, int position, int length,
                    const std::string& message, std::string hint = "", const std::vector<Note>& notes = {});
  // Reports a text that is not in `known`. The hint is the nearest name, else all names if they are at most 16.
  void error_unknown(const std::string& path, const std::string& what, const std::string& name,
                     const std::vector<std::string>& known);

  // The value in base units; nullopt after reporting a problem.
  std::optional<double> seconds(const std::string& path, const std::string& text);
  std::optional<double> bandwidth(const std::string& path, const std::string& text);
  std::optional<int64_t> bytes(const std::string& path, const std::string& text);
  // Whether value >= lowest. Otherwise reports a value that is too small, or a missing field.
  bool at_least(const std::string& path, int64_t value, int64_t lowest);
  // Whether the text can be a name: not empty, no control characters, at most 200 bytes. Otherwise reports the problem.
  bool is_name(const std::string& path, const std::string& text);

  // Number of errors so far, those at broken fields included.
  int errors() const { return errors_; }
  bool empty() const { return diagnostics_.empty(); }
  std::string render() const { return diagnostics_.render(); }

 private:
  void report(const std::string& path, SourcePlace place, const std::string& message, std::string hint,
              const std::vector<Note>& notes);
  // The setting that changed `path` or what encloses it; "" = none.
  std::string setting_of(const std::string& path) const;
  // `text` as it is said of `path`: after the setting that changed it, or after its pointer in JSON.
  std::string about(const std::string& path, const std::string& text) const;

  bool json_;
  Diagnostics diagnostics_;
  Places places_;
  std::map<std::string, std::string> replaced_;  // setting by path
  int errors_ = 0;
};

// The last name of a path: "jobs[0].name" gives "name".
std::string field_of(const std::string& path);

}  // namespace scalai::proto
