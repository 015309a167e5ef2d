// Sync with steps (ptc/state/transform) on the way, against whole tensors that the same steps are applied to here.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "executor/sync/testing/sync_fixture.h"
#include "executor/worker/testing/stepping_backend.h"
#include "ptc/base/random.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/testing/memory_state.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::executor::sync {

using tensor::Box;
using tensor::DType;

namespace sync_transform_test {

using collection::LogicalTensor;
using tensor::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using transform::rounded;

using Values = std::vector<double>;

struct Whole {
  DType dtype = DType::kF32;
  Shape shape;
  Values values;
};

class SyncTransformTest : public SyncTest {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + fmt::format("sync_transform_{}", ::getpid());
    std::filesystem::create_directories(folder_ + "/sub");
  }
  void TearDown() override {
    end();
    std::filesystem::remove_all(folder_);
  }
  // One file of tensors in F32.
  void write_state(const std::string& file, const std::map<std::string, Whole>& tensors) const {
    std::vector<store::TensorSpec> specs;
    std::map<std::string, std::vector<float>> floats;
    for (const auto& [name, whole] : tensors) {
      std::vector<int64_t> shape;
      for (int d = 0; d < whole.shape.rank(); ++d) shape.push_back(whole.shape[d]);
      specs.push_back({name, DType::kF32, shape});
      for (const double value : whole.values) floats[name].push_back(static_cast<float>(value));
    }
    const absl::Status written =
        store::write_safetensors(folder_ + "/" + file, specs, {},
                                 [&](const store::StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
                                   return std::as_bytes(std::span(floats.at(stored.name)));
                                 });
    SCALAI_CHECK(written.ok(), written.ToString());
  }
  static Whole random_whole(Random& random, const Shape& shape) {
    Whole whole{.shape = shape, .values = {}};
    for (int64_t i = 0; i < shape.elements(); ++i)
      whole.values.push_back(static_cast<float>(random.between(-1000, 1000)) / 1000);
    return whole;
  }
  // The closed form of a step; where `later` says so, of a step after it.
  static Whole trained(const LogicalTensor& tensor, int64_t step, int64_t later_step = 0,
                       const std::vector<Box>& later = {}) {
    Whole whole{.shape = tensor.shape, .values = {}};
    std::vector<float> floats(static_cast<size_t>(tensor.shape.elements()));
    const Box all = Box::whole(tensor.shape);
    const state::Target target{all, DType::kF32, reinterpret_cast<std::byte*>(floats.data())};
    state::fill_box({state::ContentKey::of(tensor.name, "a"), tensor.shape, step}, all, target);
    for (const Box& box : later)
      state::fill_box({state::ContentKey::of(tensor.name, "a"), tensor.shape, later_step}, box, target);
    whole.values.assign(floats.begin(), floats.end());
    return whole;
  }
  // Of receivers: the collection that readers see, and the elements of each tensor, the same at all that have them.
  std::map<std::string, Whole> received() {
    const proto::LiveState state = ask(true, {});
    const Collection side =
        collection::parse_collection(state.collection(), "receivers", collection::FileRole::kPlanned)->collection;
    const std::unique_ptr<worker::Places> places = reader_places();
    const state::VersionKey key{0, *state::StateVersion::from_wire(state.version())};
    std::map<std::string, Whole> all;
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      const LogicalTensor& tensor = side.tensors[i];
      Whole& whole = all[tensor.name] = {.dtype = tensor.dtype, .shape = tensor.shape, .values = {}};
      const Box all_of_it = Box::whole(tensor.shape);
      std::vector<std::byte> bytes(static_cast<size_t>(state::packed_bytes(all_of_it, tensor.dtype)));
      for (int rank = 0; rank < side.ranks(); ++rank) {
        for (const tensor::Piece& piece : side.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
          const std::vector<std::byte> before = bytes;
          const absl::Status read =
              places->read(plan::Location::device(side.device_of_rank[static_cast<size_t>(rank)]), key,
                           TensorId(static_cast<int64_t>(i)), piece.box, {all_of_it, tensor.dtype, bytes.data()});
          SCALAI_CHECK(read.ok(), read.ToString());
          const bool seen = std::any_of(seen_[tensor.name].begin(), seen_[tensor.name].end(),
                                        [&](const Box& one) { return one == piece.box; });
          if (seen) {
            EXPECT_EQ(before, bytes) << tensor.name << " at rank " << rank;
          }
          seen_[tensor.name].push_back(piece.box);
        }
      }
      seen_.clear();
      for (size_t n = 0; n < static_cast<size_t>(tensor.shape.elements()); ++n) {
        double value = 0;
        if (tensor.dtype == DType::kI8) {
          value = static_cast<double>(static_cast<int8_t>(bytes[n]));
        } else {
          tensor::convert(tensor.dtype, DType::kF64, 1,
                          bytes.data() + n * static_cast<size_t>(tensor::size_of(tensor.dtype)),
                          reinterpret_cast<std::byte*>(&value));
        }
        whole.values.push_back(value);
      }
    }
    ask(false, {});
    return all;
  }
  static void expect_equal(const std::map<std::string, Whole>& got, const std::map<std::string, Whole>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [name, whole] : wanted) {
      ASSERT_TRUE(got.contains(name)) << name;
      EXPECT_EQ(got.at(name).dtype, whole.dtype) << name;
      EXPECT_EQ(got.at(name).shape, whole.shape) << name;
      EXPECT_EQ(got.at(name).values, whole.values) << name;
    }
  }
  std::string state(const std::string& file) const { return folder_ + "/" + file; }

 private:
  std::map<std::string, std::vector<Box>> seen_;
};

void round_all(DType dtype, Whole& whole) {
  whole.dtype = dtype;
  for (double& value : whole.values) value = rounded(dtype, value);
}

// As one would write it down.
void quantise(const std::string& name, std::map<std::string, Whole>& all) {
  Whole& whole = all.at(name);
  const int64_t columns = whole.shape[whole.shape.rank() - 1];
  Whole scales{.shape = Shape{whole.shape[0]}, .values = {}};
  for (int64_t row = 0; row < whole.shape[0]; ++row) {
    double largest = 0;
    double* const values = whole.values.data() + row * columns;
    for (int64_t i = 0; i < columns; ++i) largest = std::max(largest, std::abs(values[i]));
    scales.values.push_back(largest == 0 ? 1 : rounded(DType::kF32, largest / 127));
    for (int64_t i = 0; i < columns; ++i)
      values[i] = std::clamp(std::nearbyint(values[i] / scales.values.back()), -127.0, 127.0);
  }
  whole.dtype = DType::kI8;
  all[name + "_scale"] = std::move(scales);
}

// Names as adapters have them.
Collection weights(Collection side) {
  for (LogicalTensor& tensor : side.tensors) {
    if (tensor.shape.rank() == 2) tensor.name += ".weight";
  }
  return side;
}

constexpr const char* kUp = "layers.3.up.weight";

// All built-in steps at once, from any layout to any other, over segments or the network, with receivers that die.
TEST_F(SyncTransformTest, AnyLayoutHasWhatWholeTensorsGive) {
  for (uint64_t seed = 5000; seed < 5016; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Collection from = weights(grid(plan::random_sizes(random, kHosts * kGpus)));
    const plan::Sizes to = plan::random_sizes(random, 6);
    std::map<std::string, Whole> other;
    for (const LogicalTensor& tensor : from.tensors) {
      if (tensor.name.ends_with(".norm")) other[tensor.name] = random_whole(random, tensor.shape);
    }
    write_state("sub/other.safetensors", other);
    const std::map<std::string, Whole> pair = {
        {"base_model.model.layers.3.up.lora_A.weight", random_whole(random, Shape{3, 2})},
        {"base_model.model.layers.3.up.lora_B.weight", random_whole(random, Shape{19, 3})}};
    write_state("adapter.safetensors", pair);
    const int receivers = to.world() % 3 == 0 ? 3 : to.world() % 2 == 0 ? 2 : 1;
    const bool dies = receivers > 1 && random.between(0, 1) == 0;
    Setup setup{.network = random.between(0, 1) == 0, .receivers = receivers};
    if (dies) setup.deaths = {{.host = 3, .what = "round", .nth = 3, .after = random.between(0, 1) == 0}};
    setup.transforms = {"scale(0.3, tensors=layers.*)",
                        "average(sub/other.safetensors, tensors=layers.*.norm)",
                        "lora(" + state("adapter.safetensors") + ", alpha=6)",
                        "cast(bf16, tensors=layers.*.up.weight)",
                        "quantise(i8, tensors=layers.*.down.weight)",
                        "cast(fp16, tensors=embedding.weight)"};
    const auto device = std::make_shared<transform::LoopingDevice>(int64_t{16} << 10);
    const bool on_device = seed % 2 == 0;
    if (on_device) setup.backend = [device] { return std::make_shared<worker::SteppingBackend>(device); };
    begin(from, weights(grid(to)), setup);
    bool failed = false;
    for (const int64_t step : {2, 3, 4}) {
      train(step);
      const Shown now = shown();
      if (random.between(0, 1) == 0) train(step + 10);  // the shown step is in hosts' memories then
      const auto synced = sync_->bring(now);
      if (!synced.ok() && dies && !failed) {
        failed = true;
        sync_->rest(0.05);
        continue;
      }
      ASSERT_TRUE(synced.ok()) << synced.status();
      std::map<std::string, Whole> wanted;
      for (const LogicalTensor& tensor : from.tensors) {
        Whole& whole = wanted[tensor.name] = trained(tensor, step);
        if (tensor.name.starts_with("layers.")) {
          for (double& value : whole.values) value = rounded(DType::kF32, 0.3 * value);
        }
        if (const auto found = other.find(tensor.name); found != other.end()) {
          for (size_t i = 0; i < whole.values.size(); ++i)
            whole.values[i] = rounded(DType::kF32, (whole.values[i] + found->second.values[i]) / 2);
        }
        if (tensor.name == kUp) {
          const Values &a = pair.begin()->second.values, &b = pair.rbegin()->second.values;
          for (size_t row = 0; row < 19; ++row) {
            for (size_t column = 0; column < 2; ++column) {
              double sum = 0;
              for (size_t k = 0; k < 3; ++k) sum += b[row * 3 + k] * a[k * 2 + column];
              double& value = whole.values[row * 2 + column];
              value = rounded(DType::kF32, value + 6.0 / 3 * sum);
            }
          }
        }
        if (tensor.name.ends_with(".up.weight")) round_all(DType::kBF16, whole);
        if (tensor.name == "embedding.weight") round_all(DType::kF16, whole);
      }
      for (const LogicalTensor& tensor : from.tensors) {
        if (tensor.name.ends_with(".down.weight")) quantise(tensor.name, wanted);
      }
      expect_equal(received(), wanted);
    }
    EXPECT_EQ(failed, dies && receivers_->deaths() > 0);
    EXPECT_EQ(device->lent > 0, on_device);
    end();
  }
}

// Where every host of the run has a part of each tensor: rows of some, columns of others.
Collection halves() {
  Collection side = weights(grid({.tp = 4}));
  std::erase_if(side.tensors, [](const LogicalTensor& tensor) { return tensor.shape.rank() != 2; });
  std::erase_if(side.tensors, [](const LogicalTensor& tensor) { return tensor.name == "embedding.weight"; });
  return side;
}
std::vector<Box> held_by_first_host(const Collection& side, size_t tensor) {
  std::vector<Box> boxes;
  for (int rank = 0; rank < kGpus; ++rank) {
    for (const tensor::Piece& piece : side.pieces(TensorId(static_cast<int64_t>(tensor)), LogicalRank(rank)).pieces)
      boxes.push_back(piece.box);
  }
  return boxes;
}

// What is copied from the step before is made already, and rows of which a part has changed are made anew.
TEST_F(SyncTransformTest, WhatHasNotChangedIsNotMadeAgain) {
  const Collection from = halves();
  Setup setup;
  setup.digest_bytes = 16;
  setup.transforms = {"scale(-2, tensors=*.up.weight)", "quantise(i8, tensors=*.down.weight)"};
  begin(from, from, setup);
  const auto first = sync_->bring(shown());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->moved_bytes, first->planned_bytes);
  EXPECT_GT(first->read_bytes, first->moved_bytes) << "codes are made of whole rows of F32";
  const auto again = sync_->bring(shown());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->moved_bytes, 0);
  EXPECT_EQ(again->read_bytes, 0);
  const auto wanted = [&](int64_t later) {
    std::map<std::string, Whole> all;
    for (size_t i = 0; i < from.tensors.size(); ++i) {
      const LogicalTensor& tensor = from.tensors[i];
      all[tensor.name] = trained(tensor, 1, later, held_by_first_host(from, i));
      if (tensor.name.ends_with(".up.weight")) {
        for (double& value : all[tensor.name].values) value *= -2;
      }
    }
    for (const LogicalTensor& tensor : from.tensors) {
      if (tensor.name.ends_with(".down.weight")) quantise(tensor.name, all);
    }
    return all;
  };
  expect_equal(received(), wanted(1));
  train(2, {HostId(0)});
  const auto half = sync_->bring(shown());
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_GT(half->moved_bytes, 0);
  EXPECT_LT(half->moved_bytes, half->planned_bytes);
  EXPECT_LT(half->read_bytes, first->read_bytes);
  expect_equal(received(), wanted(2));
}

// --dtype comes first, as with `checkpoint reshard`, and a cast alone moves no more than --dtype does.
TEST_F(SyncTransformTest, ACastAloneIsTheTypeOfTheReceivers) {
  std::vector<Synced> costs;
  std::vector<std::map<std::string, Whole>> got;
  for (const bool as_step : {false, true}) {
    Setup setup;
    if (as_step) setup.transforms = {"cast(BF16)"};
    if (!as_step) setup.dtype = DType::kBF16;
    begin(grid({.pp = 2, .dp = 2}), grid({.tp = 2}), setup);
    const auto synced = sync_->bring(shown());
    ASSERT_TRUE(synced.ok()) << synced.status();
    costs.push_back(*synced);
    got.push_back(received());
    end();
  }
  EXPECT_EQ(costs[0].read_bytes, costs[1].read_bytes);
  EXPECT_EQ(costs[0].moved_bytes, costs[1].moved_bytes);
  expect_equal(got[1], got[0]);
  Setup setup;
  setup.dtype = DType::kBF16;
  setup.transforms = {"scale(0.3)"};
  begin(grid({.pp = 2}), grid({.tp = 2}), setup);
  ASSERT_TRUE(sync_->bring(shown()).ok());
  std::map<std::string, Whole> wanted;
  for (const LogicalTensor& tensor : from_.tensors) {
    Whole& whole = wanted[tensor.name] = trained(tensor, 1);
    round_all(DType::kBF16, whole);
    for (double& value : whole.values) value = rounded(DType::kBF16, 0.3 * value);
  }
  expect_equal(received(), wanted);
}

TEST_F(SyncTransformTest, WhatStepsReadIsTheSameForAllSteps) {
  Random random(3);
  const Collection from = weights(grid({.tp = 2}));
  const auto write = [&] {
    std::map<std::string, Whole> other;
    for (const LogicalTensor& tensor : from.tensors) other[tensor.name] = random_whole(random, tensor.shape);
    write_state("other.safetensors", other);
  };
  write();
  Setup setup;
  setup.transforms = {"average(" + state("other.safetensors") + ")"};
  begin(from, weights(grid({.dp = 2})), setup);
  const auto first = sync_->bring(shown());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::map<std::string, Whole> before = received();
  write();
  train(2);
  const auto refused = sync_->bring(shown());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("start scalai sync again"));
  std::filesystem::remove(state("other.safetensors"));
  EXPECT_THAT(std::string(sync_->bring(shown()).status().message()), HasSubstr("other.safetensors"));
  expect_equal(received(), before);
}

TEST_F(SyncTransformTest, StepsThatDoNotFitAreRefusedBeforeAnybodyIsTold) {
  Setup setup;
  setup.transforms = {"cast(bf16, tensors=nosuch)", "quantise(i8, tensors=*.norm)", "scale(2, tensors=step)"};
  begin(grid({.tp = 2}), grid({.dp = 2}), setup);
  const auto refused = sync_->bring(shown());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("no tensor is named \"nosuch\""), HasSubstr("which has no rows")));
  end();
  setup.transforms = {"lora(" + state("nowhere") + ", alpha=1)"};
  begin(grid({.tp = 2}), grid({.dp = 2}), setup);
  EXPECT_THAT(std::string(sync_->bring(shown()).status().message()), HasSubstr(state("nowhere")));
}

// A lost host may have had the other columns.
TEST_F(SyncTransformTest, RowsThatNobodyHasAreRefused) {
  Collection from = halves();
  std::erase_if(from.tensors, [](const LogicalTensor& tensor) { return !tensor.name.ends_with(".down.weight"); });
  Setup setup;
  setup.transforms = {"quantise(i8)"};
  begin(from, from, setup);
  proto::LiveState state = shown().state();
  state.mutable_peers()->DeleteSubrange(1, 1);
  const auto refused = sync_->bring(Shown(state, from_));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no living host has layers.1.down.weight"));
}

}  // namespace sync_transform_test
}  // namespace scalai::executor::sync
