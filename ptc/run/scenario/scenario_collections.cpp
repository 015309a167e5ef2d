#include <fmt/format.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_collections.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::scenario::internal {
namespace {

std::shared_ptr<const collection::Collection> read_collection(const std::string& path, const std::string& name,
                                                              const std::string& inlined, const ParallelChoice& choice,
                                                              Context& context) {
  const std::string file = beside(context.file_name, name);
  const absl::StatusOr<std::string> text = content_of(context, name, inlined);
  if (!text.ok()) {
    context.source.error(path, message_of(text.status()));
    return nullptr;
  }
  auto parsed = collection::parse_collection(*text, file, collection::FileRole::kPlanned);
  if (!parsed.ok()) {
    context.other_files += message_of(parsed.status());
    context.source.error(path, fmt::format("\"{}\" has problems", name), "they are listed under its name");
    return nullptr;
  }
  collection::Collection& found = parsed->collection;
  if (found.ranks() != choice.config.world()) {
    context.source.error(path,
                         fmt::format("\"{}\" has {} ranks, the layout {}", name, found.ranks(), choice.config.world()));
    return nullptr;
  }
  context.comments += fmt::format("# {}: digest {}\n", name, parsed->digest);
  found.name = collection::canonical(choice.config);
  found.epoch = 0;
  return std::make_shared<const collection::Collection>(std::move(found));
}

// The tensors of all configurations are the same, and in one order: a tensor keeps its number through all changes.
absl::Status put_in_order(const collection::Collection& first, collection::Collection& other) {
  std::map<std::string, const collection::LogicalTensor*> by_name;
  for (const collection::LogicalTensor& tensor : other.tensors) by_name[tensor.name] = &tensor;
  std::vector<collection::LogicalTensor> ordered;
  for (const collection::LogicalTensor& tensor : first.tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) return invalid(fmt::format("it has no tensor \"{}\"", tensor.name));
    const collection::LogicalTensor& same = *found->second;
    if (same.shape != tensor.shape || same.dtype != tensor.dtype)
      return invalid(fmt::format("tensor \"{}\" is {} {} in it, {} {} in the first", tensor.name, name_of(same.dtype),
                                 same.shape.str(), name_of(tensor.dtype), tensor.shape.str()));
    ordered.push_back(same);
    by_name.erase(found);
  }
  if (!by_name.empty()) return invalid(fmt::format("the first has no tensor \"{}\"", by_name.begin()->first));
  other.tensors = std::move(ordered);
  return absl::OkStatus();
}

}  // namespace

void build_collection(const proto::ParallelChoice& message, const std::string& path,
                      const std::vector<ParallelChoice>& before, ParallelChoice& choice, Context& context) {
  Source& source = context.source;
  if (message.collection().empty()) {
    source.missing(path + ".collection", "other configs of the job have one: all need theirs");
    return;
  }
  if (choice.step_s == 0) source.missing(path + ".step_time", "without a model no step time can be computed");
  choice.collection =
      read_collection(path + ".collection", message.collection(), message.collection_text(), choice, context);
  if (choice.collection == nullptr || before.empty() || before.front().collection == nullptr) return;
  collection::Collection ordered = *choice.collection;
  const absl::Status same = put_in_order(*before.front().collection, ordered);
  if (!same.ok()) {
    source.error(path + ".collection", fmt::format("\"{}\" is not the state of the first config: {}",
                                                   message.collection(), message_of(same)));
  }
  choice.collection = std::make_shared<const collection::Collection>(std::move(ordered));
}

}  // namespace scalai::scenario::internal
