#include "labs/validation/model/model_rows.h"

#include "labs/validation/model/internal/printed.h"

namespace scalai::step::validation {

std::vector<std::string> model_columns() {
  return {"model",    "params", "unit",    "layers", "hidden",     "heads",     "kv_heads",
          "head_dim", "ffn",    "gated",   "biases", "dropout",    "positions", "vocab",
          "sequence", "tied",   "experts", "top_k",  "shared_ffn", "cut",       "note"};
}

ModelShape read_model(RowReader& row) {
  ModelShape model{.name = row.text("model"),
                   .layers = row.count("layers"),
                   .hidden = row.count("hidden"),
                   .heads = row.count("heads"),
                   .kv_heads = row.count("kv_heads", 0),
                   .head_dim = row.count("head_dim", 0),
                   .ffn = row.count("ffn", 0),
                   .gated = row.flag("gated", false),
                   .biases = row.flag("biases", true),
                   .dropout = row.flag("dropout", false),
                   .positions = row.flag("positions", true),
                   .vocab = row.count("vocab"),
                   .sequence = row.count("sequence"),
                   .tied = row.flag("tied", true),
                   .experts = row.count("experts", 0),
                   .experts_per_token = row.count("top_k", 0),
                   .shared_ffn = row.count("shared_ffn", 0)};
  for (const char* size : {"layers", "hidden", "heads", "vocab", "sequence"}) {
    if (row.ok() && row.count(size) == 0) row.problem(size, "must be more than 0");
  }
  if (row.ok() && model.experts < model.experts_per_token) row.problem("top_k", "more than there are experts");
  return row.ok() ? transformer_shape(model) : model;
}

RowResult model_result(RowReader& row, const ModelShape& model) {
  RowResult result{.label = model.name, .unit = row.text("unit", "B"), .published_text = row.text("params", "")};
  if (result.unit != "M" && result.unit != "B") row.problem("unit", "parameters are in M or B");
  if (!row.ok() || result.published_text.empty()) return result;
  result.published = row.number("params");
  result.predicted = static_cast<double>(model.parameters()) / (result.unit == "M" ? 1e6 : 1e9);
  result.error = result.published > 0 ? result.predicted / result.published - 1 : 0;
  result.exact = row.flag("cut", false) ? cuts_to(result.predicted, result.published_text)
                                        : rounds_to(result.predicted, result.published_text);
  result.rank_published = result.published;
  result.rank_predicted = result.predicted;
  return result;
}

}  // namespace scalai::step::validation
