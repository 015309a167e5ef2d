#include "executor/worker/state_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::executor::worker {

namespace fs = std::filesystem;

namespace {

std::vector<int64_t> extents_of(const tensor::Shape& shape) {
  std::vector<int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) extents.push_back(shape[dim]);
  return extents;
}

// Calls visit(first element, elements) for the parts of the box that are dense in a tensor of this shape, in the box's
// row-major order.
absl::Status for_each_run(const tensor::Box& box, const std::vector<int64_t>& shape,
                          const std::function<absl::Status(int64_t, int64_t)>& visit) {
  const auto rank = static_cast<size_t>(box.rank);
  size_t whole = rank;  // dimensions from here on are taken whole, so that a run goes on over them
  while (whole > 0 && box.lo[whole - 1] == 0 && box.hi[whole - 1] == shape[whole - 1]) --whole;
  const size_t last = whole == 0 ? 0 : whole - 1;  // the dimension along which a run lies
  std::vector<int64_t> stride(rank, 1);
  for (size_t dim = rank; dim-- > 1;) stride[dim - 1] = stride[dim] * shape[dim];
  if (rank == 0) return visit(0, 1);
  std::vector<int64_t> at(box.lo.begin(), box.lo.begin() + box.rank);
  const int64_t run = (box.hi[last] - box.lo[last]) * stride[last];
  for (;;) {
    int64_t first = 0;
    for (size_t dim = 0; dim < rank; ++dim) first += at[dim] * stride[dim];
    SCALAI_RETURN_IF_ERROR(visit(first, run));
    size_t dim = last;
    while (dim-- > 0 && ++at[dim] == box.hi[dim]) at[dim] = box.lo[dim];
    if (dim == SIZE_MAX) return absl::OkStatus();
  }
}

}  // namespace

struct StateSource::Files {
  struct Stored {
    std::string file;
    std::vector<int64_t> shape;
    tensor::DType dtype = tensor::DType::kF32;
    const store::SafetensorsFile* safetensors = nullptr;  // or of the checkpoint
    const store::StoredTensor* tensor = nullptr;
    size_t number = 0;  // in the checkpoint's tensors
  };
  std::string path;
  std::vector<std::unique_ptr<store::SafetensorsFile>> safetensors;
  std::shared_ptr<const store::Checkpoint> checkpoint;
  std::map<std::string, Stored> tensors;

  const Stored* find(const std::string& name) const {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  absl::Status add_file(const std::string& file);
  absl::Status add_checkpoint();
  absl::Status read(const Stored& stored, const tensor::Box& box, std::vector<std::byte>& bytes) const;
};

absl::Status StateSource::Files::add_file(const std::string& file) {
  SCALAI_ASSIGN_OR_RETURN(store::SafetensorsFile opened, store::SafetensorsFile::open(file));
  safetensors.push_back(std::make_unique<store::SafetensorsFile>(std::move(opened)));
  const store::SafetensorsFile& added = *safetensors.back();
  for (const store::StoredTensor& tensor : added.header().tensors) {
    const auto [other, fresh] = tensors.insert({tensor.name, {file, tensor.shape, tensor.dtype, &added, &tensor}});
    if (!fresh) return invalid(fmt::format("tensor \"{}\" is in {} and in {}", tensor.name, other->second.file, file));
  }
  return absl::OkStatus();
}

absl::Status StateSource::Files::add_checkpoint() {
  SCALAI_ASSIGN_OR_RETURN(checkpoint, store::Checkpoint::open(path));
  const std::vector<store::LogicalState>& list = checkpoint->tensors();
  for (size_t i = 0; i < list.size(); ++i)
    tensors.insert({list[i].name, {path, extents_of(list[i].shape), list[i].dtype, nullptr, nullptr, i}});
  return absl::OkStatus();
}

// Dense and row-major, in the dtype that is stored.
absl::Status StateSource::Files::read(const Stored& stored, const tensor::Box& box,
                                      std::vector<std::byte>& bytes) const {
  bytes.resize(static_cast<size_t>(state::packed_bytes(box, stored.dtype)));
  if (stored.safetensors == nullptr) return checkpoint->read(stored.number, box, bytes);
  const auto size = static_cast<int64_t>(tensor::size_of(stored.dtype));
  size_t done = 0;
  return for_each_run(box, stored.shape, [&](int64_t first, int64_t elements) {
    const auto part = std::span(bytes).subspan(done, static_cast<size_t>(elements * size));
    done += part.size();
    return stored.safetensors->read(*stored.tensor, first * size, part);
  });
}

StateSource::StateSource(std::string job, std::unique_ptr<Files> files)
    : job_(std::move(job)), files_(std::move(files)) {}
StateSource::~StateSource() = default;

absl::StatusOr<std::shared_ptr<const StateSource>> StateSource::open(const std::string& job, const std::string& path) {
  std::unique_ptr<Files> files;
  if (!path.empty()) {
    files = std::make_unique<Files>();
    files->path = path;
    std::error_code error;  // of a path that cannot be looked at: opening it says why
    if (fs::exists(path + "/manifest.json", error) || fs::exists(path + "/config.json", error)) {
      SCALAI_RETURN_IF_ERROR(files->add_checkpoint());
    } else if (fs::is_directory(path, error)) {
      std::vector<std::string> names;
      fs::directory_iterator entries(path, error);
      for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
        if (entries->path().extension() == ".safetensors") names.push_back(entries->path().string());
      }
      if (error) return missing(fmt::format("{}: {}", path, error.message()));
      std::sort(names.begin(), names.end());
      if (names.empty()) return missing(fmt::format("{}: no .safetensors file in this folder", path));
      for (const std::string& name : names) SCALAI_RETURN_IF_ERROR(files->add_file(name));
    } else {
      SCALAI_RETURN_IF_ERROR(files->add_file(path));
    }
  }
  return std::shared_ptr<const StateSource>(new StateSource(job, std::move(files)));
}

absl::StatusOr<size_t> StateSource::match(const collection::Collection& collection) const {
  size_t real = 0;
  std::string problems;
  if (files_ == nullptr) return real;
  for (const collection::LogicalTensor& tensor : collection.tensors) {
    const Files::Stored* stored = files_->find(tensor.name);
    if (stored == nullptr) continue;
    ++real;
    const std::vector<int64_t> shape = extents_of(tensor.shape);
    if (shape == stored->shape) continue;
    problems += fmt::format("{}{}: tensor \"{}\" has shape [{}], the job's has [{}]", problems.empty() ? "" : "\n",
                            stored->file, tensor.name, fmt::join(stored->shape, ", "), fmt::join(shape, ", "));
  }
  if (!problems.empty()) return invalid(problems);
  if (real == 0 && !collection.tensors.empty())
    return invalid(fmt::format("{}: none of the tensors of job {} is there (the first is \"{}\")", files_->path, job_,
                               collection.tensors.front().name));
  return real;
}

bool StateSource::is_real(const std::string& tensor) const {
  return files_ != nullptr && files_->find(tensor) != nullptr;
}

absl::Status StateSource::fill(device::Backend& backend, int64_t step, std::span<const StatePart> parts,
                               std::span<const state::Target> targets) const {
  SCALAI_CHECK(parts.size() == targets.size());
  std::vector<device::BoxFill> generated;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const StatePart& one = parts[i];
    const std::string name(one.tensor);
    const Files::Stored* stored = files_ == nullptr ? nullptr : files_->find(name);
    if (stored == nullptr) {
      generated.push_back({state::Content{state::ContentKey::of(name, job_), one.shape, step}, one.part, targets[i]});
    } else if (one.part.volume() > 0) {
      SCALAI_RETURN_IF_ERROR(files_->read(*stored, one.part, bytes));
      const device::BoxCopy unpack{one.part, {one.part, stored->dtype, bytes.data()}, targets[i]};
      SCALAI_RETURN_IF_ERROR(backend.copy({&unpack, 1}));
    }
  }
  return backend.fill(generated);
}

absl::StatusOr<std::vector<std::optional<std::string>>> StateSource::check(
    device::Backend& backend, int64_t step, std::span<const StatePart> parts,
    std::span<const state::Source> sources) const {
  SCALAI_CHECK(parts.size() == sources.size());
  std::vector<std::optional<std::string>> wrong(parts.size());
  std::vector<device::BoxCheck> generated;
  std::vector<size_t> index;  // of each of these
  for (size_t i = 0; i < parts.size(); ++i) {
    const StatePart& one = parts[i];
    if (is_real(std::string(one.tensor))) {
      SCALAI_ASSIGN_OR_RETURN(wrong[i], check_real(backend, one, sources[i]));
    } else {
      generated.push_back(
          {state::Content{state::ContentKey::of(one.tensor, job_), one.shape, step}, one.part, sources[i]});
      index.push_back(i);
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::optional<state::Mismatch>> found, backend.check(generated));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) wrong[index[i]] = found[i]->str();
  }
  return wrong;
}

// By digest, so that state is fetched from a GPU only when it is wrong.
absl::StatusOr<std::optional<std::string>> StateSource::check_real(device::Backend& backend, const StatePart& one,
                                                                   const state::Source& src) const {
  if (one.part.volume() == 0) return std::nullopt;
  const Files::Stored& stored = *files_->find(std::string(one.tensor));
  std::vector<std::byte> there;
  SCALAI_RETURN_IF_ERROR(files_->read(stored, one.part, there));
  std::vector<std::byte> expected(static_cast<size_t>(state::packed_bytes(one.part, src.dtype)));
  state::unpack_box(one.part, stored.dtype, there.data(), {one.part, src.dtype, expected.data()});
  const device::BoxHash box{one.part, src};
  SCALAI_ASSIGN_OR_RETURN(const std::vector<uint64_t> digest, backend.hash({&box, 1}));
  if (digest.front() == state::box_digest({one.part, src.dtype, expected.data()}, one.part)) return std::nullopt;
  std::vector<std::byte> found(expected.size());
  const device::BoxCopy fetch{one.part, src, {one.part, src.dtype, found.data()}};
  SCALAI_RETURN_IF_ERROR(backend.copy({&fetch, 1}));
  const auto differs = std::mismatch(expected.begin(), expected.end(), found.begin()).first;
  if (differs == expected.end()) return fmt::format("box {}: its digest is wrong", one.part.str());
  const auto element = (differs - expected.begin()) / static_cast<int64_t>(tensor::size_of(src.dtype));
  return fmt::format("box {}: element {} of it is not what {} has", one.part.str(), element, stored.file);
}

}  // namespace scalai::executor::worker
