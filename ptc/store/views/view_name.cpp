#include <fmt/format.h>

#include <array>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/views/view.h"

namespace scalai::store {
namespace {

constexpr std::array<std::string_view, 6> kNamings = {"hf", "megatron", "logical", "job", "torch", "vllm"};
struct Whole {
  std::string_view word;
  ViewForm form;
  const char* naming;
};
constexpr std::array<Whole, 4> kWhole = {{{"hf", ViewForm::kSafetensors, "hf"},
                                          {"logical", ViewForm::kSafetensors, "logical"},
                                          {"dcp", ViewForm::kDcp, "hf"},
                                          {"torch_dist", ViewForm::kTorchDist, "megatron"}}};
constexpr const char* kGrammar =
    "a layout such as tp4,pp2; hf, logical, dcp or torch_dist for whole tensors; or a layout with one of hf, megatron, "
    "logical, "
    "job, torch, vllm";

bool is_separator(char c) { return c == ',' || c == '-'; }

// Takes a naming from the front or the end of the text; empty when there is none.
std::string_view take_naming(std::string_view& text) {
  for (const std::string_view naming : kNamings) {
    if (text.size() <= naming.size()) continue;
    if (text.starts_with(naming) && is_separator(text[naming.size()])) {
      text.remove_prefix(naming.size() + 1);
      return naming;
    }
    if (text.ends_with(naming) && is_separator(text[text.size() - naming.size() - 1])) {
      text.remove_suffix(naming.size() + 1);
      return naming;
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<ViewSpec> parse_view_name(std::string_view text) {
  ViewSpec spec;
  const std::string whole(text);
  for (const auto& [word, form, naming] : kWhole) {
    if (text != word) continue;
    spec.form = form;
    spec.naming = naming;
    return spec;
  }
  for (const std::string_view naming : kNamings) {
    if (text == naming) return invalid(fmt::format("\"{}\" needs a layout: {}-tp4-pp2", naming, naming));
  }
  spec.naming = std::string(take_naming(text));
  if (spec.naming == "torch") {
    spec.form = ViewForm::kTorch;
    spec.naming = "megatron";
  }
  if (spec.naming == "vllm") spec.form = ViewForm::kVllm;
  absl::StatusOr<collection::ParallelConfig> layout = collection::parse_layout(text);
  if (!layout.ok()) {
    return invalid(fmt::format("\"{}\" is no layout of a checkpoint ({}): {}", clipped(whole, 120), kGrammar,
                               message_of(layout.status())));
  }
  spec.layout = *std::move(layout);
  spec.etp_said = collection::parse_layout_fields(text)->named.count("etp") != 0;
  return spec;
}

std::string canonical(const ViewSpec& spec) {
  const std::string layout = spec.layout       ? collection::canonical(*spec.layout, '-', spec.etp_said)
                             : spec.collection ? std::string("collection")
                                               : std::string();
  if (spec.form == ViewForm::kTorch) return "torch-" + layout;
  for (const Whole& whole : kWhole) {
    if (layout.empty() && whole.form == spec.form && whole.form != ViewForm::kSafetensors)
      return std::string(whole.word);
  }
  if (layout.empty() || spec.naming.empty()) return layout.empty() ? spec.naming : layout;
  return spec.naming + "-" + layout;
}

}  // namespace scalai::store
