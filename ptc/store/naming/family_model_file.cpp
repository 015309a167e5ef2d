#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/proto/naming.pb.h"
#include "ptc/proto/source.h"
#include "ptc/state/collection/id_list.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {
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

void read_layer_sets(const proto::ModelFile& message, proto::Source& source, Sizes& sizes) {
  for (int i = 0; i < message.layer_sets_size(); ++i) {
    const std::string path = fmt::format("layer_sets[{}]", i);
    const proto::LayerSetValue& each = message.layer_sets(i);
    if (!source.is_name(path + ".name", each.name())) continue;
    const auto [set, fresh] = sizes.layer_sets.try_emplace(each.name());
    if (!fresh) source.error(path + ".name", fmt::format("\"{}\" is given twice", each.name()));
    if (each.layers().empty()) continue;
    if (const auto problem = collection::parse_id_list(each.layers(), set->second))
      source.error_inside(path + ".layers", each.layers(), problem->position, problem->length, problem->message,
                          problem->hint);
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
  for (const auto& [name, layers] : file.sizes.layer_sets) {
    proto::LayerSetValue* const each = message.add_layer_sets();
    each->set_name(name);
    each->set_layers(collection::id_list_of(layers));
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
    read_layer_sets(message, source, file.sizes);
  }
  if (!source.empty()) return invalid(source.render());
  return file;
}

}  // namespace scalai::store
