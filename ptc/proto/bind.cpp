#include "ptc/proto/internal/bind.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "ptc/base/utf8.h"

namespace scalai::proto::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Kind = TextValue::Kind;

struct Integer {
  bool negative = false;
  uint64_t magnitude = 0;
};

// A whole number as the text format writes it: decimal, 0x… or, with a leading 0, octal. Too many digits: nothing in
// `value`; `is_integer` tells this from what is no whole number at all.
std::optional<Integer> parse_integer(std::string_view text, bool& is_integer) {
  Integer value;
  value.negative = text.starts_with('-');
  if (value.negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value.magnitude, base);
  is_integer = !text.empty() && rest == end && error != std::errc::invalid_argument;
  if (!is_integer || error != std::errc{}) return std::nullopt;
  return value;
}

bool is_oneof_member(const FieldDescriptor& field) { return field.real_containing_oneof() != nullptr; }

std::string found(const TextValue& value) {
  switch (value.kind) {
    case Kind::kText: return fmt::format("the text \"{}\"", clipped(value.text, 40));
    case Kind::kMessage: return "a block { … }";
    case Kind::kList: return "a list";
    default: return clipped(value.text, 40);
  }
}

std::string expected(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64: return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64: return "a whole number >= 0";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: return "a number";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "a text in quotes";
    case FieldDescriptor::CPPTYPE_MESSAGE: return "a block { … }";
    case FieldDescriptor::CPPTYPE_ENUM: break;
  }
  std::string names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names += fmt::format("{}{}", i == 0 ? "one of " : ", ", field.enum_type()->value(i)->name());
  }
  return names;
}

// How to write a value of the right content and the wrong type.
std::string type_hint(const FieldDescriptor& field, const TextValue& value) {
  const bool plain = value.kind == Kind::kNumber || value.kind == Kind::kWord;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && plain) {
    return fmt::format("write it in quotes: \"{}\"", clipped(value.text, 40));
  }
  bool is_integer = false;
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING && value.kind == Kind::kText &&
      parse_integer(value.text, is_integer).has_value()) {
    return fmt::format("write it without quotes: {}", value.text);
  }
  return "";
}

class Binder {
 public:
  Binder(const BindOptions& options, Diagnostics& diagnostics, Places& places)
      : options_(options), diagnostics_(diagnostics), places_(places) {}

  void bind_root(const TextValue& root, Message& message) {
    bind_fields(root.fields, message, "");
    // So that nobody calls missing what was misspelt.
    for (const std::string& path : misspelled_) {
      if (!places_.has(path)) places_.set_broken(path);
    }
  }

 private:
  using Seen = std::map<const void*, const TextField*>;  // by field or oneof
  struct Target {
    Message& message;
    const FieldDescriptor& field;
    std::string path;
  };

  void bind_fields(const std::vector<TextField>& fields, Message& message, const std::string& path);
  void problem(const std::string& path, Diagnostic diagnostic);
  SourcePlace placed(SourcePlace place) const { return options_.json ? SourcePlace{} : place; }
  const FieldDescriptor* find(const Descriptor& type, const TextField& field, const std::string& path);
  bool is_repeat(const FieldDescriptor& field, const TextField& source, const std::string& path, Seen& seen);
  void bind_repeated(const TextField& source, Target target);
  void bind_value(const TextValue& value, const Target& target);
  bool set(const TextValue& value, const Target& target);
  bool set_integer(const TextValue& value, const Target& target);
  bool set_number(const TextValue& value, const Target& target);
  bool set_bool(const TextValue& value, const Target& target);
  bool set_enum(const TextValue& value, const Target& target);
  bool wrong_type(const TextValue& value, const Target& target);

  const BindOptions options_;
  Diagnostics& diagnostics_;
  Places& places_;
  std::vector<std::string> misspelled_;  // paths of the fields that were probably meant
};

void Binder::problem(const std::string& path, Diagnostic diagnostic) {
  if (diagnostics_.problems().size() >= kMaxProblems) return;
  if (options_.json) diagnostic.message = fmt::format("{}: {}", pointer_of(path), diagnostic.message);
  diagnostics_.error(std::move(diagnostic));
}

const FieldDescriptor* find_field(const Descriptor& type, const std::string& name, bool json) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field != nullptr || !json) return field;
  return type.FindFieldByCamelcaseName(name);
}

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

const FieldDescriptor* Binder::find(const Descriptor& type, const TextField& source, const std::string& path) {
  if (const FieldDescriptor* field = find_field(type, source.name, options_.json)) return field;
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
    list += (i == 0 ? "" : ", ") + names.back();
  }
  const std::string near = closest(source.name, names);
  if (!near.empty()) misspelled_.push_back(join(path, near));
  const std::string where = path.empty() ? "" : fmt::format(" in \"{}\"", path.substr(path.rfind('.') + 1));
  problem(join(path, source.name),
          {placed(source.place),
           fmt::format("unknown field \"{}\"{}", clipped(source.name, 40), where),
           near.empty() ? "the fields here are " + list : fmt::format("did you mean \"{}\"?", near),
           {}});
  return nullptr;
}

// Whether a singular field, or another member of its oneof, was there before.
bool Binder::is_repeat(const FieldDescriptor& field, const TextField& source, const std::string& path, Seen& seen) {
  const void* key = is_oneof_member(field) ? static_cast<const void*>(field.containing_oneof()) : &field;
  const auto [before, fresh] = seen.emplace(key, &source);
  if (fresh) return false;
  const TextField& first = *before->second;
  const std::string message = first.name == source.name
                                  ? fmt::format("\"{}\" is given twice", source.name)
                                  : fmt::format("\"{}\" and \"{}\" exclude each other", first.name, source.name);
  Diagnostic diagnostic{placed(source.place), message, "", {}};
  if (!options_.json) diagnostic.notes.emplace_back(first.place, "the first is here");
  problem(path, std::move(diagnostic));
  places_.set_broken(path);
  return true;
}

void Binder::bind_fields(const std::vector<TextField>& fields, Message& message, const std::string& path) {
  Seen seen;
  for (const TextField& source : fields) {
    const FieldDescriptor* field = find(*message.GetDescriptor(), source, path);
    if (field == nullptr) continue;
    if (options_.json && source.value.kind == Kind::kWord && source.value.text == "null") continue;
    const Target target{message, *field, join(path, field->name())};
    if (field->is_repeated()) {
      bind_repeated(source, target);
    } else if (!is_repeat(*field, source, target.path, seen)) {
      places_.set(target.path, placed(field->message_type() != nullptr ? source.place : source.value.place));
      bind_value(source.value, target);
    }
  }
}

void Binder::bind_repeated(const TextField& source, Target target) {
  const std::string all = target.path;
  const bool list = source.value.kind == Kind::kList;
  if (!places_.has(all)) places_.set(all, placed(list ? source.place : source.value.place));
  const auto bind_one = [&](const TextValue& value) {
    target.path = fmt::format("{}[{}]", all, target.message.GetReflection()->FieldSize(target.message, &target.field));
    const bool block = !list && target.field.message_type() != nullptr;
    places_.set(target.path, placed(block ? source.place : value.place));
    bind_value(value, target);
  };
  if (!list && options_.json) {
    problem(all,
            {SourcePlace{}, fmt::format("\"{}\" takes a list, found {}", source.name, found(source.value)), "", {}});
    places_.set_broken(all);
  } else if (list) {
    for (const TextValue& item : source.value.items) bind_one(item);
  } else {
    bind_one(source.value);
  }
}

void Binder::bind_value(const TextValue& value, const Target& target) {
  if (value.kind != Kind::kBroken && set(value, target)) return;
  // A scalar that is left out shifts the indices of its list, so nothing can be said about the whole list.
  places_.set_broken(target.field.is_repeated() ? target.path.substr(0, target.path.rfind('[')) : target.path);
}

bool Binder::wrong_type(const TextValue& value, const Target& target) {
  std::string hint = type_hint(target.field, value);
  if (value.kind == Kind::kList && !target.field.is_repeated()) hint = "it takes one value, not a list";
  problem(target.path,
          {placed(value.place),
           fmt::format("\"{}\" takes {}, found {}", target.field.name(), expected(target.field), found(value)),
           hint,
           {}});
  return false;
}

bool Binder::set(const TextValue& value, const Target& target) {
  const auto* reflection = target.message.GetReflection();
  switch (target.field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (value.kind != Kind::kMessage) return wrong_type(value, target);
      Message* child = target.field.is_repeated() ? reflection->AddMessage(&target.message, &target.field)
                                                  : reflection->MutableMessage(&target.message, &target.field);
      bind_fields(value.fields, *child, target.path);
      return true;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (value.kind != Kind::kText) return wrong_type(value, target);
      if (target.field.is_repeated())
        reflection->AddString(&target.message, &target.field, value.text);
      else
        reflection->SetString(&target.message, &target.field, value.text);
      return true;
    case FieldDescriptor::CPPTYPE_BOOL: return set_bool(value, target);
    case FieldDescriptor::CPPTYPE_ENUM: return set_enum(value, target);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: return set_number(value, target);
    default: return set_integer(value, target);
  }
}

struct IntegerRange {
  int bits;
  bool is_signed;
  uint64_t highest() const {
    const uint64_t all = std::numeric_limits<uint64_t>::max() >> (64 - bits);
    return is_signed ? all >> 1 : all;
  }
  bool holds(const Integer& value) const {
    if (!value.negative) return value.magnitude <= highest();
    return is_signed ? value.magnitude <= highest() + 1 : value.magnitude == 0;
  }
};

bool Binder::set_integer(const TextValue& value, const Target& target) {
  const auto type = target.field.cpp_type();
  const IntegerRange range{type == FieldDescriptor::CPPTYPE_INT32 || type == FieldDescriptor::CPPTYPE_UINT32 ? 32 : 64,
                           type == FieldDescriptor::CPPTYPE_INT32 || type == FieldDescriptor::CPPTYPE_INT64};
  // JSON writers quote 64-bit numbers, because many readers keep only 53 bits.
  const bool quoted = options_.json && range.bits == 64 && value.kind == Kind::kText;
  bool is_integer = false;
  std::optional<Integer> integer;
  if (value.kind == Kind::kNumber || quoted) integer = parse_integer(value.text, is_integer);
  if (!is_integer) return wrong_type(value, target);
  if (!integer.has_value() || !range.holds(*integer)) {
    const std::string lowest = range.is_signed ? fmt::format("-{}", range.highest() + 1) : "0";
    problem(target.path, {placed(value.place),
                          fmt::format("{} does not fit \"{}\"", clipped(value.text, 40), target.field.name()),
                          fmt::format("it takes {} to {}", lowest, range.highest()),
                          {}});
    return false;
  }
  const uint64_t bits = integer->negative ? 0 - integer->magnitude : integer->magnitude;
  const auto* reflection = target.message.GetReflection();
  const auto put = [&](auto number, auto add, auto assign) {
    if (target.field.is_repeated())
      (reflection->*add)(&target.message, &target.field, number);
    else
      (reflection->*assign)(&target.message, &target.field, number);
  };
  using google::protobuf::Reflection;
  switch (type) {
    case FieldDescriptor::CPPTYPE_INT32:
      put(static_cast<int32_t>(bits), &Reflection::AddInt32, &Reflection::SetInt32);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      put(static_cast<int64_t>(bits), &Reflection::AddInt64, &Reflection::SetInt64);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      put(static_cast<uint32_t>(bits), &Reflection::AddUInt32, &Reflection::SetUInt32);
      break;
    default: put(bits, &Reflection::AddUInt64, &Reflection::SetUInt64); break;
  }
  return true;
}

// Decimal, with the text format's optional "f" at the end; infinity when it is too large or too small for a double.
// With a leading 0 a number is octal, and whole.
std::optional<double> parse_number(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') return std::nullopt;
  if (text.ends_with('f') || text.ends_with('F')) text.remove_suffix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  // Out of range: infinity, or what is nearest to 0.
  return error == std::errc{} ? number : std::strtod(std::string(text).c_str(), nullptr);
}

bool Binder::set_number(const TextValue& value, const Target& target) {
  std::string_view word = value.text;
  if (word.starts_with('-')) word.remove_prefix(1);
  const bool special = value.kind == Kind::kWord && (word == "inf" || word == "infinity" || word == "nan");
  std::optional<double> number;
  if (value.kind == Kind::kNumber) number = parse_number(value.text);
  const bool is_float = target.field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
  const double most =
      is_float ? static_cast<double>(std::numeric_limits<float>::max()) : std::numeric_limits<double>::max();
  if (special || (number.has_value() && !(std::fabs(*number) <= most))) {
    problem(target.path, {placed(value.place),
                          fmt::format("{} is not a finite number that \"{}\" can hold", clipped(value.text, 40),
                                      target.field.name()),
                          "",
                          {}});
    return false;
  }
  if (!number.has_value()) return wrong_type(value, target);
  const auto* reflection = target.message.GetReflection();
  const bool repeated = target.field.is_repeated();
  if (is_float && repeated)
    reflection->AddFloat(&target.message, &target.field, static_cast<float>(*number));
  else if (is_float)
    reflection->SetFloat(&target.message, &target.field, static_cast<float>(*number));
  else if (repeated)
    reflection->AddDouble(&target.message, &target.field, *number);
  else
    reflection->SetDouble(&target.message, &target.field, *number);
  return true;
}

bool Binder::set_bool(const TextValue& value, const Target& target) {
  const bool scalar = value.kind == Kind::kWord || (value.kind == Kind::kNumber && !options_.json);
  const std::string& text = value.text;
  const bool yes = scalar && (text == "true" || text == "True" || text == "t" || text == "1");
  const bool no = scalar && (text == "false" || text == "False" || text == "f" || text == "0");
  if (!yes && !no) return wrong_type(value, target);
  const auto* reflection = target.message.GetReflection();
  if (target.field.is_repeated())
    reflection->AddBool(&target.message, &target.field, yes);
  else
    reflection->SetBool(&target.message, &target.field, yes);
  return true;
}

bool Binder::set_enum(const TextValue& value, const Target& target) {
  const auto& type = *target.field.enum_type();
  const EnumValueDescriptor* choice = nullptr;
  if (value.kind == (options_.json ? Kind::kText : Kind::kWord)) choice = type.FindValueByName(value.text);
  int number = 0;
  const char* end = value.text.data() + value.text.size();
  if (value.kind == Kind::kNumber && std::from_chars(value.text.data(), end, number).ptr == end) {
    choice = type.FindValueByNumber(number);
  }
  if (choice == nullptr) {
    std::vector<std::string> names;
    for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
    std::string upper = value.text;
    for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c == '-' ? '_' : c);
    const std::string near = closest(upper, names);
    problem(target.path,
            {placed(value.place),
             fmt::format("\"{}\" takes {}, found {}", target.field.name(), expected(target.field), found(value)),
             near.empty() ? "" : fmt::format("did you mean {}?", near),
             {}});
    return false;
  }
  const auto* reflection = target.message.GetReflection();
  if (target.field.is_repeated())
    reflection->AddEnum(&target.message, &target.field, choice);
  else
    reflection->SetEnum(&target.message, &target.field, choice);
  return true;
}

}  // namespace

void bind(const TextValue& root, Message& message, const BindOptions& options, Diagnostics& diagnostics,
          Places& places) {
  Binder(options, diagnostics, places).bind_root(root, message);
}

}  // namespace scalai::proto::internal
