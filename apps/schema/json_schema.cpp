#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <set>

#include "apps/schema/internal/descriptors.h"
#include "apps/schema/schema.h"
#include "ptc/base/json.h"

namespace scalai::apps {
namespace {

namespace pb = google::protobuf;
using nlohmann::ordered_json;

class JsonWriter {
 public:
  ordered_json definitions() { return std::move(definitions_); }

  ordered_json reference(const pb::Descriptor& message) {
    const auto name = std::string(std::string_view(message.name()));
    if (known_.insert(name).second) definitions_[name] = object(message);
    return {{"$ref", "#/$defs/" + name}};
  }

 private:
  ordered_json object(const pb::Descriptor& message) {
    ordered_json out = {{"type", "object"}};
    if (const std::string comment = comment_of(message); !comment.empty()) out["description"] = comment;
    ordered_json properties = ordered_json::object();
    for (int i = 0; i < message.field_count(); ++i)
      properties[std::string(message.field(i)->name())] = of(*message.field(i));
    out["properties"] = std::move(properties);
    out["additionalProperties"] = false;
    for (int i = 0; i < message.real_oneof_decl_count(); ++i) exclude(*message.oneof_decl(i), out["allOf"]);
    return out;
  }

  // At most one of them.
  static void exclude(const pb::OneofDescriptor& one, ordered_json& rules) {
    for (int a = 0; a < one.field_count(); ++a) {
      for (int b = a + 1; b < one.field_count(); ++b) {
        const ordered_json both = {std::string(one.field(a)->name()), std::string(one.field(b)->name())};
        rules.push_back({{"not", {{"required", both}}}});
      }
    }
  }

  ordered_json of(const pb::FieldDescriptor& field) {
    ordered_json one = single(field);
    ordered_json out;
    if (field.is_repeated()) {
      out = {{"type", "array"}, {"items", std::move(one)}};
    } else {
      out = std::move(one);
    }
    if (const std::string comment = comment_of(field); !comment.empty()) out["description"] = comment;
    return out;
  }

  ordered_json single(const pb::FieldDescriptor& field) {
    using Type = pb::FieldDescriptor;
    switch (field.cpp_type()) {
      case Type::CPPTYPE_MESSAGE: return reference(*field.message_type());
      case Type::CPPTYPE_STRING: return {{"type", "string"}};
      case Type::CPPTYPE_BOOL: return {{"type", "boolean"}};
      case Type::CPPTYPE_DOUBLE:
      case Type::CPPTYPE_FLOAT: return {{"type", "number"}};
      case Type::CPPTYPE_UINT32:
      case Type::CPPTYPE_UINT64: return {{"type", "integer"}, {"minimum", 0}};
      case Type::CPPTYPE_ENUM: {
        ordered_json values = ordered_json::array();
        for (int i = 0; i < field.enum_type()->value_count(); ++i)
          values.push_back(std::string(field.enum_type()->value(i)->name()));
        return {{"enum", std::move(values)}};
      }
      default: return {{"type", "integer"}};
    }
  }

  std::set<std::string> known_;
  ordered_json definitions_ = ordered_json::object();
};

}  // namespace

std::string json_schema(SchemaOf what) {
  const bool scenario = what == SchemaOf::kScenario;
  ordered_json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", scenario ? "Scalai scenario" : "Scalai cluster"}};
  JsonWriter writer;
  out.update(writer.reference(descriptor_of(what)));
  out["$defs"] = writer.definitions();
  return json_text(out, {.indent = 2}) + "\n";
}

}  // namespace scalai::apps
