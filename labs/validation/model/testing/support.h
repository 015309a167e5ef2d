#pragma once
// What tests of rows share: a table of one row, and small models.

#include <gtest/gtest.h>

#include <string>

#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// The first row of a table, with what it needs to live.
class OneRow {
 public:
  // "gpus=8 tp=2": one column a word.
  explicit OneRow(const std::string& cells) : text_(text_of(cells)), problems_("t.csv", text_) {
    table_ = read_table("t", text_, problems_);
    EXPECT_TRUE(problems_.empty()) << problems_.render();
  }
  RowReader reader() { return {table_, 0, problems_}; }
  std::string said() const { return problems_.render(); }
  bool ok() const { return problems_.empty(); }

 private:
  static std::string text_of(const std::string& cells) {
    return "# kind: step\n# title: t\n# source: s\n# default: " + cells + "\nlabel\nrow\n";
  }
  std::string text_;
  Diagnostics problems_;
  PublishedTable table_;
};

inline ModelShape gpt(int layers, int64_t hidden, int heads) {
  return transformer_shape({.name = "gpt",
                            .layers = layers,
                            .hidden = hidden,
                            .heads = heads,
                            .biases = true,
                            .dropout = true,
                            .positions = true,
                            .vocab = 51200,
                            .sequence = 2048,
                            .tied = true});
}

inline Models models() { return {{"gpt", gpt(24, 2304, 24)}, {"gpt-22b", gpt(48, 6144, 64)}}; }

}  // namespace scalai::step::validation
