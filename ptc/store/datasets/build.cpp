#include "ptc/store/datasets/build.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "ptc/base/status.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/internal/builders.h"

namespace scalai::datasets {
namespace {

namespace fs = std::filesystem;

// How the index names a data file: an address and an absolute path as they are, a relative path as seen from the folder
// of the index, so that a folder with both can be moved.
std::string stored_location(const std::string& path, const std::string& out) {
  if (!is_local(path) || fs::path(path).is_absolute()) return path;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  const fs::path folder = fs::absolute(out, error).lexically_normal().parent_path();
  const fs::path relative = absolute.lexically_relative(folder);
  // Where symbolic links make ".." mean another folder.
  if (!fs::equivalent(folder / relative, path, error)) return absolute.string();
  return relative.string();
}

absl::Status check_request(const BuildRequest& request, const std::vector<std::string>& paths) {
  if (paths.empty()) return invalid("no data files to be indexed");
  if (request.out.empty()) return invalid("no name for the index");
  if (request.format == Format::kFixed && request.record_bytes < 1) {
    return invalid("records of fixed size need their bytes, 1 or more");
  }
  if (request.format != Format::kFixed && request.record_bytes != 0) {
    return invalid(fmt::format("a {} dataset has no fixed record size", name_of(request.format)));
  }
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    if (has_user_info(path)) {
      return invalid(
          fmt::format("{}: an address with a user or password would lie open in the index; put them into "
                      "~/.netrc",
                      shown_location(path)));
    }
    const std::string normal = is_local(path) ? fs::path(path).lexically_normal().string() : path;
    if (!seen.insert(normal).second) return invalid(fmt::format("{}: is given twice", path));
    std::error_code error;
    if (is_local(path) && fs::equivalent(path, request.out, error)) {
      return invalid(fmt::format("{}: is a data file, the index needs another name", path));
    }
  }
  return absl::OkStatus();
}

// Closed form: no columns.
absl::Status index_fixed(Building& building) {
  const int64_t record = building.header.record_bytes = building.request().record_bytes;
  for (size_t i = 0; i < building.files(); ++i) {
    const int64_t bytes = building.header.files[i].bytes;
    if (bytes % record != 0) {
      return invalid(fmt::format("{}: its {} bytes are {} records of {} bytes and {} more", building.path(i), bytes,
                                 bytes / record, record, bytes % record));
    }
    building.header.documents += bytes / record;
  }
  return absl::OkStatus();
}

absl::Status index_all(Building& building, IndexWriter& writer) {
  switch (building.header.format) {
    case Format::kMegatron: return index_megatron(building, writer);
    case Format::kTfRecord: return index_tfrecord(building, writer);
    case Format::kTar: return index_tar(building, writer);
    case Format::kFixed: break;
  }
  return index_fixed(building);
}

}  // namespace

absl::Status Building::describe(std::vector<std::string> paths) {
  paths_ = std::move(paths);
  for (const std::string& path : paths_) {
    DataFile file{.location = stored_location(path, request_.out)};
    SCALAI_ASSIGN_OR_RETURN(file.modified_ns, modified_ns_of(path));
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, request_.opener(path));
    file.bytes = source->size();
    if (file.bytes > kMostDataBytes - total_) return invalid(fmt::format("{}: too many bytes in all", path));
    SCALAI_ASSIGN_OR_RETURN(file.edges, edges_of(*source));
    begins_.push_back(total_);
    total_ += file.bytes;
    header.files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::StatusOr<ByteSourcePtr> Building::open(size_t file) const {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, request_.opener(paths_[file]));
  if (source->size() == header.files[file].bytes) return source;
  return invalid(fmt::format("{}: was changed while it was indexed", paths_[file]));
}

absl::Status Building::check_unchanged(size_t file) const {
  SCALAI_ASSIGN_OR_RETURN(const int64_t modified_ns, modified_ns_of(paths_[file]));
  if (modified_ns == header.files[file].modified_ns) return absl::OkStatus();
  return invalid(fmt::format("{}: was changed while it was indexed", paths_[file]));
}

void Building::progress(size_t file, int64_t position) const {
  if (!request_.progress || total_ == 0) return;
  request_.progress(static_cast<double>(begins_[file] + position) / static_cast<double>(total_), paths_[file]);
}

absl::StatusOr<BuildSummary> build_index(const BuildRequest& request) {
  SCALAI_CHECK(request.opener != nullptr);
  std::vector<std::string> paths = request.files;
  if (request.format == Format::kMegatron) {
    for (std::string& path : paths) path = megatron_stem(path) + ".bin";
  }
  SCALAI_RETURN_IF_ERROR(check_request(request, paths));
  Building building(request);
  SCALAI_RETURN_IF_ERROR(building.describe(std::move(paths)));
  if (request.format == Format::kMegatron) SCALAI_RETURN_IF_ERROR(read_megatron_counts(building));
  SCALAI_ASSIGN_OR_RETURN(IndexWriter writer, IndexWriter::create(request.out, building.header));
  SCALAI_RETURN_IF_ERROR(index_all(building, writer));
  for (size_t i = 0; i < building.files(); ++i) SCALAI_RETURN_IF_ERROR(building.check_unchanged(i));
  IndexHeader& header = building.header;
  if (header.documents == 0) return invalid(fmt::format("{}: there is no document in it", building.path(0)));
  SCALAI_RETURN_IF_ERROR(writer.finish(header));
  building.summary.digest = header.digest();
  building.summary.documents = header.documents;
  building.summary.bytes = header.data_bytes();
  building.summary.index_bytes = sums_offset(header, columns_of(header.format));
  building.summary.tokens = header.tokens;
  return building.summary;
}

}  // namespace scalai::datasets
