#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "ptc/base/byte_source.h"
#include "ptc/base/file.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/opened_folder.h"
#include "ptc/store/views/internal/reshard_journal.h"
#include "ptc/store/views/internal/reshard_places.h"
#include "ptc/store/views/reshard.h"

namespace scalai::store {
namespace {

namespace fs = std::filesystem;

// nullopt: no part is there.
absl::StatusOr<std::optional<ArrangedManifest>> manifest_of(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  if (!internal::is_there(path)) return std::optional<ArrangedManifest>();
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, internal::kMostManifestBytes));
  absl::StatusOr<ArrangedManifest> manifest = parse_arranged_manifest(text);
  if (!manifest.ok()) return invalid(fmt::format("{}: {}", path, message_of(manifest.status())));
  return std::optional<ArrangedManifest>(*std::move(manifest));
}

absl::Status other_part(const std::string& folder) {
  return invalid(fmt::format(
      "{}: is there and is a part of something else (another source, layout or options); move it away", folder));
}

// Where each file of the whole lies, and its sums.
struct PartFile {
  std::string folder;
  int64_t bytes = 0;
  FileSums sums;
};

void take_files(const std::string& folder, const ArrangedManifest& manifest, std::map<std::string, PartFile>& files) {
  for (const ArrangedRecord& record : manifest.files) {
    PartFile file{folder, record.bytes, {record.checksum, {}}};
    for (size_t i = 0; i < record.file.tensors.size(); ++i)
      file.sums.tensors[record.file.tensors[i].name] = record.tensor_checksums[i];
    files[record.file.name] = std::move(file);
  }
  for (const TextRecord& record : manifest.texts) files[record.name] = {folder, record.bytes, {record.checksum, {}}};
}

// A file that an earlier call has moved stays where it is.
bool is_moved(const std::string& from, const std::string& to) {
  return internal::is_there(to) && !internal::is_there(from);
}

// Before anything is moved: each file of the whole is in a part, as long as that wrote it, with the tensors that it is
// to have.
absl::Status check_files(const View& whole, const std::map<std::string, PartFile>& files,
                         const internal::ReshardPlaces& places) {
  for (size_t f = 0; f < whole.files(); ++f) {
    const std::string& name = whole.file_name(f);
    const auto file = files.find(name);
    if (file == files.end()) return invalid(fmt::format("{}: is in no part", name));
    const std::string from = file->second.folder + "/" + name, to = places.partial + "/" + name;
    const std::string& at = is_moved(from, to) ? to : from;
    std::error_code error;
    if (fs::file_size(at, error) != static_cast<uintmax_t>(file->second.bytes) || error)
      return invalid(fmt::format("{}: is not what a part had", at));
    if (!whole.has_tensors(f)) continue;
    SCALAI_ASSIGN_OR_RETURN(const ArrangedFile arranged, whole.arrangement(f));
    const auto& sums = file->second.sums.tensors;
    const bool same = sums.size() == arranged.tensors.size() &&
                      std::all_of(arranged.tensors.begin(), arranged.tensors.end(),
                                  [&](const ArrangedTensor& tensor) { return sums.count(tensor.name) != 0; });
    if (!same) return invalid(fmt::format("{}: has other tensors than it is to have; remove that part", at));
  }
  return absl::OkStatus();
}

absl::Status move_file(const std::string& from, const std::string& to) {
  if (is_moved(from, to)) return absl::OkStatus();
  if (const std::string parent = parent_of(to); !internal::is_there(parent))
    SCALAI_RETURN_IF_ERROR(make_synced_folders(parent));
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return failed(fmt::format("{}: cannot move to {}: {}", from, to, error.message()));
  return absl::OkStatus();
}

// A name in the folder that no file of the whole has.
std::optional<std::string> foreign_entry(const View& whole, const std::string& folder) {
  return internal::foreign_entry(folder, [&](const std::string& name) {
    return name.ends_with('/') ? whole.has_folder(name) : name == kManifestName || whole.find(name).has_value();
  });
}

absl::Status put_together(const View& whole, const std::map<std::string, PartFile>& files, std::vector<Damage> damage,
                          const internal::ReshardPlaces& places, internal::Journal& journal,
                          const ReshardOptions& options) {
  const std::optional<std::string> foreign =
      internal::is_there(places.partial) ? foreign_entry(whole, places.partial) : std::nullopt;
  if (foreign)
    return invalid(fmt::format("{}: has \"{}\", which is not of what is written there; move it away", places.partial,
                               clipped(*foreign, 120)));
  std::error_code error;
  if (internal::is_there(places.partial) && !fs::is_directory(fs::symlink_status(places.partial, error)))
    return invalid(fmt::format("{}: is there and not a folder; move it away", places.partial));
  if (internal::is_there(places.partial) && !journal.was_there() && !internal::is_empty_folder(places.partial))
    return invalid(fmt::format("{}: is there, and no journal says what it is; move it away", places.partial));
  SCALAI_RETURN_IF_ERROR(check_files(whole, files, places));
  SCALAI_RETURN_IF_ERROR(journal.begin());
  SCALAI_RETURN_IF_ERROR(make_synced_folders(places.partial));
  std::vector<FileSums> sums;
  std::set<std::string> folders = {places.partial};
  for (size_t f = 0; f < whole.files(); ++f) {
    const PartFile& file = files.at(whole.file_name(f));
    const std::string to = places.partial + "/" + whole.file_name(f);
    SCALAI_RETURN_IF_ERROR(move_file(file.folder + "/" + whole.file_name(f), to));
    folders.insert(parent_of(to));
    sums.push_back(file.sums);
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string manifest, whole.manifest(sums, std::move(damage)));
  SCALAI_RETURN_IF_ERROR(write_synced(places.partial + "/" + kManifestName, manifest));
  for (const std::string& folder : folders) SCALAI_RETURN_IF_ERROR(sync_folder(folder));
  SCALAI_RETURN_IF_ERROR(journal.publish(Checksum().add(bytes_of(manifest)).hex()));
  return publish_folder(places.partial, places.target, options.force ? Existing::kReplaced : Existing::kRefused);
}

// Whether a call that was killed around the last rename had done it: if DST has the manifest that was to be published,
// DST.partial is what DST was before, under the same names, and nothing in it counts.
absl::StatusOr<bool> was_published(const internal::ReshardPlaces& places, internal::Journal& journal) {
  if (!journal.publishing()) return false;
  if (internal::checksum_of_manifest(places.target) == *journal.publishing()) return true;
  if (internal::checksum_of_manifest(places.partial) != *journal.publishing())
    return invalid(
        fmt::format("{}: an earlier run was about to give {} its name, and neither is what it wrote; move both away",
                    places.target, places.partial));
  SCALAI_RETURN_IF_ERROR(journal.withdraw());
  return false;
}

// A call that was killed behind the last rename of its part, or while it wrote a finished one anew, left a journal and
// what that tells of. A journal that is in use goes with the process that uses it; what is no journal stays.
void remove_rest(const View& whole, const std::string& part) {
  const internal::ReshardPlaces places = internal::places_of(part);
  if (!internal::is_there(places.journal)) return;
  if (internal::is_there(places.partial) && foreign_entry(whole, places.partial)) return;  // somebody's
  const auto journal = internal::Journal::open(places.journal, "", /*restart=*/true);
  if (!journal.ok()) return;
  if ((*journal)->was_there()) remove_folder(places.partial);
  (void)(*journal)->remove();
}

absl::Status tidy_up(const View& whole, const std::string& target, int parts, internal::Journal& journal) {
  for (int part = 0; part < parts; ++part) {
    const std::string folder = part_folder(target, part, parts);
    remove_folder(folder);
    remove_rest(whole, folder);
  }
  return journal.remove();
}

// Whether the file has the bytes that its part's manifest has the checksum of.
absl::Status check_sum(const std::string& path, const std::string& checksum) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  const absl::Status changed =
      invalid(fmt::format("{}: is not what was written; --restart writes this part anew", path));
  const absl::StatusOr<ByteSourcePtr> opened = open_file_source(path);
  if (absl::IsNotFound(opened.status())) return changed;
  SCALAI_RETURN_IF_ERROR(opened.status());
  const ByteSourcePtr& source = *opened;
  std::vector<std::byte> buffer(static_cast<size_t>(kPieceBytes));
  Checksum sum;
  for (int64_t at = 0; at < source->size(); at += kPieceBytes) {
    const auto chunk = std::span(buffer).first(static_cast<size_t>(std::min(kPieceBytes, source->size() - at)));
    SCALAI_RETURN_IF_ERROR(source->read(at, chunk));
    sum.add(chunk);
  }
  return sum.hex() == checksum ? absl::OkStatus() : changed;
}

}  // namespace

absl::Status check_target(const std::string& target, bool force) {
  return internal::check_target(internal::places_of(target), force);
}

std::string part_folder(const std::string& target, int part, int parts) {
  return fmt::format("{}.part-{}-of-{}", without_trailing_slash(target), part + 1, parts);
}

absl::StatusOr<bool> is_part(const std::string& folder, const View& view) {
  SCALAI_CHECK(view.spec().parts > 1);
  SCALAI_ASSIGN_OR_RETURN(const std::optional<ArrangedManifest> manifest, manifest_of(folder));
  if (!manifest) return false;
  if (manifest->part_of != internal::digest_of_whole(view)) return other_part(folder);
  return true;
}

absl::Status verify_part(const std::string& folder, int threads) {
  SCALAI_ASSIGN_OR_RETURN(const std::optional<ArrangedManifest> manifest, manifest_of(folder));
  if (!manifest) return failed(fmt::format("{}: is gone; another process has put the parts together", folder));
  std::vector<std::pair<std::string, std::string>> files;  // path, checksum
  for (const ArrangedRecord& record : manifest->files)
    files.emplace_back(folder + "/" + record.file.name, record.checksum);
  for (const TextRecord& record : manifest->texts) files.emplace_back(folder + "/" + record.name, record.checksum);
  return try_parallel_for(threads, files.size(), [&](size_t i) { return check_sum(files[i].first, files[i].second); });
}

bool is_being_joined(const std::string& target) { return internal::is_there(internal::places_of(target).journal); }

absl::StatusOr<Joined> join_parts(const View& whole, int parts, const ReshardOptions& options) {
  SCALAI_CHECK(whole.spec().parts == 1 && whole.spec().naming != "job");
  const internal::ReshardPlaces places = internal::places_of(options.target);
  SCALAI_RETURN_IF_ERROR(internal::check_apart(places, whole.checkpoint()));
  const std::string digest = internal::digest_of_whole(whole);
  Joined joined;
  std::unique_ptr<internal::Journal> journal;
  const auto lock = [&]() -> absl::Status {
    // Never begun anew: what it says of the last rename tells DST from what DST was before.
    auto opened = internal::Journal::open(places.journal, "parts " + digest, /*restart=*/false);
    joined.busy = absl::IsAborted(opened.status());
    if (opened.ok()) {
      journal = *std::move(opened);
      return absl::OkStatus();
    }
    if (!absl::IsInvalidArgument(opened.status())) return joined.busy ? absl::OkStatus() : opened.status();
    return invalid(fmt::format("{}\nParts are never put together anew, since {} may have their files: move both away",
                               message_of(opened.status()), places.partial));
  };
  // A call that was killed while it put the parts together.
  if (internal::is_there(places.journal)) {
    SCALAI_RETURN_IF_ERROR(lock());
    if (joined.busy) return joined;
    SCALAI_ASSIGN_OR_RETURN(const bool done, was_published(places, *journal));
    if (done) {
      remove_folder(places.partial);
      SCALAI_RETURN_IF_ERROR(tidy_up(whole, options.target, parts, *journal));
      return joined;
    }
  }
  std::map<std::string, PartFile> files;
  std::vector<Damage> damage;
  for (int part = 0; part < parts; ++part) {
    const std::string folder = part_folder(options.target, part, parts);
    SCALAI_ASSIGN_OR_RETURN(const std::optional<ArrangedManifest> manifest, manifest_of(folder));
    if (!manifest) {
      joined.missing.push_back(part);
    } else if (manifest->part_of != digest) {
      return other_part(folder);
    } else {
      take_files(folder, *manifest, files);
      for (const Damage& one : manifest->damage)
        if (std::find(damage.begin(), damage.end(), one) == damage.end()) damage.push_back(one);
    }
  }
  if (!joined.missing.empty()) return joined;
  if (!journal) {
    SCALAI_RETURN_IF_ERROR(lock());
    if (joined.busy) return joined;
    // Who had the lock before may have done it all meanwhile.
    if (!internal::is_there(part_folder(options.target, 0, parts))) {
      SCALAI_RETURN_IF_ERROR(journal->remove());
      return joined;
    }
  }
  absl::Status put = internal::check_target(places, options.force);
  if (put.ok()) put = put_together(whole, files, std::move(damage), places, *journal, options);
  if (!put.ok()) {
    if (absl::IsInvalidArgument(put) && !journal->was_there()) (void)journal->remove();  // nothing was begun
    return put;
  }
  SCALAI_RETURN_IF_ERROR(tidy_up(whole, options.target, parts, *journal));
  return joined;
}

}  // namespace scalai::store
