#include "apps/schema/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "apps/schema/internal/descriptors.h"
#include "apps/schema/internal/texts.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

namespace pb = google::protobuf;

const pb::FileDescriptor& file_of(SchemaOf what) {
  static const pb::DescriptorPool* const kPool = [] {
    auto* const pool = new pb::DescriptorPool;  // lives as long as the program
    pb::FileDescriptorSet files;
    const std::string_view bytes = scenario_descriptors();
    SCALAI_CHECK(files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "the built-in schema is whole");
    for (const pb::FileDescriptorProto& file : files.file()) SCALAI_CHECK(pool->BuildFile(file) != nullptr);
    return pool;
  }();
  const bool scenario = what == SchemaOf::kScenario;
  const pb::FileDescriptor* file =
      kPool->FindFileByName(scenario ? "ptc/proto/scenario.proto" : "ptc/proto/cluster.proto");
  SCALAI_CHECK(file != nullptr);
  return *file;
}

// What a reader calls a type.
std::string single_type(const pb::FieldDescriptor& field) {
  using Type = pb::FieldDescriptor;
  switch (field.cpp_type()) {
    case Type::CPPTYPE_MESSAGE: return std::string(field.message_type()->name());
    case Type::CPPTYPE_STRING: return "text";
    case Type::CPPTYPE_BOOL: return "true or false";
    case Type::CPPTYPE_DOUBLE:
    case Type::CPPTYPE_FLOAT: return "number";
    case Type::CPPTYPE_ENUM: {
      std::vector<std::string> values;
      for (int i = 0; i < field.enum_type()->value_count(); ++i)
        values.emplace_back(field.enum_type()->value(i)->name());
      return fmt::format("one of {}", fmt::join(values, ", "));
    }
    default: return "integer";
  }
}

// Words in lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> lines_of(const std::string& words, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    begin = end + 1;
  }
  return lines;
}

class TextWriter {
 public:
  explicit TextWriter(size_t width) : width_(width) {}

  void write(const pb::Descriptor& message, size_t depth) {
    known_.insert(&message);
    for (int i = 0; i < message.field_count(); ++i) {
      const pb::FieldDescriptor& field = *message.field(i);
      const size_t indent = 2 * depth, inner = indent + 4;
      std::string begin(indent, ' ');
      for (const std::string& line : lines_of(fmt::format("{}: {}", field.name(), type_of(field)), width_ - inner)) {
        text_ += begin + line + '\n';
        begin = std::string(inner, ' ');
      }
      if (const std::string comment = comment_of(field); !comment.empty()) {
        for (const std::string& line : lines_of(comment, width_ - inner - 2))
          text_ += fmt::format("{:{}}# {}\n", "", inner, line);
      }
      const pb::Descriptor* child = field.message_type();
      if (child != nullptr && !known_.contains(child)) write(*child, depth + 1);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  size_t width_;
  std::set<const pb::Descriptor*> known_;
  std::string text_;
};

// Calls `visit(path, field)` for all fields of a scenario, parents first. A message inside itself is not entered again.
void for_each_field(const std::function<void(const std::string&, const pb::FieldDescriptor&)>& visit) {
  std::vector<const pb::Descriptor*> open;
  const std::function<void(const pb::Descriptor&, const std::string&)> enter = [&](const pb::Descriptor& message,
                                                                                   const std::string& prefix) {
    if (std::find(open.begin(), open.end(), &message) != open.end()) return;
    open.push_back(&message);
    for (int i = 0; i < message.field_count(); ++i) {
      const pb::FieldDescriptor& field = *message.field(i);
      const std::string path = prefix + std::string(field.name());
      visit(path, field);
      if (field.message_type() != nullptr) enter(*field.message_type(), path + ".");
    }
    open.pop_back();
  };
  enter(descriptor_of(SchemaOf::kScenario), "");
}

std::vector<std::string> fields_of(const pb::Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.emplace_back(message.field(i)->name());
  return names;
}

}  // namespace

const pb::Descriptor& descriptor_of(SchemaOf what) {
  const pb::Descriptor* found =
      file_of(what).FindMessageTypeByName(what == SchemaOf::kScenario ? "Scenario" : "Cluster");
  SCALAI_CHECK(found != nullptr);
  return *found;
}

std::string type_of(const pb::FieldDescriptor& field) {
  return field.is_repeated() ? "list of " + single_type(field) : single_type(field);
}

std::string schema_text(SchemaOf what, int width) {
  TextWriter writer(static_cast<size_t>(std::max(40, width)));
  writer.write(descriptor_of(what), 0);
  return writer.take();
}

std::string schema_proto(SchemaOf what) {
  std::string text(built_in_text("ptc/proto/cluster.proto"));
  if (what == SchemaOf::kCluster) return text;
  for (const char* file : {"ptc/proto/sched.proto", "ptc/proto/scenario.proto"})
    text += fmt::format("\n// ---- {} ----\n{}", file, built_in_text(file));
  return text;
}

std::optional<FieldHelp> field_help(const std::string& path) {
  std::string plain;  // without indices
  bool index = false;
  for (const char c : path) {
    if (c == '[') index = true;
    if (!index) plain += c;
    if (c == ']') index = false;
  }
  if (plain.empty()) {
    const pb::Descriptor& scenario = descriptor_of(SchemaOf::kScenario);
    return FieldHelp{"", "Scenario", comment_of(scenario), "ptc/proto/scenario.proto", fields_of(scenario)};
  }
  std::optional<FieldHelp> found;
  for_each_field([&](const std::string& known, const pb::FieldDescriptor& field) {
    if (found || known != plain) return;
    pb::SourceLocation location;
    const int line = field.GetSourceLocation(&location) ? location.start_line + 1 : 0;
    found = FieldHelp{known, type_of(field), comment_of(field), fmt::format("{}:{}", field.file()->name(), line), {}};
    if (field.message_type() != nullptr) found->fields = fields_of(*field.message_type());
  });
  return found;
}

std::vector<FieldHelp> fields_with_value(const std::string& word) {
  std::vector<FieldHelp> found;
  for_each_field([&](const std::string& path, const pb::FieldDescriptor& field) {
    if (field.enum_type() == nullptr) return;
    const pb::EnumValueDescriptor* value = field.enum_type()->FindValueByName(word);
    if (value == nullptr) return;
    pb::SourceLocation location;
    const int line = value->GetSourceLocation(&location) ? location.start_line + 1 : 0;
    found.push_back({path, type_of(field), comment_of(*value), fmt::format("{}:{}", field.file()->name(), line), {}});
  });
  return found;
}

std::vector<std::string> paths_of(const std::string& end) {
  std::vector<std::string> paths;
  for_each_field([&](const std::string& path, const pb::FieldDescriptor&) {
    if (path == end || path.ends_with("." + end)) paths.push_back(path);
  });
  std::stable_sort(paths.begin(), paths.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  return paths;
}

std::vector<std::string> field_names() {
  std::set<std::string> names;
  for_each_field([&](const std::string&, const pb::FieldDescriptor& field) { names.emplace(field.name()); });
  return {names.begin(), names.end()};
}

}  // namespace scalai::apps
