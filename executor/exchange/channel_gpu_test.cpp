// A Channel over real NCCL: one GPU sends to itself, because NCCL refuses two ranks on one.

#include <gtest/gtest.h>

#include "executor/cuda/cuda_backend.h"
#include "executor/exchange/channel.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::executor::exchange {

using tensor::Box;
using tensor::DType;

namespace {

class OneRank : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = cuda::make_cuda_backend({});
    if (!backend.ok()) GTEST_SKIP() << message_of(backend.status());
    backend_ = *std::move(backend);
    const auto nccl = nccl::NcclLibrary::open();
    if (!nccl.ok()) GTEST_SKIP() << message_of(nccl.status());
    api_ = nccl->api();
    ASSERT_TRUE(backend_->make_current(0).ok());
    const auto id = nccl::make_unique_id(api_);
    ASSERT_TRUE(id.ok()) << id.status();
    auto joined = nccl::Communicator::join(api_, {.id = *id, .rank = 0, .size = 1},
                                           std::chrono::steady_clock::now() + std::chrono::seconds(60));
    ASSERT_TRUE(joined.ok()) << joined.status();
    auto channel = Channel::create(*backend_, 0, std::make_shared<nccl::Communicator>(*std::move(joined)),
                                   {.chunk_bytes = int64_t{1} << 20});
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
  }

  nccl::NcclApi api_;
  std::unique_ptr<device::Backend> backend_;
  std::unique_ptr<Channel> channel_;
};

TEST_F(OneRank, CarriesDenseAndStridedBoxesAndConverts) {
  constexpr int64_t kRows = 3000, kColumns = 1000;
  const tensor::Shape shape = {kRows, kColumns};
  const Box whole({0, 0}, {kRows, kColumns});
  const auto memory = backend_->memory_of_device(0, {.capacity = int64_t{256} << 20});
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto add = [&](DType dtype) {
    return state::Target{whole, dtype,
                         (*memory)->data((*memory)->allocate(whole.volume() * tensor::size_of(dtype)).value())};
  };
  struct Way {
    Box part;
    DType from, wire, to;
  };
  const std::vector<Way> ways = {{whole, DType::kF32, DType::kF32, DType::kF32},
                                 {Box({1, 3}, {2999, 700}), DType::kF32, DType::kF32, DType::kF32},
                                 {Box({0, 1}, {3000, 998}), DType::kF32, DType::kBF16, DType::kBF16},
                                 {Box({5, 0}, {77, 1000}), DType::kBF16, DType::kBF16, DType::kF32}};
  for (const Way& way : ways) {
    SCOPED_TRACE(way.part.str());
    const state::Target out = add(way.from), in = add(way.to);
    const device::BoxFill fill{{{42}, shape, 7}, whole, out};
    ASSERT_TRUE(backend_->fill({&fill, 1}).ok());
    const std::vector<Traffic> sends = {{0, {{way.part, way.wire, {{way.part, out}}}}}};
    const std::vector<Traffic> receives = {{0, {{way.part, way.wire, {{way.part, in}}}}}};
    const absl::Status done = channel_->run(sends, receives);
    ASSERT_TRUE(done.ok()) << done;
    const device::BoxCheck check{{{42}, shape, 7, way.wire}, way.part, in.source()};
    const auto wrong = backend_->check({&check, 1});
    ASSERT_TRUE(wrong.ok()) << wrong.status();
    EXPECT_FALSE(wrong->front()) << wrong->front()->str();
  }
}

TEST_F(OneRank, AbortsWhileSomebodyWaits) {
  channel_->abort();
  EXPECT_TRUE(absl::IsUnavailable(channel_->run({}, {})));
}

}  // namespace
}  // namespace scalai::executor::exchange
