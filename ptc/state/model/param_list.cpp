#include "ptc/state/model/internal/param_list.h"

#include <fmt/format.h>

namespace scalai::model {

Param& ParamList::append(std::string_view name, const tensor::Shape& shape, TpRule rule) {
  const std::string prefix = layer_ >= 0 ? fmt::format("layers.{}.", layer_) : "";
  model_.params.push_back({.name = prefix + std::string(name), .shape = shape, .rule = rule, .layer = layer_});
  return model_.params.back();
}

void ParamList::add(std::string_view name, const tensor::Shape& shape, TpRule rule) { append(name, shape, rule); }

void ParamList::add_buffer(std::string_view name, const tensor::Shape& shape) {
  append(name, shape, TpRule::kReplicated).buffer = true;
}

void ParamList::add_expert(int expert, std::string_view name, const tensor::Shape& shape, TpRule rule) {
  append(fmt::format("experts.{}.{}", expert, name), shape, rule).expert = expert;
}

void ParamList::add_linear(std::string_view name, const Linear& linear) {
  append(fmt::format("{}.weight", name), {linear.out, linear.in}, linear.rule);
  if (!linear.bias) return;
  const bool cut = linear.rule == TpRule::kColumn || linear.rule == TpRule::kVocab;
  append(fmt::format("{}.bias", name), {linear.out}, cut ? linear.rule : TpRule::kReplicated);
}

void ParamList::add_norm(std::string_view name, int64_t width, bool bias) {
  append(fmt::format("{}.weight", name), {width}, TpRule::kReplicated);
  if (bias) append(fmt::format("{}.bias", name), {width}, TpRule::kReplicated);
}

}  // namespace scalai::model
