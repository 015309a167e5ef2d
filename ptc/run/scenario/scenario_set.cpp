#include "ptc/run/scenario/scenario_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "ptc/base/diagnostics.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/source.h"
#include "ptc/proto/textproto.h"
#include "ptc/run/scenario/scenario.h"

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

// "a.b[2].c" in steps; an empty list when it is no path. After "set" the rest is one name, dots and all
// ("set.model.bert").
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

// Walks a path through messages and sets its end, and tells the source; the problem, or "".
class Setting {
 public:
  Setting(std::vector<Step> steps, std::string path, std::string value, std::string name, proto::Source& source)
      : steps_(std::move(steps)),
        path_(std::move(path)),
        value_(std::move(value)),
        name_(std::move(name)),
        source_(source) {}

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
      source_.replaced(path_, name_, false);
      return "";
    }
    if (std::string wrong = index_problem(*field, step, size); !wrong.empty()) return wrong;
    if (last && field->message_type() != nullptr) {
      return fmt::format("\"{}\" is a message; go on with one of its fields: {}", step.name,
                         fmt::join(names_of(*field->message_type()), ", "));
    }
    if (!last && field->message_type() == nullptr) return fmt::format("\"{}\" has no fields", step.name);
    if (!last) return apply(child(message, *field, step, size), at + 1);
    if (!Assign(message, *field, step.index.value_or(-1))(value_))
      return fmt::format("\"{}\" takes {}, found \"{}\"", step.name, type_of(*field), clipped_value());
    source_.replaced(path_, name_, true);
    return "";
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
    std::vector<std::optional<int>> from;
    bool placed = value_.empty();
    const auto place = [&] {
      kept.push_back(name + "=" + value_);
      from.emplace_back();
      placed = true;
    };
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      const std::string text = reflection->GetRepeatedString(message, &field, i);
      if (text.starts_with(name + "=")) {
        if (!placed) place();
        continue;
      }
      kept.push_back(text);
      from.emplace_back(i);
    }
    if (!placed) place();
    reflection->ClearField(&message, &field);
    for (const std::string& text : kept) reflection->AddString(&message, &field, text);
    source_.replaced_element(path_.substr(0, path_.size() - name.size() - 1), name_, from);
    return "";
  }

  std::vector<Step> steps_;
  std::string path_, value_, name_;  // name_: the setting in messages
  proto::Source& source_;
};

// Fields that exclude each other: a setting that chooses the first takes the others out, unless settings give them too.
constexpr std::pair<std::string_view, std::string_view> kExclusive[] = {
    {"policy.name", "policy.exec"},         {"policy.name", "policy.timeout"},
    {"policy.exec", "policy.name"},         {"policy.exec", "policy.set"},
    {"changes.preset", "changes.seconds"},  {"changes.preset", "changes.strategy"},
    {"changes.seconds", "changes.preset"},  {"changes.seconds", "changes.strategy"},
    {"changes.strategy", "changes.preset"}, {"changes.strategy", "changes.seconds"}};

// Applies settings in order; their problems become problems of the source.
class Settings {
 public:
  Settings(const std::vector<std::string>& settings, proto::Scenario& message, proto::Source& source)
      : settings_(settings), message_(message), source_(source) {}

  void apply() {
    std::map<std::string, std::string> seen;  // setting by path
    for (const std::string& setting : settings_) {
      const auto [at, fresh] = seen.emplace(setting.substr(0, setting.find('=')), setting);
      const std::string problem =
          fresh ? apply(setting, "--set=" + setting) : fmt::format("--set={} sets the same field", at->second);
      if (!problem.empty()) source_.error("", fmt::format("--set={}: {}", setting, problem));
    }
    for (const auto& [chosen, other] : kExclusive) {
      const std::optional<std::string> by = setting_at(chosen);
      if (by && !by->ends_with('=') && source_.given(std::string(other)) && !setting_at(other))
        apply(std::string(other) + "=", "--set=" + *by);
    }
  }

 private:
  std::string apply(const std::string& setting, const std::string& name) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) return "write it like --set=policy.name=srtf";
    const std::string path = setting.substr(0, equals);
    std::vector<Step> steps = steps_of(path);
    if (steps.empty()) return fmt::format("\"{}\" is no path; write it like cluster.hosts[0].count", path);
    return Setting(std::move(steps), path, setting.substr(equals + 1), name, source_).apply(message_);
  }

  // The last setting of the field, or of something inside it.
  std::optional<std::string> setting_at(std::string_view path) const {
    std::optional<std::string> found;
    for (const std::string& setting : settings_) {
      const std::string_view rest = std::string_view(setting).substr(std::min(path.size(), setting.size()));
      if (setting.starts_with(path) && (rest.starts_with('=') || rest.starts_with('.') || rest.starts_with('[')))
        found = setting;
    }
    return found;
  }

  const std::vector<std::string>& settings_;
  proto::Scenario& message_;
  proto::Source& source_;
};

}  // namespace

void apply_settings(const std::vector<std::string>& settings, proto::Scenario& message, proto::Source& source) {
  Settings(settings, message, source).apply();
}

absl::StatusOr<std::string> with_settings(const std::string& text, const std::string& file_name,
                                          const std::vector<std::string>& settings) {
  if (settings.empty()) return text;
  proto::Scenario message;
  proto::Source source(file_name, text);
  source.parse(text, message, kMaxFileBytes);
  apply_settings(settings, message, source);
  if (!source.empty()) return invalid(source.render());
  return proto::print_textproto(message);
}

Head head_of(const std::string& text, const std::string& file_name, const std::vector<std::string>& settings) {
  proto::Scenario message;
  proto::Source source(file_name, text);
  source.parse(text, message, kMaxFileBytes);
  apply_settings(settings, message, source);
  return {
      .name = message.name(), .seed = message.seed(), .many_jobs = message.has_workload() || message.has_recovery()};
}

}  // namespace scalai::scenario
