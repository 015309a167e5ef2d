#pragma once
// Tiny models and an oracle for the tests of namings. The oracle builds what files should hold slowly, from tables of
// its own and by slicing, joining and transposing dense tensors; it knows nothing of pieces, families or collections'
// layouts.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {

// A small model of a built-in family.
struct Tiny {
  std::string family = "llama";
  int layers = 4;
  int heads = 4;
  int kv_heads = 2;
  int64_t head_dim = 4;
  int64_t hidden = 16;
  int64_t ffn = 16;
  int64_t vocab = 37;
  int64_t sequence = 8;
  int experts = 0;
  bool tied = false;
  bool bias = false;      // of llama
  bool previous = false;  // a second version of the parameters (PipeDream-2BW)

  bool gpt() const { return family == "gpt"; }
  int queries() const { return heads / kv_heads; }
};

Sizes sizes_of(const Tiny& tiny);
Family family_named(const std::string& name);
model::Model model_of(const Tiny& tiny);
Naming naming_of(const Tiny& tiny, const std::string& naming);
std::vector<LogicalState> states_of(const model::Model& model);
collection::Collection collection_of(const Tiny& tiny, const collection::ParallelConfig& config);

// A dense tensor. An element says which it is: (tensor + 1) · 10^9 + its index; 0 is padding.
struct Dense {
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
  friend bool operator==(const Dense&, const Dense&) = default;
};
using Bundle = std::map<std::string, Dense>;

Bundle wholes_of(const std::vector<LogicalState>& states);
Bundle wholes_of(const collection::Collection& collection);

// What the pieces of an arrangement say that the tensors hold; failures for pieces that overlap or lie outside.
Bundle filled(const std::vector<ArrangedTensor>& tensors, const Bundle& wholes);

// What files should hold: whole tensors under the names of transformers, what a rank has of these (tp at most the
// key-value heads, zero0, parameters only), and what it has under Megatron's names, with all its state.
Bundle expected_hugging_face(const Tiny& tiny, const Bundle& wholes);
Bundle expected_hugging_face_rank(const Tiny& tiny, const Bundle& wholes, const collection::ParallelConfig& config,
                                  int rank);
Bundle expected_megatron(const Tiny& tiny, const Bundle& wholes, const collection::ParallelConfig& config, int rank);

void expect_equal(const Bundle& actual, const Bundle& expected);
std::vector<FoundFile> found_in(const std::vector<ArrangedFile>& files);

}  // namespace scalai::store
