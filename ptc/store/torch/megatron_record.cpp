#include "ptc/store/torch/megatron_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/torch/internal/pickle_writer.h"
#include "ptc/store/torch/internal/zip_frame.h"
#include "ptc/store/torch/pickle.h"
#include "ptc/store/torch/zip.h"

namespace scalai::store {
namespace {

using internal::PickleWriter;
using Kind = PickleValue::Kind;

constexpr std::string_view kPickle = "/data.pkl";
constexpr const char* kSharding = "distrib_optim_sharding_type";
constexpr const char* kByParameter = "fully_reshardable";

// A file of torch.save in memory.
struct Archive {
  std::vector<std::pair<std::string, std::string>> entries;  // name and content
  size_t pickle = 0;                                         // which of them is it
};

absl::StatusOr<Archive> unpack(const std::string& file) {
  const ByteSourcePtr source = text_source("Megatron's record", file);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, zip_entries(*source));
  Archive archive;
  for (const ZipEntry& entry : entries) {
    if (entry.name.ends_with(kPickle)) archive.pickle = archive.entries.size();
    archive.entries.emplace_back(entry.name,
                                 file.substr(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes)));
  }
  if (archive.entries.empty() || !archive.entries[archive.pickle].first.ends_with(kPickle))
    return invalid("Megatron's record: no file of torch.save");
  return archive;
}

absl::StatusOr<std::string> pickle_of(const ByteSource& file) {
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, zip_entries(file));
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kPickle) || entry.bytes > kMostBytes) continue;
    std::string bytes(static_cast<size_t>(entry.bytes), '\0');
    SCALAI_RETURN_IF_ERROR(file.read(entry.offset, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }
  return invalid(fmt::format("{}: no file of torch.save", file.name()));
}

std::string pack(const Archive& archive) {
  internal::ZipFrame frame;
  for (const auto& [name, content] : archive.entries) frame.add(name, content);
  frame.finish();
  return std::move(frame).take().texts.front().bytes;
}

// The dict of a record, also where it is the only one of a list.
const PickleValue* dict_of(const PickleValue& root) {
  const PickleValue* const value = root.kind == Kind::kList && root.items.size() == 1 ? root.items.front() : &root;
  return value->kind == Kind::kDict ? value : nullptr;
}

absl::Status append_plain(const PickleValue& value, PickleWriter& to, int depth = 0) {
  constexpr int kMostNested = 32;
  constexpr size_t kMostBytes = size_t{1} << 24;  // lists that share lists can be more than anyone can write
  if (depth > kMostNested) return invalid("Megatron's record: values are nested too deeply");
  if (to.bytes().size() > kMostBytes) return invalid("Megatron's record: the optimizer has too many values");
  const auto append_all = [&](const char* begin, const char* end) -> absl::Status {
    to.op(begin);
    for (const PickleValue* const item : value.items) SCALAI_RETURN_IF_ERROR(append_plain(*item, to, depth + 1));
    to.op(end);
    return absl::OkStatus();
  };
  switch (value.kind) {
    case Kind::kNone: to.op("N"); return absl::OkStatus();
    case Kind::kBool: to.op(value.number != 0 ? "\x88" : "\x89"); return absl::OkStatus();
    case Kind::kInt: to.number(value.number); return absl::OkStatus();
    case Kind::kFloat: to.real(value.real); return absl::OkStatus();
    case Kind::kText: to.text(value.text); return absl::OkStatus();
    case Kind::kName: {
      const size_t dot = std::min(value.text.rfind('.'), value.text.size());
      if (dot == value.text.size()) break;
      to.name(std::string_view(value.text).substr(0, dot), std::string_view(value.text).substr(dot + 1));
      return absl::OkStatus();
    }
    case Kind::kList: return append_all("](", "e");
    case Kind::kTuple: return append_all("(", "t");
    case Kind::kDict:
      to.op("}(");
      for (const auto& [key, entry] : value.pairs) {
        SCALAI_RETURN_IF_ERROR(append_plain(*key, to, depth + 1));
        SCALAI_RETURN_IF_ERROR(append_plain(*entry, to, depth + 1));
      }
      to.op("u");
      return absl::OkStatus();
    default: break;
  }
  return invalid("Megatron's record: a value of the optimizer's that is not plain");
}

// {"optimizer": {"param_groups": […]}, "param_state_sharding_type": "fully_reshardable"}, for several in a dict by
// number.
absl::Status append_optimizers(const std::vector<const PickleValue*>& groups, PickleWriter& to) {
  if (groups.size() > 1) to.op("}(");
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == nullptr || groups[i]->kind != Kind::kDict)
      return invalid("Megatron's record: no dict of an optimizer");
    if (groups.size() > 1) to.number(static_cast<int64_t>(i));
    to.op("}(").text("optimizer");
    SCALAI_RETURN_IF_ERROR(append_plain(*groups[i], to));
    to.text("param_state_sharding_type").text(kByParameter).op("u");
  }
  if (groups.size() > 1) to.op("u");
  return absl::OkStatus();
}

// What the record says of how state was cut, so that a load asks for what is there: a dict, and the key in front.
absl::Status append_metadata(const PickleValue& metadata, PickleWriter& to) {
  PickleValue changed = metadata;
  std::erase_if(changed.pairs, [](const auto& pair) {
    return pair.first->text == kSharding || pair.first->text == "chained_optim_avoid_prefix";
  });
  to.text("content_metadata");
  SCALAI_RETURN_IF_ERROR(append_plain(changed, to));
  to.text(kSharding).text(kByParameter).op("s");
  to.text("chained_optim_avoid_prefix").op("\x88s");
  return absl::OkStatus();
}

// Those of its entries that a record takes over.
absl::Status append_entries(const PickleValue& dict, PickleWriter& to) {
  for (const char* key : {"iteration", "checkpoint_version", "opt_param_scheduler", "lr_scheduler",
                          "num_floating_point_operations_so_far"}) {
    const PickleValue* const value = dict.find(key);
    if (value == nullptr) continue;
    to.text(key);
    SCALAI_RETURN_IF_ERROR(append_plain(*value, to));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> with_optimizers(const std::string& record, std::span<const std::string> optimizers) {
  SCALAI_ASSIGN_OR_RETURN(Archive archive, unpack(record));
  std::string& bytes = archive.entries[archive.pickle].second;
  SCALAI_ASSIGN_OR_RETURN(const Pickle before, Pickle::read(bytes));
  const PickleValue* const dict = dict_of(before.root());
  // The last opcodes: the list takes the dict, the end.
  const std::string_view end = before.root().kind == Kind::kList ? "a." : ".";
  if (dict == nullptr || !bytes.ends_with(end)) return invalid("Megatron's record: no dict");
  std::vector<Pickle> pickles;
  for (const std::string& optimizer : optimizers) {
    SCALAI_ASSIGN_OR_RETURN(const Archive object, unpack(optimizer));
    SCALAI_ASSIGN_OR_RETURN(Pickle pickle, Pickle::read(object.entries[object.pickle].second));
    pickles.push_back(std::move(pickle));
  }
  std::vector<const PickleValue*> groups;
  for (const Pickle& pickle : pickles) groups.push_back(dict_of(pickle.root()));
  PickleWriter entries;
  entries.text("optimizer");
  SCALAI_RETURN_IF_ERROR(append_optimizers(groups, entries));
  entries.op("s");
  const PickleValue* const metadata = dict->find("content_metadata");
  if (metadata != nullptr && metadata->kind == Kind::kDict) {
    SCALAI_RETURN_IF_ERROR(append_metadata(*metadata, entries));
    entries.op("s");
  }
  // The dict is on the stack there. Entries that it has already get the new value; what is in the memo was only for
  // what came before.
  constexpr size_t kProtocol = 2;
  bytes.resize(bytes.size() - end.size());
  (bytes += entries.bytes().substr(kProtocol)) += end;
  SCALAI_ASSIGN_OR_RETURN(const Pickle after, Pickle::read(bytes));
  const PickleValue* const result = dict_of(after.root());
  const auto optimizer = [](const auto& pair) { return pair.first->text == "optimizer"; };
  const auto count = [&](const PickleValue& in) { return std::count_if(in.pairs.begin(), in.pairs.end(), optimizer); };
  if (result == nullptr || count(*result) != count(*dict) + 1)
    return invalid("Megatron's record: it ends in another way than torch writes it");
  return pack(archive);
}

absl::StatusOr<std::string> record_of_rank(const ByteSource& rank_file) {
  SCALAI_ASSIGN_OR_RETURN(const std::string bytes, pickle_of(rank_file));
  SCALAI_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::read(bytes));
  const PickleValue* const dict = dict_of(pickle.root());
  const PickleValue* const optimizer = dict == nullptr ? nullptr : dict->find("optimizer");
  if (optimizer == nullptr) return invalid(fmt::format("{}: no dict with an optimizer", rank_file.name()));
  const bool several = optimizer->kind == Kind::kList || optimizer->kind == Kind::kTuple;
  std::vector<const PickleValue*> groups;
  if (several) {
    for (const PickleValue* const each : optimizer->items) groups.push_back(each->find("optimizer"));
  } else {
    groups.push_back(optimizer->find("optimizer"));
  }
  PickleWriter to;
  to.op("}(");
  SCALAI_RETURN_IF_ERROR(append_entries(*dict, to));
  to.text("optimizer");
  SCALAI_RETURN_IF_ERROR(append_optimizers(groups, to));
  PickleValue none;
  none.kind = Kind::kDict;
  SCALAI_RETURN_IF_ERROR(append_metadata(none, to));
  to.op("u.");
  return pack({{{"archive/data.pkl", to.bytes()}, {"archive/byteorder", "little"}, {"archive/version", "3\n"}}, 0});
}

}  // namespace scalai::store
