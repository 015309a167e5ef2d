#include "executor/worker/foreign_tensors.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <utility>

#include "executor/worker/testing/stepping_backend.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/views/transforms.h"

namespace scalai::executor::worker {

using tensor::Box;
using tensor::DType;

namespace foreign_tensors_test {

using ::testing::HasSubstr;

// One tensor of F32, whose columns lie on the first two devices, and again on the next two.
struct SplitRun {
  SplitRun() {
    side = plan::collection_of({{"tp", 2}, {"dp", 2}}, plan::first_devices(4),
                               {plan::tensor_of("w", {3, 4}, {plan::cut_over("tp", 1)}, {})});
    message.add_transforms("quantise(i8)");
    message.set_collection(collection::collection_text(side, {}));
    for (int i = 0; i < 2; ++i) message.add_tensors(0);
    const auto whole = store::Checkpoint::of_held(
        {.place = "x", .collection = side, .tensors = {}, .stamp = {}, .id = "", .read = {}});
    const std::vector<std::string> texts = {"quantise(i8)"};
    message.set_transforms_digest(store::transformed(*whole, *transform::parse_steps(texts), {}, "")->digest);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 5;
  }
  // Of devices that live.
  absl::Status part(const Location& device, const Box& box, const state::Target& dst) {
    asked.push_back(device.index);
    if (lost.contains(device.index)) return absl::UnavailableError("gone");
    const Box all = Box::whole(side.tensors[0].shape);
    const device::BoxCopy copy{box, {all, DType::kF32, reinterpret_cast<const std::byte*>(values.data())}, dst};
    return backend->copy({&copy, 1});
  }
  absl::StatusOr<std::vector<int8_t>> read(const ForeignTensors& tensors, int device, const Box& box) {
    asked.clear();
    std::vector<int8_t> codes(static_cast<size_t>(box.volume()));
    const state::Target dst{box, DType::kI8, reinterpret_cast<std::byte*>(codes.data())};
    SCALAI_RETURN_IF_ERROR(tensors.read(
        *backend, Location::device(DeviceId(device)), TensorId(0), box, dst,
        [&](const Location& from, const Box& wanted, const state::Target& into) { return part(from, wanted, into); }));
    return codes;
  }

  collection::Collection side;
  proto::Foreign message;
  std::vector<plan::TensorInfo> planned = {
      {.name = "w", .dtype = DType::kI8, .from_dtype = DType::kI8, .shape = {3, 4}}, {.name = "w_scale", .shape = {3}}};
  std::array<float, 12> values{};
  std::unique_ptr<device::Backend> backend = device::make_host_backend();
  std::vector<int> asked;
  std::set<int> lost;
};

TEST(ForeignTensorsTest, RowsComeFromWhoeverHasTheirParts) {
  SplitRun run;
  const ForeignTensors tensors = ForeignTensors::make(run.message, run.planned).value();
  EXPECT_TRUE(tensors.is_made(TensorId(0)));
  const std::vector<int8_t> row = {-127, -102, -76, -51};  // -5 … -2 in codes of 5 / 127
  const Box first({0, 0}, {1, 4}), part({0, 2}, {1, 3});
  EXPECT_EQ(run.read(tensors, 0, first).value(), row);
  EXPECT_EQ(run.asked, (std::vector<int>{0, 1}));
  EXPECT_EQ(run.read(tensors, 2, part).value(), std::vector<int8_t>{-76}) << "of the whole row";
  EXPECT_EQ(run.asked, (std::vector<int>{2, 3})) << "the neighbours of the one that was named";
  run.lost = {3};
  EXPECT_EQ(run.read(tensors, 2, first).value(), row);
  EXPECT_EQ(run.asked, (std::vector<int>{2, 3, 1}));
  run.lost = {1, 3};
  EXPECT_TRUE(absl::IsUnavailable(run.read(tensors, 2, first).status()));
}

TEST(ForeignTensorsTest, StepsAreComputedWhereTheResultGoes) {
  SplitRun run;
  auto stepping = std::make_unique<SteppingBackend>(std::make_shared<transform::LoopingDevice>(8192));
  SteppingBackend& backend = *stepping;
  run.backend = std::move(stepping);
  const ForeignTensors tensors = ForeignTensors::make(run.message, run.planned).value();
  const Box all({0, 0}, {3, 4}), part({0, 2}, {1, 3});
  const std::vector<int8_t> codes = run.read(tensors, 0, all).value();
  EXPECT_EQ(backend.device->lent, 1);
  EXPECT_EQ(run.read(tensors, 2, part).value(), std::vector<int8_t>{-76});
  EXPECT_EQ(backend.device->lent, 2);
  run.lost = {1, 3};
  EXPECT_TRUE(absl::IsUnavailable(run.read(tensors, 2, all).status()));
  run.lost = {};
  const float five = std::exchange(run.values[5], std::numeric_limits<float>::infinity());
  EXPECT_THAT(std::string(run.read(tensors, 2, all).status().message()), HasSubstr("not finite"));
  run.values[5] = five;
  backend.full = true;  // the host makes the same, as it does where nothing fits
  EXPECT_EQ(run.read(tensors, 0, all).value(), codes);
  EXPECT_EQ(backend.device->lent, 4);
  backend.full = false;
  backend.device = std::make_shared<transform::LoopingDevice>(512);
  EXPECT_EQ(run.read(tensors, 0, all).value(), codes);
  EXPECT_EQ(backend.device->lent, 0);
}

TEST(ForeignTensorsTest, RefusesWhatThePlanIsNotFor) {
  const auto refused = [](const std::function<void(SplitRun&)>& change) {
    SplitRun run;
    change(run);
    return std::string(ForeignTensors::make(run.message, run.planned).status().message());
  };
  EXPECT_EQ(refused([](SplitRun&) {}), "");
  EXPECT_THAT(refused([](SplitRun& run) { run.message.set_transforms(0, "quantise(i9)"); }), HasSubstr("is not i8"));
  EXPECT_THAT(refused([](SplitRun& run) { run.message.set_transforms_digest("x"); }),
              HasSubstr("start scalai sync again"));
  EXPECT_THAT(refused([](SplitRun& run) { run.message.set_collection("?"); }), HasSubstr("the training run"));
  EXPECT_THAT(refused([](SplitRun& run) { run.planned[1].name = "v"; }), HasSubstr("no tensor \"v\""));
  EXPECT_THAT(refused([](SplitRun& run) { run.planned[1].shape = {4}; }), HasSubstr("no tensor \"w_scale\""));
  EXPECT_THAT(refused([](SplitRun& run) { run.planned[0].dtype = DType::kU8; }), HasSubstr("as I8, not of"));
  EXPECT_THAT(refused([](SplitRun& run) { run.message.set_tensors(1, 7); }), HasSubstr("no tensor \"w_scale\""));
  SplitRun plain;
  plain.message.clear_transforms();
  EXPECT_FALSE(ForeignTensors::make(plain.message, plain.planned)->is_made(TensorId(0)));
}

}  // namespace foreign_tensors_test
}  // namespace scalai::executor::worker
