#pragma once
// For tests: datasets of all formats written by hand into a folder, indexed by us, and what their samples should be.
// Bytes come from a seed.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/crc32c.h"
#include "ptc/store/datasets/samples.h"

namespace scalai::datasets::internal {

struct TestSample {
  std::string bytes;             // as in the data file
  std::vector<int32_t> lengths;  // Megatron: tokens of each sequence
};

struct TestDataset {
  Format format = Format::kFixed;
  std::vector<std::string> files;
  std::vector<TestSample> documents;
  std::shared_ptr<const Index> index;
};

struct TestShape {
  Format format = Format::kFixed;
  int64_t documents = 100;
  int files = 1;
  int64_t most_bytes = 40;  // of a payload
  int64_t most_sequences = 3;
};

inline constexpr int64_t kTestRecordBytes = 12;  // fixed
inline constexpr int64_t kTestTokenBytes = 2;    // Megatron

template <typename Value>
void append_value(std::string& text, Value value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string random_bytes(Random& random, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

inline std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tf_record(const std::string& payload) {
  const auto crc = [](std::string_view text) { return masked(crc32c(std::as_bytes(std::span(text)))); };
  std::string record;
  append_value(record, static_cast<uint64_t>(payload.size()));
  append_value(record, crc(record));
  return record + payload + [&] {
    std::string end;
    append_value(end, crc(payload));
    return end;
  }();
}

inline TestSample make_document(const TestShape& shape, int64_t number, Random& random) {
  const auto payload = [&] { return random_bytes(random, random.between(0, shape.most_bytes)); };
  switch (shape.format) {
    case Format::kFixed: return {random_bytes(random, kTestRecordBytes), {}};
    case Format::kTfRecord: return {tf_record(payload()), {}};
    case Format::kTar: {
      std::string members = tar_member(fmt::format("a/{:06}.txt", number), payload());
      if (random.below(2) == 0) members += tar_member(fmt::format("a/{:06}.cls.id", number), payload());
      return {members, {}};
    }
    case Format::kMegatron: break;
  }
  TestSample sample;
  for (int64_t i = random.between(0, shape.most_sequences); i > 0; --i) {  // documents and sequences may be empty
    sample.lengths.push_back(static_cast<int32_t>(random.between(0, shape.most_bytes)));
    sample.bytes += random_bytes(random, sample.lengths.back() * kTestTokenBytes);
  }
  return sample;
}

// The .idx of the published format for these documents.
inline std::string idx_of(std::span<const TestSample> documents) {
  std::string lengths, pointers, doc_idx;
  int64_t at = 0, sequences = 0;
  append_value(doc_idx, int64_t{0});
  for (const TestSample& document : documents) {
    for (const int32_t length : document.lengths) {
      append_value(lengths, length);
      append_value(pointers, at);
      at += length * kTestTokenBytes;
      ++sequences;
    }
    append_value(doc_idx, sequences);
  }
  std::string text("MMIDIDX\0\0", 9);
  append_value(text, uint64_t{1});
  append_value(text, uint8_t{8});
  append_value(text, sequences);
  append_value(text, static_cast<int64_t>(documents.size()) + 1);
  return text + lengths + pointers + doc_idx;
}

// Writes FOLDER/N.bin and so on, and FOLDER/index.
inline TestDataset make_dataset(const std::string& folder, const TestShape& shape, Random& random) {
  TestDataset dataset = {.format = shape.format};
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  for (int file = 0; file < shape.files; ++file) {
    const size_t first = dataset.documents.size();
    const auto end = static_cast<size_t>(shape.documents * (file + 1) / shape.files);
    std::string data;
    while (dataset.documents.size() < end) {
      dataset.documents.push_back(make_document(shape, static_cast<int64_t>(dataset.documents.size()), random));
      data += dataset.documents.back().bytes;
    }
    if (shape.format == Format::kTar) data += std::string(1024, '\0');
    dataset.files.push_back(fmt::format("{}/{}.bin", folder, file));
    write(dataset.files.back(), data);
    if (shape.format != Format::kMegatron) continue;
    write(fmt::format("{}/{}.idx", folder, file), idx_of(std::span(dataset.documents).subspan(first)));
  }
  const absl::StatusOr<BuildSummary> built =
      build_index({.format = shape.format,
                   .files = dataset.files,
                   .out = folder + "/index",
                   .record_bytes = shape.format == Format::kFixed ? kTestRecordBytes : 0});
  SCALAI_CHECK(built.ok(), message_of(built.status()));
  absl::StatusOr<std::shared_ptr<const Index>> index = Index::open(folder + "/index");
  SCALAI_CHECK(index.ok(), message_of(index.status()));
  dataset.index = *index;
  return dataset;
}

// What the samples are: the documents, or windows cut from all their tokens by hand.
inline std::vector<TestSample> samples_of(const TestDataset& dataset, int64_t sequence) {
  if (sequence == 0) return dataset.documents;
  std::string tokens;
  for (const TestSample& document : dataset.documents) tokens += document.bytes;
  std::vector<TestSample> windows;
  const auto step = static_cast<size_t>(sequence * kTestTokenBytes);
  const size_t window = step + kTestTokenBytes;
  for (size_t at = 0; at + window <= tokens.size(); at += step) {
    windows.push_back({tokens.substr(at, window), {static_cast<int32_t>(sequence + 1)}});
  }
  return windows;
}

// Counts the reads of the files it opens.
inline SourceOpener counting_opener(const std::shared_ptr<int64_t>& reads) {
  class Counting final : public ByteSource {
   public:
    Counting(ByteSourcePtr source, std::shared_ptr<int64_t> count)
        : source_(std::move(source)), reads_(std::move(count)) {}
    const std::string& name() const override { return source_->name(); }
    int64_t size() const override { return source_->size(); }
    absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
      ++*reads_;
      return source_->read(offset, dst);
    }

   private:
    ByteSourcePtr source_;
    std::shared_ptr<int64_t> reads_;
  };
  return [reads](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, open_file_source(location));
    return std::make_shared<Counting>(std::move(source), reads);
  };
}

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string pattern = testing::TempDir() + "scalai-views-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }
  // An empty folder for the next dataset.
  std::string next_folder() {
    const std::string folder = fmt::format("{}/{}", folder_, folders_++);
    std::filesystem::create_directory(folder);
    return folder;
  }

  std::string folder_;
  int folders_ = 0;
};

// `bytes` of the source from `offset`, or the error's message.
inline std::string read_text(const ByteSource& source, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '?');
  const absl::Status status = source.read(offset, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : message_of(status);
}

}  // namespace scalai::datasets::internal
