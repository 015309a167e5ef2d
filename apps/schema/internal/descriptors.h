#pragma once
// Descriptors of the built-in schemas with their comments.

#include <google/protobuf/descriptor.h>

#include <string>

#include "apps/schema/schema.h"

namespace scalai::apps {

// Of "scalai.proto.Scenario" and "scalai.proto.Cluster". The descriptors live as long as the program.
const google::protobuf::Descriptor& descriptor_of(SchemaOf what);

template <class Descriptor>
std::string comment_of(const Descriptor& descriptor) {
  google::protobuf::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return "";
  std::string text = location.trailing_comments.empty() ? location.leading_comments : location.trailing_comments;
  std::string words;  // on one line
  for (const char c : text) {
    const bool space = c == '\n' || c == ' ';
    if (!space) words += c;
    if (space && !words.empty() && words.back() != ' ') words += ' ';
  }
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

// "text", "number", "list of Job", "one of STAR, RAIL".
std::string type_of(const google::protobuf::FieldDescriptor& field);

}  // namespace scalai::apps
