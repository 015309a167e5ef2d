#pragma once
// Puts a tree of names and values into a message: finds each field, checks its type, and says all that does not fit.

#include "ptc/proto/internal/text_tree.h"
#include "ptc/proto/textproto.h"

namespace scalai::proto::internal {

struct BindOptions {
  bool json = false;  // camelCase names, enum values as texts, null for absent; problems carry pointers, not places
};

void bind(const TextValue& root, google::protobuf::Message& message, const BindOptions& options,
          Diagnostics& diagnostics, Places& places);

}  // namespace scalai::proto::internal
