#include "ptc/scenario/scenario_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "ptc/base/diagnostics.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/source.h"
#include "ptc/proto/textproto.h"

namespace scalai::scenario {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// One name of a path, with its index: "hosts[0]".
struct Step {
  std::string name;
  std::optional<int> index;
};

// "a.b[2].c" in steps; an empty list when it is no path. After "set" the rest is one name, dots and all ("set.model.bert").
std::vector<Step> steps_of(std::string_view path) {
  std::vector<Step> steps;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    std::string_view word = path.substr(0, dot);
    if (dot != std::string_view::npos && dot + 1 == path.size()) return {};
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
    Step step;
    if (const size_t open = word.find('['); open != std::string_view::npos) {
      if (!word.ends_with(']')) return {};
      const auto index = parse_count(word.substr(open + 1, word.size() - open - 2));
      if (!index.ok() || *index > 1'000'000) return {};
      step.index = static_cast<int>(*index);
      word = word.substr(0, open);
    }
    if (word.empty()) return {};
    step.name = std::string(word);
    const bool named = step.name == "set" && !step.index && !path.empty();
    steps.push_back(std::move(step));
    if (!named) continue;
    steps.push_back({.name = std::string(path), .index = {}});
    break;
  }
  return steps;
}

std::vector<std::string> names_of(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string type_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: return "a message";
    case FieldDescriptor::CPPTYPE_STRING: return "a text";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: return "a number";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field.enum_type()->value_count(); ++i) names.push_back(field.enum_type()->value(i)->name());
      return fmt::format("one of {}", fmt::join(names, ", "));
    }
    default: return "a whole number";
  }
}

template <class T>
bool whole_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

// Puts `text` at an element (index >= 0) or at the singular field. False: it is not of the field's type.
class Assign {
 public:
  Assign(Message& message, const FieldDescriptor& field, int index) : message_(message), field_(field), index_(index) {}

  bool operator()(const std::string& text) {
    using google::protobuf::Reflection;
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: return put_text(text);
      case FieldDescriptor::CPPTYPE_BOOL:
        if (text != "true" && text != "false") return false;
        return put(text == "true", &Reflection::AddBool, &Reflection::SetRepeatedBool, &Reflection::SetBool);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* value = field_.enum_type()->FindValueByName(text);
        if (value == nullptr) return false;
        return put(value, &Reflection::AddEnum, &Reflection::SetRepeatedEnum, &Reflection::SetEnum);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double number = 0;
        if (!whole_number(text, number) || !std::isfinite(number)) return false;
        return put(number, &Reflection::AddDouble, &Reflection::SetRepeatedDouble, &Reflection::SetDouble);
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        int32_t number = 0;
        return whole_number(text, number) &&
               put(number, &Reflection::AddInt32, &Reflection::SetRepeatedInt32, &Reflection::SetInt32);
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t number = 0;
        return whole_number(text, number) &&
               put(number, &Reflection::AddInt64, &Reflection::SetRepeatedInt64, &Reflection::SetInt64);
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        uint64_t number = 0;
        return whole_number(text, number) &&
               put(number, &Reflection::AddUInt64, &Reflection::SetRepeatedUInt64, &Reflection::SetUInt64);
      }
      default: return false;  // the schemas have no others
    }
  }

 private:
  template <class T, class Add, class SetOne, class Set>
  bool put(T value, Add add, SetOne set_one, Set set) {
    const auto* reflection = message_.GetReflection();
    if (index_ < 0)
      (reflection->*set)(&message_, &field_, value);
    else if (index_ == reflection->FieldSize(message_, &field_))
      (reflection->*add)(&message_, &field_, value);
    else
      (reflection->*set_one)(&message_, &field_, index_, value);
    return true;
  }
  // Not through put(): the setters take texts by value in some versions of protobuf, by reference in others.
  bool put_text(const std::string& text) {
    const auto* reflection = message_.GetReflection();
    if (index_ < 0)
      reflection->SetString(&message_, &field_, text);
    else if (index_ == reflection->FieldSize(message_, &field_))
      reflection->AddString(&message_, &field_, text);
    else
      reflection->SetRepeatedString(&message_, &field_, index_, text);
    return true;
  }

  Message& message_;
  const FieldDescriptor& field_;
  int index_;
};

// Walks a path through messages and sets its end; the problem, or "".
class Setting {
 public:
  Setting(std::vector<Step> steps, std::string value) : steps_(std::move(steps)), value_(std::move(value)) {}

  std::string apply(Message& message, size_t at = 0) {
    const Descriptor& type = *message.GetDescriptor();
    const Step& step = steps_[at];
    const FieldDescriptor* field = type.FindFieldByName(step.name);
    if (field == nullptr) return unknown(type, at);
    const bool last = at + 1 == steps_.size();
    const int size = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 0;
    if (!last && is_named_texts(*field) && !step.index && at + 2 == steps_.size() && !steps_[at + 1].index) {
      return set_named(message, *field, steps_[at + 1].name);
    }
    if (last && value_.empty() && !step.index) {
      message.GetReflection()->ClearField(&message, field);
      return "";
    }
    if (std::string wrong = index_problem(*field, step, size); !wrong.empty()) return wrong;
    if (last && field->message_type() != nullptr) {
      return fmt::format("\"{}\" is a message; go on with one of its fields: {}", step.name,
                         fmt::join(names_of(*field->message_type()), ", "));
    }
    if (!last && field->message_type() == nullptr) return fmt::format("\"{}\" has no fields", step.name);
    if (!last) return apply(child(message, *field, step, size), at + 1);
    if (Assign(message, *field, step.index.value_or(-1))(value_)) return "";
    return fmt::format("\"{}\" takes {}, found \"{}\"", step.name, type_of(*field), clipped_value());
  }

 private:
  // Lists of "name=value" texts are called "set" throughout.
  static bool is_named_texts(const FieldDescriptor& field) {
    return field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && field.name() == "set";
  }

  std::string clipped_value() const { return value_.size() <= 60 ? value_ : value_.substr(0, 57) + "..."; }

  std::string unknown(const Descriptor& type, size_t at) const {
    const std::vector<std::string> names = names_of(type);
    const std::string near = closest(steps_[at].name, names);
    const std::string where = at == 0 ? "a scenario" : fmt::format("\"{}\"", steps_[at - 1].name);
    return fmt::format("{} has no field \"{}\"; {}", where, steps_[at].name,
                       near.empty() ? fmt::format("its fields are {}", fmt::join(names, ", "))
                                    : fmt::format("did you mean \"{}\"?", near));
  }

  static std::string index_problem(const FieldDescriptor& field, const Step& step, int size) {
    if (!field.is_repeated()) return step.index ? fmt::format("\"{}\" is not a list", step.name) : "";
    if (!step.index) return fmt::format("\"{}\" is a list: say which element, as in {}[0]", step.name, step.name);
    if (*step.index <= size) return "";
    return fmt::format("{}[{}] is beyond the list, which has {} {}", step.name, *step.index, size,
                       size == 1 ? "element" : "elements");
  }

  static Message& child(Message& message, const FieldDescriptor& field, const Step& step, int size) {
    const auto* reflection = message.GetReflection();
    if (!field.is_repeated()) return *reflection->MutableMessage(&message, &field);
    if (*step.index == size) return *reflection->AddMessage(&message, &field);
    return *reflection->MutableRepeatedMessage(&message, &field, *step.index);
  }

  // Replaces all texts that begin with "name=" by one, at the first one's place; a value of "" only takes them away.
  std::string set_named(Message& message, const FieldDescriptor& field, const std::string& name) {
    const auto* reflection = message.GetReflection();
    std::vector<std::string> kept;
    bool placed = value_.empty();
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      const std::string text = reflection->GetRepeatedString(message, &field, i);
      if (!text.starts_with(name + "=")) {
        kept.push_back(text);
      } else if (!placed) {
        kept.push_back(name + "=" + value_);
        placed = true;
      }
    }
    if (!placed) kept.push_back(name + "=" + value_);
    reflection->ClearField(&message, &field);
    for (const std::string& text : kept) reflection->AddString(&message, &field, text);
    return "";
  }

  std::vector<Step> steps_;
  std::string value_;
};

std::string apply(const std::string& setting, proto::Scenario& message) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) return "write it like --set=policy.name=srtf";
  std::vector<Step> steps = steps_of(std::string_view(setting).substr(0, equals));
  if (steps.empty())
    return fmt::format("\"{}\" is no path; write it like cluster.hosts[0].count", setting.substr(0, equals));
  return Setting(std::move(steps), setting.substr(equals + 1)).apply(message);
}

}  // namespace

absl::StatusOr<std::string> with_settings(const std::string& text, const std::string& file_name,
                                          const std::vector<std::string>& settings) {
  if (settings.empty()) return text;
  proto::Scenario message;
  proto::Source source(file_name, text);
  source.parse(text, message, kMaxFileBytes);
  if (!source.empty()) return invalid(source.render());
  std::string problems;
  for (const std::string& setting : settings) {
    const std::string problem = apply(setting, message);
    if (!problem.empty()) problems += fmt::format("{}--set={}: {}", problems.empty() ? "" : "\n", setting, problem);
  }
  if (!problems.empty()) return invalid(problems);
  return proto::print_textproto(message);
}

std::string settings_file_name(const std::string& file_name, const std::vector<std::string>& settings) {
  return settings.empty() ? file_name : file_name + " (with --set)";
}

absl::StatusOr<Scenario> load_scenario_with(const std::string& path, const std::vector<std::string>& settings,
                                            const std::string& cluster_file,
                                            const std::optional<model::Fraction>& scale_model) {
  if (settings.empty()) return load_scenario(path, cluster_file, scale_model);
  const FileReader read = [](const std::string& name) { return read_file(name, kMaxFileBytes); };
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read(path));
  SCALAI_ASSIGN_OR_RETURN(const std::string changed, with_settings(text, path, settings));
  auto scenario = parse_scenario(changed, settings_file_name(path, settings), read, cluster_file, scale_model);
  if (scenario.ok()) scenario->expectations.clear();
  return scenario;
}

bool is_cluster_scenario(const std::string& text, const std::string& file_name) {
  proto::Scenario message;
  proto::Source source(file_name, text);
  source.parse(text, message, kMaxFileBytes);
  return message.has_workload() || message.has_recovery();
}

}  // namespace scalai::scenario
