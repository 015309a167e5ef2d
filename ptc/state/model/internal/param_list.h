#pragma once
// Appends parameters to a model in forward order. One ParamList writes one place of the pipeline (a layer or an end);
// names inside a layer get the prefix "layers.N.".

#include <string_view>

#include "ptc/state/model/model.h"

namespace scalai::model {

class ParamList {
 public:
  ParamList(Model& model, int layer) : model_(model), layer_(layer) {}

  void add(std::string_view name, const tensor::Shape& shape, TpRule rule = TpRule::kReplicated);
  void add_buffer(std::string_view name, const tensor::Shape& shape);
  void add_expert(int expert, std::string_view name, const tensor::Shape& shape, TpRule rule);

  // name.weight [out, in] and, with `bias`, name.bias [out]. A row-parallel bias is added after the sum over tp and
  // therefore whole on every rank.
  struct Linear {
    int64_t out = 0;
    int64_t in = 0;
    TpRule rule = TpRule::kReplicated;
    bool bias = false;
  };
  void add_linear(std::string_view name, const Linear& linear);

  // Layer norm (with bias) or RMS norm (without): name.weight [width], name.bias [width].
  void add_norm(std::string_view name, int64_t width, bool bias);

 private:
  Param& append(std::string_view name, const tensor::Shape& shape, TpRule rule);

  Model& model_;
  int layer_;
};

}  // namespace scalai::model
