// Two workers with two GPUs each, two devices on each GPU, as threads; the library that stands in for NCCL carries.

#include "executor/worker/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "executor/device/testing/forwarding_backend.h"
#include "executor/worker/testing/support.h"
#include "ptc/base/status.h"

namespace scalai::executor::worker {

using tensor::DType;

namespace {

constexpr int kDevices = 4;  // of a host
constexpr int64_t kElements = 5000;

std::map<DeviceId, Places::Gpu> all_gpus() {
  std::map<DeviceId, Places::Gpu> gpus;
  for (int device = 0; device < 2 * kDevices; ++device)
    gpus[DeviceId(device)] = {HostId(device / kDevices), device % kDevices / 2};
  return gpus;
}

// Two devices on a GPU; counts the staging memory that is asked for.
class CountingBackend : public device::ForwardingBackend {
 public:
  CountingBackend() : device::ForwardingBackend(device::make_host_backend({.devices_per_gpu = 2})) {}
  absl::StatusOr<std::unique_ptr<device::Staging>> staging(int device, int64_t bytes) override {
    staged = std::max<int64_t>(staged, bytes);
    return device::ForwardingBackend::staging(device, bytes);
  }
  std::atomic<int64_t> staged = 0;  // the most for one GPU
};

class Pair : public ::testing::Test {
 protected:
  Pair() {
    const std::string id = exchange_[0]->make_unique_id().value();
    both([&](int host) { return exchange_[static_cast<size_t>(host)]->join(all_gpus(), HostId(host), id, 20); });
  }
  template <class Work>
  void both(Work work) {
    std::array<absl::Status, 2> done;
    std::thread other([&] { done[1] = work(1); });
    done[0] = work(0);
    other.join();
    for (const absl::Status& status : done) EXPECT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<CountingBackend> backend_ = std::make_unique<CountingBackend>();
  std::array<std::unique_ptr<Exchange>, 2> exchange_ = {make(), make()};

 private:
  std::unique_ptr<Exchange> make() {
    return std::make_unique<Exchange>(Exchange::Options{
        .api = fake_nccl().api(), .backend = backend_.get(), .channel = {.chunk_bytes = 4096, .stall_s = 10}});
  }
};

TEST_F(Pair, CarriesBetweenHostsOnly) {
  EXPECT_TRUE(exchange_[0]->carries(DeviceId(0), DeviceId(7)));
  EXPECT_FALSE(exchange_[0]->carries(DeviceId(0), DeviceId(3)));
  EXPECT_FALSE(exchange_[0]->carries(DeviceId(0), DeviceId(8))) << "no such device";
  EXPECT_TRUE(exchange_[0]->joined(all_gpus()));
  auto fewer = all_gpus();
  fewer.erase(DeviceId(7));
  EXPECT_FALSE(exchange_[0]->joined(fewer));
  exchange_[0]->abort();
  EXPECT_FALSE(exchange_[0]->joined(all_gpus())) << "what was given up is joined anew";
}

// Every device sends to every one of the other host, told in another order on each side.
TEST_F(Pair, MessagesOfDevicesThatShareAGpuDoNotMix) {
  const tensor::Box whole({0}, {kElements});
  const auto content = [](int src, int dst) {
    return state::Content{{static_cast<uint64_t>(src * 100 + dst)}, {kElements}, 1};
  };
  both([&](int host) {
    std::vector<std::vector<float>> memory(2 * kDevices * kDevices, std::vector<float>(kElements));
    std::vector<DeviceMessage> sends, receives;
    for (int i = 0; i < kDevices * kDevices; ++i) {
      // One host counts up, the other one down.
      const int at = host == 0 ? i : kDevices * kDevices - 1 - i;
      const int own = host * kDevices + at / kDevices, other = (1 - host) * kDevices + at % kDevices;
      const auto target = [&](size_t n) {
        return state::Target{whole, DType::kF32, reinterpret_cast<std::byte*>(memory[n].data())};
      };
      const state::Target out = target(static_cast<size_t>(2 * i)), in = target(static_cast<size_t>(2 * i + 1));
      state::fill_box(content(own, other), whole, out);
      sends.push_back({DeviceId(own), DeviceId(other), {{whole, DType::kF32, {{whole, out}}}}});
      receives.push_back({DeviceId(other), DeviceId(own), {{whole, DType::kF32, {{whole, in}}}}});
    }
    Exchange& exchange = *exchange_[static_cast<size_t>(host)];
    SCALAI_RETURN_IF_ERROR(exchange.reserve({{DeviceId(host * kDevices), 4}}));
    SCALAI_RETURN_IF_ERROR(exchange.run(sends, receives, nullptr));
    for (const DeviceMessage& message : receives) {
      const auto wrong = state::check_box(content(message.src.value, message.dst.value), whole,
                                          message.boxes.front().held.front().at.source());
      EXPECT_FALSE(wrong) << message.src.value << " → " << message.dst.value << ": " << wrong->str();
    }
    return absl::OkStatus();
  });
}

// After a host has lost a GPU, or changed its devices.
TEST_F(Pair, JoinsAnewWithOtherGpus) {
  auto fewer = all_gpus();
  fewer.erase(DeviceId(6));
  fewer.erase(DeviceId(7));
  const std::string id = exchange_[0]->make_unique_id().value();
  both([&](int host) { return exchange_[static_cast<size_t>(host)]->join(fewer, HostId(host), id, 20); });
  EXPECT_TRUE(exchange_[0]->joined(fewer));
  EXPECT_FALSE(exchange_[0]->carries(DeviceId(0), DeviceId(7)));
  const tensor::Box whole({0}, {kElements});
  const state::Content content{{7}, {kElements}, 1};
  both([&](int host) {
    std::vector<float> memory(kElements);
    const state::Target at{whole, DType::kF32, reinterpret_cast<std::byte*>(memory.data())};
    const std::vector<DeviceMessage> message = {{DeviceId(5), DeviceId(2), {{whole, DType::kF32, {{whole, at}}}}}};
    Exchange& exchange = *exchange_[static_cast<size_t>(host)];
    if (host == 1) state::fill_box(content, whole, at);
    SCALAI_RETURN_IF_ERROR(host == 1 ? exchange.run(message, {}, nullptr) : exchange.run({}, message, nullptr));
    EXPECT_FALSE(state::check_box(content, whole, at.source()));
    return absl::OkStatus();
  });
}

// 16 messages of the two devices of a GPU with 4 others are one to and from each of three other GPUs at most, three
// chunks each.
TEST_F(Pair, StagingIsForGpusNotForDevices) {
  const absl::Status reserved = exchange_[0]->reserve({{DeviceId(0), 8}, {DeviceId(1), 8}});
  EXPECT_TRUE(reserved.ok()) << reserved;
  EXPECT_EQ(backend_->staged, 2 * 3 * 3 * 4096);
}

TEST_F(Pair, ADeadNeighbourIsNoticedAtOnce) {
  std::vector<float> memory(kElements);
  const tensor::Box whole({0}, {kElements});
  const state::Target in{whole, DType::kF32, reinterpret_cast<std::byte*>(memory.data())};
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status =
      exchange_[0]->run({}, {{DeviceId(4), DeviceId(0), {{whole, DType::kF32, {{whole, in}}}}}}, [] { return false; });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10)) << "not by the deadline";
}

}  // namespace
}  // namespace scalai::executor::worker
