#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/proto/internal/text_tree.h"

namespace scalai::proto::internal {
namespace {

// nlohmann-json's event interface: it reports errors by a call instead of an exception, and shows keys given twice.
class TreeBuilder {
 public:
  // NOLINTBEGIN(readability-identifier-naming): names that nlohmann-json asks for
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  // NOLINTEND(readability-identifier-naming)

  TreeBuilder(std::string_view text, Diagnostics& diagnostics) : text_(text), diagnostics_(diagnostics) {}

  bool null() { return add(TextValue::Kind::kWord, "null"); }
  bool boolean(bool value) { return add(TextValue::Kind::kWord, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) { return add(TextValue::Kind::kNumber, fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) { return add(TextValue::Kind::kNumber, fmt::format("{}", value)); }
  bool number_float(number_float_t, const std::string& written) { return add(TextValue::Kind::kNumber, written); }
  bool string(std::string& value) { return add(TextValue::Kind::kText, value); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return open(TextValue::Kind::kMessage); }
  bool start_array(size_t) { return open(TextValue::Kind::kList); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    open_.back()->fields.push_back({name, {}, {}});
    return true;
  }
  bool parse_error(size_t position, const std::string& last_token, const nlohmann::json::exception& error);

  TextValue take() { return std::move(root_); }

 private:
  TextValue& slot() {
    if (open_.empty()) return root_;
    TextValue& parent = *open_.back();
    if (parent.kind == TextValue::Kind::kMessage) return parent.fields.back().value;
    return parent.items.emplace_back();
  }
  bool add(TextValue::Kind kind, std::string text) {
    TextValue& value = slot();
    value.kind = kind;
    value.text = std::move(text);
    if (value.text.find('\0') == std::string::npos) return true;
    diagnostics_.error({}, "a text contains a NUL character");
    return false;
  }
  bool open(TextValue::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      diagnostics_.error({}, fmt::format("nested more than {} levels deep", kMaxDepth));
      return false;
    }
    TextValue& value = slot();
    value.kind = kind;
    open_.push_back(&value);  // stays put: only the innermost open value grows
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  TextValue root_;
  std::vector<TextValue*> open_;
};

bool TreeBuilder::parse_error(size_t position, const std::string& last_token, const nlohmann::json::exception& error) {
  const JsonProblem problem = json_problem(text_, position, last_token, error.id);
  diagnostics_.error(problem.place, problem.message);
  return false;
}

}  // namespace

TextValue read_json_tree(std::string_view text, Diagnostics& diagnostics, bool& structure_ok) {
  TreeBuilder builder(text, diagnostics);
  structure_ok = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  TextValue root = builder.take();
  if (structure_ok && root.kind != TextValue::Kind::kMessage) {
    diagnostics.error({}, "the file must hold one JSON object { … }");
    structure_ok = false;
  }
  return root;
}

}  // namespace scalai::proto::internal
