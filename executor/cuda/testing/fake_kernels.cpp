// The launchers of the kernels over the fake of CUDA: the kernels' cores, block by block and thread by thread.

#include "executor/cuda/kernels/cast_core.h"
#include "executor/cuda/kernels/content_core.h"
#include "executor/cuda/kernels/copy_core.h"
#include "executor/cuda/kernels/digest_core.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/steps.h"
#include "executor/cuda/testing/fake_cuda.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda::kernels {
namespace {
using cuda::fake_reaches;

constexpr uint32_t kFakeThreads = 32;

void check_reached(cudaStream_t stream, const CopyPiece& piece) {
  SCALAI_CHECK((piece.src == nullptr || fake_reaches(stream, piece.src)) && fake_reaches(stream, piece.dst));
}
void check_reached(cudaStream_t stream, const CastPiece& piece) {
  SCALAI_CHECK(fake_reaches(stream, piece.src) && fake_reaches(stream, piece.dst));
}
void check_reached(cudaStream_t stream, const ContentPiece& piece) { SCALAI_CHECK(fake_reaches(stream, piece.data)); }
void check_reached(cudaStream_t stream, const DigestPiece& piece) { SCALAI_CHECK(fake_reaches(stream, piece.src)); }

template <class Piece, class Core>
cudaError_t launch(const Work<Piece>& work, uint32_t blocks, cudaStream_t stream, Core core) {
  if (work.tiles == 0) return cudaSuccess;
  SCALAI_CHECK(reinterpret_cast<uintptr_t>(work.pieces) % 16 == 0, "descriptors are loaded 16 bytes at a time");
  cuda::put_fake_kernel(stream, work.pieces, [=] {
    for (uint32_t i = 0; i < work.count; ++i) check_reached(stream, work.pieces[i]);
    for (uint32_t block = 0; block < blocks; ++block) {
      for (uint32_t thread = 0; thread < kFakeThreads; ++thread) core(work, block, blocks, thread, kFakeThreads);
    }
  });
  return cudaSuccess;
}

template <class Step>
cudaError_t launch_step_on(const Step& work, uint32_t blocks, cudaStream_t stream,
                           std::initializer_list<const std::byte*> arrays) {
  if (transform::step_core::size_of(work) == 0) return cudaSuccess;
  const std::vector<const std::byte*> touched = arrays;
  cuda::put_fake_kernel(stream, nullptr, [=] {
    for (const std::byte* array : touched)
      SCALAI_CHECK(fake_reaches(stream, array) && reinterpret_cast<uintptr_t>(array) % 16 == 0);
    const int64_t threads = int64_t{blocks} * kFakeThreads;
    for (int64_t thread = 0; thread < threads; ++thread) transform::step_core::run(work, thread, threads);
  });
  return cudaSuccess;
}
}  // namespace

cudaError_t launch_copy(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream, copy_tiles);
}
cudaError_t launch_shift(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream, shift_tiles);
}
cudaError_t launch_cast(const Work<CastPiece>& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream, cast_tiles);
}
cudaError_t launch_fill(const Work<ContentPiece>& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream, fill_tiles);
}
cudaError_t launch_check(const Work<ContentPiece>& work, CheckResult* results, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream,
                [results](const Work<ContentPiece>& all, auto... where) { check_tiles(all, results, where...); });
}
cudaError_t launch_digest(const Work<DigestPiece>& work, uint64_t* sums, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream,
                [sums](const Work<DigestPiece>& all, auto... where) { digest_tiles(all, sums, where...); });
}

cudaError_t launch_step(const transform::step_core::Elements& work, uint32_t blocks, cudaStream_t stream) {
  return launch_step_on(work, blocks, stream, {work.in, work.out});
}
cudaError_t launch_step(const transform::step_core::LowRank& work, uint32_t blocks, cudaStream_t stream) {
  return launch_step_on(work, blocks, stream, {work.a, work.b, work.values});
}
cudaError_t launch_step(const transform::step_core::RowPeaks& work, uint32_t blocks, cudaStream_t stream) {
  return launch_step_on(work, blocks, stream, {work.in, work.peaks});
}
cudaError_t launch_step(const transform::step_core::RowCodes& work, uint32_t blocks, cudaStream_t stream) {
  return launch_step_on(work, blocks, stream, {work.in, work.peaks, work.out});
}

}  // namespace scalai::executor::cuda::kernels
