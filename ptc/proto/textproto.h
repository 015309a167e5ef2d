#pragma once
// Text files of our schemas, read with all their problems at once and with the place of every field.
//
// Protobuf's own text parser stops at the first type error, takes "1e400" as infinity, reports unknown fields a token
// late and knows no lengths. So we read the grammar ourselves, in two passes: text or JSON becomes a tree of names and
// values (internal/text_tree.h), which is then bound to the message field by field (internal/bind.h). Tests hold the
// result equal to protobuf's on everything both accept.

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ptc/base/diagnostics.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace scalai::proto {

// Places of fields by path, e.g. "jobs[0].configs[2].layout", "events[3].fail", "" (the whole file). A message's place
// is its field name, a scalar's its value. Places in JSON have line 0.
class Places {
 public:
  // The place of the value at `path`; when that field is absent, of the nearest enclosing field that is there.
  SourcePlace value(const std::string& path) const;
  bool has(const std::string& path) const { return places_.count(path) != 0; }
  void set(const std::string& path, SourcePlace place) { places_[path] = place; }

  // A broken field is one with a problem already reported: nothing can be said about its meaning. Whoever is inside a
  // broken field is broken too; "" stands for a file whose structure is broken.
  bool broken(const std::string& path) const;
  // Whether anything inside `path` is.
  bool broken_inside(const std::string& path) const;
  void set_broken(const std::string& path) { broken_.insert(path); }

 private:
  std::map<std::string, SourcePlace> places_;
  std::set<std::string> broken_;
};

constexpr size_t kMaxTextBytes = size_t{1} << 20;  // of what people write

// Parses `text` into `message`; problems go to `diagnostics` (at most 100 of them). What parsed is in `message` even
// then. Refused besides syntax errors: unknown fields (with the nearest name as hint), wrong types, singular fields
// given twice, infinities and not-a-number, bytes that are not UTF-8, empty files, NUL bytes (a binary file), more than
// `max_bytes`, more than 32 levels of nesting.
void parse_textproto(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics,
                     Places& places, size_t max_bytes = kMaxTextBytes);

// The same for JSON. Only syntax errors have a position there: other problems carry line 0 and start with a pointer
// ("/jobs/0/name: …").
void parse_json(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics, Places& places,
                size_t max_bytes = kMaxTextBytes);

// "jobs[0].name" as a JSON pointer: "/jobs/0/name".
std::string pointer_of(const std::string& path);

// Deterministic text form, fields in schema order.
std::string print_textproto(const google::protobuf::Message& message);

}  // namespace scalai::proto
