#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/store/views/internal/file_image.h"
#include "ptc/store/views/reshard.h"

namespace scalai::store {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLargestChunk = 4 * kMiB;
constexpr int64_t kSmallestChunk = int64_t{1} << 16;
constexpr int64_t kProgramBytes = 48 * kMiB;  // code, libraries, stacks, the allocator's leftovers
constexpr int64_t kTensorBytes = 2048;        // of one tensor's entry while the manifest is made
constexpr unsigned kFewThreads = 64;          // that any machine has room for

PlannedFile planned(const internal::FileImage& image) {
  PlannedFile file{.name = image.name(), .bytes = image.size()};
  std::set<uint32_t> sources;
  int64_t covered = 0;
  for (const FileFrame::Text& text : image.texts()) covered += std::ssize(text.bytes);
  for (const internal::FileImage::Tensor& tensor : image.tensors()) {
    for (const CopyBlock& block : tensor.blocks) {
      sources.insert(block.file);
      file.runs += block.runs();
      file.smallest_run = file.smallest_run == 0 ? block.run_bytes() : std::min(file.smallest_run, block.run_bytes());
      covered += block.bytes();
    }
  }
  file.source_files = static_cast<int64_t>(sources.size());
  file.padding_bytes = image.size() - covered;
  return file;
}

// Everything that tells one file of a view from another of the same name and size.
void add_content(const internal::FileImage& image, Hasher& content) {
  for (const FileFrame::Text& text : image.texts()) content.add(text.offset).add(text.bytes);
  for (const internal::FileImage::Tensor& tensor : image.tensors()) {
    content.add(static_cast<int64_t>(tensor.blocks.size()));
    for (const CopyBlock& block : tensor.blocks) {
      content.add(int64_t{block.file}).add(int64_t{block.dims}).add(block.src).add(block.dst);
      for (uint32_t d = 0; d < block.dims; ++d) {
        content.add(block.extent[d]).add(block.src_stride[d]).add(block.dst_stride[d]);
      }
    }
  }
}

absl::Status add_content(const View& view, size_t file, Hasher& content) {
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, view.open(file));
  if (const std::string version = source->version(); !version.empty()) {  // a file that goes along may be large
    content.add(version);
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_all(*source));
  content.add(text);
  return absl::OkStatus();
}

struct Fixed {
  int64_t bytes = kProgramBytes;
  int64_t largest_image = 0;
  int64_t of_thread = Gatherer::kCoverBytes;  // beside its chunk
};

int64_t peak_of(const Fixed& fixed, int threads, int64_t chunk) {
  return fixed.bytes + threads * (chunk + fixed.of_thread) + (threads + 1) * fixed.largest_image;
}

absl::Status choose(const Fixed& fixed, const ReshardOptions& options, ReshardPlan& plan) {
  const unsigned cores = hardware_threads();
  plan.threads = options.threads > 0 ? std::min(options.threads, static_cast<int>(std::max(kFewThreads, 4 * cores)))
                                     : static_cast<int>(cores);
  plan.chunk_bytes = kLargestChunk;
  while (peak_of(fixed, plan.threads, plan.chunk_bytes) > options.memory_cap) {
    if (plan.chunk_bytes > kSmallestChunk) {
      plan.chunk_bytes /= 2;
    } else if (plan.threads > 1) {
      --plan.threads;
    } else {
      const int64_t smallest = (peak_of(fixed, 1, kSmallestChunk) + kMiB - 1) / kMiB;
      return invalid(fmt::format("a memory cap of {} is too small; this needs at least {}MiB",
                                 format_bytes(options.memory_cap), smallest));
    }
  }
  plan.peak_memory_bytes = peak_of(fixed, plan.threads, plan.chunk_bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReshardPlan> plan_reshard(const View& view, const ReshardOptions& options) {
  ReshardPlan plan;
  Fixed fixed;
  int64_t tensors = 0;
  Hasher content;
  for (size_t f = 0; f < view.files(); ++f) {
    content.add(view.file_name(f));
    if (!view.has_tensors(f)) {
      SCALAI_ASSIGN_OR_RETURN(const int64_t bytes, view.size(f));
      SCALAI_RETURN_IF_ERROR(add_content(view, f, content));
      plan.files.push_back({.name = view.file_name(f), .bytes = bytes});
      fixed.bytes += 3 * bytes;
    } else {
      SCALAI_ASSIGN_OR_RETURN(const auto image, view.image(f));
      add_content(*image, content);
      plan.files.push_back(planned(*image));
      fixed.largest_image = std::max(fixed.largest_image, image->memory_bytes());
      tensors += static_cast<int64_t>(image->tensors().size());
    }
    plan.bytes_total += plan.files.back().bytes;
  }
  plan.content = content.hex();
  fixed.bytes += view.checkpoint().memory_bytes() + view.checkpoint().shared_bytes() + tensors * kTensorBytes;
  fixed.of_thread += view.checkpoint().thread_bytes();
  // The target's own index while it is compared with the source.
  if (options.verify) fixed.bytes += 2 * view.checkpoint().memory_bytes() + tensors * kTensorBytes;
  SCALAI_RETURN_IF_ERROR(choose(fixed, options, plan));
  return plan;
}

}  // namespace scalai::store
