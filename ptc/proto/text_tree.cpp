#include <fmt/format.h>

#include "ptc/base/utf8.h"
#include "ptc/proto/internal/text_tokens.h"
#include "ptc/proto/internal/text_tree.h"

namespace scalai::proto::internal {
namespace {

class TreeReader {
 public:
  TreeReader(std::string_view text, Diagnostics& diagnostics)
      : tokenizer_(text, diagnostics), diagnostics_(diagnostics), token_(tokenizer_.next()) {}

  TextValue read() {
    TextValue root;
    root.kind = TextValue::Kind::kMessage;
    read_fields(root.fields, nullptr);
    return root;
  }
  bool structure_ok() const { return structure_ok_; }

 private:
  // What opened the block being read.
  struct Opening {
    SourcePlace place;
    std::string name;
    char close;
  };

  void step() { token_ = tokenizer_.next(); }
  bool at_end() const { return stopped_ || token_.kind == Token::Kind::kEnd; }
  bool accept(char symbol) {
    if (!token_.is(symbol)) return false;
    step();
    return true;
  }
  bool at_closer() const { return token_.is('}') || token_.is('>'); }
  std::string shown() const {
    return at_end() ? "the end of the file" : fmt::format("\"{}\"", clipped(token_.raw, 40));
  }

  void structural(SourcePlace place, std::string message, std::string hint = "") {
    structure_ok_ = false;
    diagnostics_.error(place, std::move(message), std::move(hint));
    if (diagnostics_.problems().size() >= kMaxProblems)
      stop(place, "too many problems; the rest of the file is not read");
  }
  void stop(SourcePlace place, std::string why) {
    if (!stopped_) diagnostics_.error(place, std::move(why));
    stopped_ = true;
    structure_ok_ = false;
  }

  void read_fields(std::vector<TextField>& fields, const Opening* opening);
  bool read_closer(const Opening* opening);
  void read_field(std::vector<TextField>& fields);
  TextValue read_value(const TextField& field, bool after_colon);
  TextValue read_message(SourcePlace place, const std::string& name);
  TextValue read_list(const TextField& field);
  TextValue read_scalar(const TextField& field);
  TextValue read_text();
  void skip_line();

  Tokenizer tokenizer_;
  Diagnostics& diagnostics_;
  Token token_;
  int depth_ = 0;
  bool structure_ok_ = true;
  bool stopped_ = false;
};

// Skips what is left of the line, and whole blocks that start on it.
void TreeReader::skip_line() {
  const int line = token_.place.line;
  int open = 0;
  while (!at_end() && (open > 0 || (token_.place.line == line && !at_closer()))) {
    if (token_.is('{') || token_.is('<') || token_.is('[')) ++open;
    if (open > 0 && (at_closer() || token_.is(']'))) --open;
    step();
  }
}

// True when the token ends the block that `opening` began.
bool TreeReader::read_closer(const Opening* opening) {
  if (opening == nullptr) {
    structural(token_.place, fmt::format("{} closes nothing", shown()), "remove it, or look for one too many above");
    step();
    return false;
  }
  if (!token_.is(opening->close)) {
    structural(token_.place,
               fmt::format("\"{}\" is closed with {}, expected \"{}\"", opening->name, shown(), opening->close));
  }
  step();
  return true;
}

void TreeReader::read_fields(std::vector<TextField>& fields, const Opening* opening) {
  while (!at_end()) {
    if (at_closer()) {
      if (read_closer(opening)) return;
    } else if (token_.kind == Token::Kind::kWord) {
      read_field(fields);
    } else {
      structural(token_.place, fmt::format("expected a field name, found {}", shown()));
      skip_line();
    }
  }
  if (opening != nullptr && !stopped_) {
    structural(opening->place, fmt::format("\"{}\" is never closed", opening->name),
               fmt::format("a \"{}\" is missing before the end of the file", opening->close));
  }
}

void TreeReader::read_field(std::vector<TextField>& fields) {
  TextField field;
  field.name = std::string(token_.raw);
  field.place = token_.place;
  step();
  const bool colon = accept(':');
  field.value = read_value(field, colon);
  if (!accept(',')) accept(';');
  fields.push_back(std::move(field));
}

TextValue TreeReader::read_value(const TextField& field, bool after_colon) {
  if (token_.is('{') || token_.is('<')) return read_message(field.place, field.name);
  if (token_.is('[')) return read_list(field);
  if (after_colon) return read_scalar(field);
  const bool same_line = token_.place.line == field.place.line && !at_end() && !at_closer();
  structural(same_line ? token_.place : field.place,
             same_line ? fmt::format("expected \":\" or \"{{\" after \"{}\", found {}", field.name, shown())
                       : fmt::format("\"{}\" has no value", field.name),
             fmt::format("write \"{0}: …\" or \"{0} {{ … }}\"", field.name));
  if (same_line) skip_line();
  return {};
}

TextValue TreeReader::read_message(SourcePlace place, const std::string& name) {
  TextValue value;
  value.kind = TextValue::Kind::kMessage;
  value.place = place;
  if (++depth_ > kMaxDepth) {
    stop(token_.place, fmt::format("nested more than {} levels deep", kMaxDepth));
    return value;
  }
  const Opening opening{place, name, token_.is('{') ? '}' : '>'};
  step();
  read_fields(value.fields, &opening);
  --depth_;
  return value;
}

TextValue TreeReader::read_list(const TextField& field) {
  TextValue list;
  list.kind = TextValue::Kind::kList;
  list.place = token_.place;
  step();
  if (accept(']')) return list;
  while (!at_end()) {
    const bool block = token_.is('{') || token_.is('<');
    const size_t problems = diagnostics_.problems().size();
    list.items.push_back(block ? read_message(token_.place, field.name) : read_scalar(field));
    if (accept(']') || stopped_) return list;
    if (accept(',')) continue;
    if (diagnostics_.problems().size() == problems) {
      structural(token_.place,
                 fmt::format("expected \",\" or \"]\" in the list of \"{}\", found {}", field.name, shown()));
    }
    skip_line();
    return list;
  }
  return list;
}

TextValue TreeReader::read_text() {
  TextValue value;
  value.kind = TextValue::Kind::kText;
  value.place = token_.place;
  bool broken = false;
  while (token_.kind == Token::Kind::kText) {
    if (token_.place.line == value.place.line) {
      value.place.length = token_.place.column + token_.place.length - value.place.column;
    }
    value.text += token_.decoded;
    broken = broken || token_.broken;
    step();
  }
  if (!broken && value.text.find('\0') != std::string::npos) {
    diagnostics_.error(value.place, "this text contains a NUL character");
    broken = true;
  }
  if (!broken && find_bad_utf8(value.text) != std::string_view::npos) {
    diagnostics_.error(value.place, "this text is not UTF-8 once its escapes are decoded");
    broken = true;
  }
  if (broken) value.kind = TextValue::Kind::kBroken;
  return value;
}

TextValue TreeReader::read_scalar(const TextField& field) {
  if (token_.kind == Token::Kind::kText) return read_text();
  TextValue value;
  value.place = token_.place;
  if (accept('-')) {
    value.text = "-";
    const bool adjacent = token_.place.line == value.place.line;
    if (adjacent) value.place.length = token_.place.column + token_.place.length - value.place.column;
  }
  const bool number = token_.kind == Token::Kind::kNumber;
  const bool next_field = token_.kind == Token::Kind::kWord && token_.place.line != field.place.line &&
                          (tokenizer_.peek() == ':' || tokenizer_.peek() == '{');
  if (next_field || at_end() || at_closer()) {
    structural(field.place, fmt::format("\"{}\" has no value", field.name));
    return {};
  }
  if (!number && token_.kind != Token::Kind::kWord) {
    structural(token_.place, fmt::format("expected a value for \"{}\", found {}", field.name, shown()));
    skip_line();
    return {};
  }
  value.kind = number ? TextValue::Kind::kNumber : TextValue::Kind::kWord;
  value.text += token_.raw;
  step();
  return value;
}

}  // namespace

size_t find_bad_utf8(std::string_view text) {
  for (const std::string_view character : characters(text)) {
    const bool bad = character.size() == 1 && static_cast<unsigned char>(character[0]) >= 0x80;
    if (bad) return static_cast<size_t>(character.data() - text.data());
  }
  return std::string_view::npos;
}

TextValue read_text_tree(std::string_view text, Diagnostics& diagnostics, bool& structure_ok) {
  TreeReader reader(text, diagnostics);
  TextValue root = reader.read();
  structure_ok = reader.structure_ok();
  return root;
}

}  // namespace scalai::proto::internal
