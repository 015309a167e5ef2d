#pragma once
// Reader of text files for our schemas: all problems at once, and the place of every field. Functions keep no reference
// to their arguments; any thread may call.
//
// Protobuf's own text parser stops at the first type error, accepts "1e400" as infinity, reports unknown fields one
// token late and knows no lengths. This reader has two passes: text or JSON becomes a tree of names and values
// (internal/text_tree.h), and the tree is bound to the message field by field (internal/bind.h). Tests require
// protobuf's result for everything that both accept.

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ptc/base/diagnostics.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace scalai::proto {

// Places of fields by path, e.g. "jobs[0].configs[2].layout", "events[3].fail", "" (the whole file). The place of a
// message is its field name, that of a scalar its value. Places in JSON have line 0. One thread at a time.
class Places {
 public:
  // The place of the value at `path`. For an absent field: of the nearest enclosing field that is present.
  SourcePlace value(const std::string& path) const;
  bool has(const std::string& path) const { return places_.count(path) != 0; }
  void set(const std::string& path, SourcePlace place) { places_[path] = place; }
  // Forgets the field and everything inside it.
  void forget(const std::string& path);

  // A broken field has a reported problem, so its meaning is unknown. Every field inside a broken field is broken, too.
  // "" is broken if the structure of the file is.
  bool broken(const std::string& path) const;
  // Whether a field inside `path` is broken.
  bool broken_inside(const std::string& path) const;
  void set_broken(const std::string& path) { broken_.insert(path); }

 private:
  std::map<std::string, SourcePlace> places_;
  std::set<std::string> broken_;
};

constexpr size_t kMaxTextBytes = size_t{1} << 20;  // of files that people write

// Parses `text` into `message`, which is cleared first and receives everything that did parse. Problems go to
// `diagnostics`, at most 100. Besides syntax errors they are: unknown fields (with the nearest name as hint), wrong
// types, singular fields given twice, infinities and not-a-number, bytes that are not UTF-8, empty files, NUL bytes (a
// binary file), more than `max_bytes` bytes, more than 32 levels of nesting.
void parse_textproto(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics,
                     Places& places, size_t max_bytes = kMaxTextBytes);

// The same for JSON. Only syntax errors and bytes that are not UTF-8 have a place: other problems have line 0 and begin
// with a pointer ("/jobs/0/name: …").
void parse_json(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics, Places& places,
                size_t max_bytes = kMaxTextBytes);

// The path of the enclosing field: "a.b[1]" → "a.b" → "a" → "".
std::string parent_of(const std::string& path);

// "jobs[0].name" as a JSON pointer: "/jobs/0/name".
std::string pointer_of(const std::string& path);

// Deterministic text form; fields are in the order of the schema.
std::string print_textproto(const google::protobuf::Message& message);

}  // namespace scalai::proto
