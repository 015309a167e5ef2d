#pragma once
// What a text or JSON file says before it meets a schema: a tree of field names and values, each with its place.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/diagnostics.h"

namespace scalai::proto::internal {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxProblems = 100;

struct TextField;

struct TextValue {
  enum class Kind : uint8_t {
    kNumber,  // `text` as written, sign included
    kText,    // `text` decoded
    kWord,    // true, false, null, an enum value …; `text` as written, sign included
    kMessage,
    kList,
    kBroken,  // its problem is already reported
  };
  Kind kind = Kind::kBroken;
  std::string text;
  SourcePlace place;
  std::vector<TextField> fields;  // kMessage
  std::vector<TextValue> items;   // kList
};

struct TextField {
  std::string name;
  SourcePlace place;  // of the name
  TextValue value;
};

// Both report syntax problems and return what could be read as a kMessage; `structure_ok` is false when braces or
// separators are wrong, so that the tree may not be what was meant.
TextValue read_text_tree(std::string_view text, Diagnostics& diagnostics, bool& structure_ok);
TextValue read_json_tree(std::string_view text, Diagnostics& diagnostics, bool& structure_ok);

// Index of the first byte that is not UTF-8; npos when there is none.
size_t find_bad_utf8(std::string_view text);

}  // namespace scalai::proto::internal
