#pragma once
// A small family for tests of the reader, and what it says of changed ones.

#include <gtest/gtest.h>

#include <string>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {

// With these lines in place of the stored tensors of its naming, when there are any.
inline std::string small_family(const std::string& stored) {
  const std::string all = R"(  tensors { name: "i" parts { tensor: "in" } }
  tensors { name: "{layer}.w" parts { tensor: "layers.{layer}.w" } }
  tensors { name: "{layer}.b" when: "biased" parts { tensor: "layers.{layer}.b" } }
  tensors { name: "o" parts { tensor: "out" } }
)";
  return R"(schema_version: 1
name: "small"
architectures: "Small"
sizes { name: "layers" keys: "n" field: "layers" }
sizes { name: "width" keys: "w" }
switches { name: "biased" keys: "b" }

tensors { name: "in" shape: ["width", "width"] home: FIRST }
tensors { name: "layers.{layer}.w" shape: ["2*width", "width"] rule: COLUMN }
tensors { name: "layers.{layer}.b" shape: "2*width" rule: COLUMN when: "biased" }
tensors { name: "out" shape: "width" home: LAST }
namings {
  name: "n"
)" + (stored.empty() ? all : stored) +
         "}\n";
}

inline std::string replaced(const std::string& from, const std::string& to) {
  std::string text = small_family("");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The rendered problems; empty when there are none.
inline std::string family_problem(const std::string& text) {
  return message_of(Family::parse(text, "f.textproto").status());
}

}  // namespace scalai::store
