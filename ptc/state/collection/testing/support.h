#pragma once
// Collection texts of this folder's tests.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::collection {

// A file of two by two ranks with these lines added from line 3 on.
inline std::string two_by_two(const std::string& lines) {
  return "meshes { name: \"m\" axes { name: \"tp\" size: 2 } axes { name: \"pp\" size: 2 } }\n"
         "devices: \"4-7\"\n" +
         lines;
}

inline CollectionFile read(const std::string& text) {
  const auto file = parse_collection(text, "x.textproto");
  EXPECT_TRUE(file.ok()) << text << "\n" << message_of(file.status());
  if (!file.ok()) return {};
  EXPECT_EQ(message_of(validate(file->collection)), "") << text;
  return *file;
}

// The rendered problems; empty when there are none.
inline std::string problems_of(const std::string& text) {
  return message_of(parse_collection(text, "x.textproto").status());
}

inline TensorId tensor_named(const Collection& collection, const std::string& name) {
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    if (collection.tensors[i].name == name) return TensorId(static_cast<int64_t>(i));
  }
  ADD_FAILURE() << "no tensor " << name;
  return TensorId(0);
}

// What each rank holds of a tensor, as text; "" for a rank without.
inline std::vector<std::string> boxes_of(const Collection& collection, const std::string& name) {
  std::vector<std::string> boxes;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    std::string& text = boxes.emplace_back();
    for (const auto& piece : collection.pieces(tensor_named(collection, name), LogicalRank(rank)).pieces)
      text += piece.box.str();
  }
  return boxes;
}

}  // namespace scalai::collection
