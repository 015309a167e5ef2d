#include <fmt/format.h>

#include <optional>
#include <set>

#include "ptc/base/status.h"
#include "ptc/store/datasets/internal/builders.h"
#include "ptc/store/datasets/internal/key_check.h"
#include "ptc/store/datasets/internal/tar.h"

namespace scalai::datasets {
namespace {

struct Place {
  size_t file = 0;
  int64_t offset = 0;
};

// The samples of tar files one after the other: rows of the index, and hashes of the keys.
class Sampler {
 public:
  Sampler(Building& building, IndexWriter& writer, KeyCheck& keys)
      : building_(building), writer_(writer), keys_(keys) {}

  absl::Status add(size_t file, const TarMember& member) {
    std::string_view extension;
    const std::optional<std::string_view> key =
        member.regular ? sample_key(member.name, &extension) : std::optional<std::string_view>();
    if (!key) {
      ++building_.summary.left_out;
      if (open_ && !between_) between_ = member.begin;
      return absl::OkStatus();
    }
    if (!open_ || *key != key_) SCALAI_RETURN_IF_ERROR(begin(file, member, *key));
    if (between_) {
      return invalid(fmt::format("{}: byte {}: a member that belongs to no sample lies between those of sample {}",
                                 building_.path(file), *between_, shown_name(key_)));
    }
    if (!extensions_.insert(std::string(extension)).second) {
      return invalid(fmt::format("{}: byte {}: sample {} has two members {}", building_.path(file), member.begin,
                                 shown_name(key_), shown_name(member.name)));
    }
    end_ = building_.begin_of(file) + member.end;
    return absl::OkStatus();
  }
  // The sample under way ends, at the latest with its file.
  absl::Status finish() {
    if (!open_) return absl::OkStatus();
    open_ = false;
    SCALAI_RETURN_IF_ERROR(writer_.add(0, begin_));
    SCALAI_RETURN_IF_ERROR(writer_.add(0, end_));
    return keys_.add(key_, building_.header.documents++);
  }

 private:
  absl::Status begin(size_t file, const TarMember& member, std::string_view key) {
    SCALAI_RETURN_IF_ERROR(finish());
    open_ = true;
    key_ = key;
    extensions_.clear();
    between_.reset();
    begin_ = building_.begin_of(file) + member.begin;
    return absl::OkStatus();
  }

  Building& building_;
  IndexWriter& writer_;
  KeyCheck& keys_;
  bool open_ = false;
  std::string key_;
  std::set<std::string> extensions_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::optional<int64_t> between_;  // the first member without a key behind the sample under way
};

absl::Status index_file(Building& building, size_t file, Sampler& sampler) {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, building.open(file));
  TarScanner scanner(std::move(source));
  scanner.watch([&](int64_t position) { building.progress(file, position); });
  while (true) {
    SCALAI_ASSIGN_OR_RETURN(const std::optional<TarMember> member, scanner.next());
    if (!member) return sampler.finish();
    SCALAI_RETURN_IF_ERROR(sampler.add(file, *member));
  }
}

Place place_of(const Building& building, int64_t position) {
  size_t file = building.files() - 1;
  while (building.begin_of(file) > position) --file;
  return {file, position - building.begin_of(file)};
}

absl::StatusOr<std::string> key_at(const Building& building, const Place& place) {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, building.open(place.file));
  TarScanner scanner(std::move(source), place.offset);
  SCALAI_ASSIGN_OR_RETURN(const std::optional<TarMember> member, scanner.next());
  const std::optional<std::string_view> key = member ? sample_key(member->name) : std::optional<std::string_view>();
  if (!key) return invalid(fmt::format("{}: was changed while it was indexed", building.path(place.file)));
  return std::string(*key);
}

absl::Status refuse_same(const Building& building, const Place& a, const Place& b) {
  SCALAI_ASSIGN_OR_RETURN(const std::string key, key_at(building, a));
  SCALAI_ASSIGN_OR_RETURN(const std::string other, key_at(building, b));
  if (key != other) return absl::OkStatus();  // one hash by chance
  return invalid(
      fmt::format("{}: byte {}: sample {} was there before, in {} at byte {}; the members of a sample must be "
                  "neighbours, and its key must be the only one in the dataset",
                  building.path(b.file), b.offset, shown_name(key), building.path(a.file), a.offset));
}

}  // namespace

absl::Status index_tar(Building& building, IndexWriter& writer) {
  SCALAI_ASSIGN_OR_RETURN(KeyCheck keys, KeyCheck::create(building.request().out));
  Sampler sampler(building, writer, keys);
  for (size_t i = 0; i < building.files(); ++i) SCALAI_RETURN_IF_ERROR(index_file(building, i, sampler));
  return keys.for_each_pair([&](int64_t a, int64_t b) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const int64_t first, writer.row(0, 2 * a));
    SCALAI_ASSIGN_OR_RETURN(const int64_t second, writer.row(0, 2 * b));
    return refuse_same(building, place_of(building, first), place_of(building, second));
  });
}

}  // namespace scalai::datasets
