#pragma once
// For tests: a folder of their own, and the state of a job whose every byte follows from tensor, element and byte.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::store {

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string pattern = testing::TempDir() + "scalai-checkpoint-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

// 4 tensor-parallel · data-parallel · pipeline ranks: replicas, flat shards, uneven and empty parts, a tied tensor, a
// scalar, an empty tensor, and names that look like keys of others.
inline collection::Collection sample_collection() {
  const absl::StatusOr<collection::CollectionFile> file =
      collection::parse_collection(R"(
    schema_version: 1 name: "sample" epoch: 5
    meshes { name: "dense" axes { name: "tp" size: 2 } axes { name: "dp" size: 2 } axes { name: "pp" size: 2 } }
    devices: "0-7"
    tensors { name: "w" dtype: "BF16" shape: [8, 6] cuts { axis: "tp" dim: 0 } }
    tensors { name: "columns" dtype: "F32" shape: [5, 9] cuts { axis: "tp" dim: 1 rule: BALANCED } pins { axis: "pp" at: 0 } }
    tensors { name: "tied" dtype: "F16" shape: [7] pins { axis: "pp" at: [0, 1] } }
    tensors { name: "flat" dtype: "F32" shape: [3, 5, 7] kind: EXP_AVG cuts { axis: "tp" dim: 2 rule: CEIL }
              cuts { axis: "dp" flat: true rule: CEIL } pins { axis: "pp" at: 1 } }
    tensors { name: "flat#0" dtype: "U8" shape: [3] }
    tensors { name: "few" dtype: "I16" shape: [1, 4] cuts { axis: "dp" dim: 0 rule: CEIL } }
    tensors { name: "none" dtype: "F64" shape: [0, 4] }
    tensors { name: "step" dtype: "I64" kind: SCALAR })",
                                   "sample", collection::FileRole::kPlanned);
  SCALAI_CHECK(file.ok(), message_of(file.status()));
  return file->collection;
}

inline std::byte content(TensorId tensor, int64_t element, int64_t byte) {
  const auto mixed = static_cast<uint64_t>(tensor.value * 1'000'003 + element * 8 + byte) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>(mixed >> 56);
}

// The bytes of a box, element by element.
inline std::vector<std::byte> content_of(const collection::LogicalTensor& tensor, TensorId id, const tensor::Box& box) {
  std::vector<std::byte> bytes;
  const auto strides = tensor.shape.strides();
  std::array<int64_t, tensor::kMaxRank> index = box.lo;
  for (int64_t i = 0; i < box.volume(); ++i) {
    int64_t element = 0;
    for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) element += index[d] * strides[d];
    for (int64_t b = 0; b < tensor::size_of(tensor.dtype); ++b) bytes.push_back(content(id, element, b));
    for (int dim = box.rank - 1; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++index[d] < box.hi[d]) break;
      index[d] = box.lo[d];
    }
  }
  return bytes;
}

// Gives the bytes of any box; `keep` holds the last.
inline Provider provider_of(const collection::Collection& collection, std::vector<std::byte>& keep) {
  return [&](TensorId id, const tensor::Box& box) -> absl::StatusOr<std::span<const std::byte>> {
    keep = content_of(collection.tensors[static_cast<size_t>(id.value)], id, box);
    return std::span<const std::byte>(keep);
  };
}

// A whole checkpoint, as one process would write it.
inline absl::Status write_checkpoint(const std::string& folder, const collection::Collection& collection,
                                     const Stamp& stamp) {
  absl::StatusOr<Writer> writer = Writer::begin(folder, collection, stamp);
  if (!writer.ok()) return writer.status();
  std::vector<std::byte> keep;
  std::vector<std::string> parts;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    absl::StatusOr<std::string> part = writer->write_rank(LogicalRank(rank), provider_of(collection, keep));
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  return writer->finish(parts);
}

inline tensor::Box random_box(Random& random, const tensor::Shape& shape) {
  tensor::Box box = tensor::Box::whole(shape);
  for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
    const int64_t a = random.between(0, box.hi[d]);
    const int64_t b = random.between(0, box.hi[d]);
    box.lo[d] = std::min(a, b);
    box.hi[d] = std::max(a, b);
  }
  return box;
}

// Flips a bit of one byte in a file.
inline void damage(const std::string& path, int64_t offset) {
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  SCALAI_CHECK(file != nullptr, path);
  std::fseek(file, static_cast<long>(offset), SEEK_SET);
  const int byte = std::fgetc(file);
  std::fseek(file, static_cast<long>(offset), SEEK_SET);
  std::fputc(byte ^ 1, file);
  std::fclose(file);
}

}  // namespace scalai::store
