#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/checkpoint/naming/family.h"
#include "ptc/proto/naming.pb.h"
#include "ptc/proto/source.h"

namespace scalai::checkpoint {
namespace {

constexpr int kSchemaVersion = 1;

template <class Messages, class Values>
void read_values(const Messages& messages, const std::string& field, proto::Source& source, Values& values) {
  for (int i = 0; i < messages.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", field, i);
    if (!source.is_name(path + ".name", messages[i].name())) continue;
    if (!source.given(path + ".value")) source.missing(path + ".value");
    if (!values.emplace(messages[i].name(), messages[i].value()).second)
      source.error(path + ".name", fmt::format("\"{}\" is given twice", messages[i].name()));
  }
}

}  // namespace

std::string model_file_text(const ModelFile& file) {
  proto::ModelFile message;
  message.set_schema_version(kSchemaVersion);
  message.set_family(file.family);
  message.set_name(file.name);
  for (const auto& [name, value] : file.sizes.numbers) {
    proto::SizeValue* const size = message.add_sizes();
    size->set_name(name);
    size->set_value(value);
  }
  for (const auto& [name, value] : file.sizes.switches) {
    proto::SwitchValue* const each = message.add_switches();
    each->set_name(name);
    each->set_value(value);
  }
  return proto::print_textproto(message);
}

absl::StatusOr<ModelFile> parse_model_file(const std::string& text, const std::string& file_name) {
  proto::ModelFile message;
  proto::Source source(file_name, text);
  source.parse(text, message);
  ModelFile file{.family = message.family(), .name = message.name(), .sizes = {}};
  if (!source.broken("")) {
    if (message.schema_version() != kSchemaVersion) {
      source.error("schema_version", fmt::format("schema version {} is not known here", message.schema_version()),
                   fmt::format("this program reads version {}", kSchemaVersion));
    }
    source.is_name("family", message.family());
    read_values(message.sizes(), "sizes", source, file.sizes.numbers);
    read_values(message.switches(), "switches", source, file.sizes.switches);
  }
  if (!source.empty()) return invalid(source.render());
  return file;
}

}  // namespace scalai::checkpoint
