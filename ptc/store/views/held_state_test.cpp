#include "ptc/store/views/internal/held_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/state/collection/megatron.h"
#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace held_state_test {

using ::testing::HasSubstr;

class HeldStateTest : public CheckpointFolder {
 protected:
  // The state of `whole` as if ranks of this layout had it in memory.
  static HeldState held_of(const std::shared_ptr<const Checkpoint>& whole, const std::string& layout) {
    const auto config = collection::parse_layout(layout);
    SCALAI_CHECK(config.ok(), message_of(config.status()));
    std::vector<DeviceId> devices;
    for (int rank = 0; rank < config->world(); ++rank) devices.emplace_back(rank);
    auto side = collection::megatron_collection(whole->model()->model, {}, *config, std::move(devices));
    SCALAI_CHECK(side.ok(), message_of(side.status()));
    const collection::Collection tensors = *side;
    return {.place = "a run",
            .collection = *side,
            .stamp = {"a", 12},
            .model = model_file_text(whole->model()->file),
            .id = "one",
            .read = [whole, tensors](TensorId id, const tensor::Box& owned, int64_t offset,
                                     std::span<std::byte> dst) -> absl::Status {
              const collection::LogicalTensor& tensor = tensors.tensors[static_cast<size_t>(id.value)];
              std::vector<std::byte> box(static_cast<size_t>(owned.volume() * tensor::size_of(tensor.dtype)),
                                         static_cast<std::byte>(id.value));  // masters and moments
              if (const auto found = whole->find(tensor.name)) SCALAI_RETURN_IF_ERROR(whole->read(*found, owned, box));
              std::copy_n(box.begin() + offset, dst.size(), dst.begin());
              return absl::OkStatus();
            }};
  }
  // The job's checkpoint on disk with the same state.
  absl::Status save(const HeldState& state, const std::string& name) const {
    SCALAI_ASSIGN_OR_RETURN(Writer writer, Writer::begin(path(name), state.collection, state.stamp));
    SCALAI_RETURN_IF_ERROR(writer.add_file(std::string(kModelFileName), state.model));
    std::vector<std::string> parts;
    std::vector<std::byte> keep;
    const Provider provider = [&](TensorId id, const tensor::Box& box) -> absl::StatusOr<std::span<const std::byte>> {
      const tensor::DType dtype = state.collection.tensors[static_cast<size_t>(id.value)].dtype;
      keep.resize(static_cast<size_t>(box.volume() * tensor::size_of(dtype)));
      SCALAI_RETURN_IF_ERROR(state.read(id, box, 0, keep));
      return std::span<const std::byte>(keep);
    };
    for (int rank = 0; rank < state.collection.ranks(); ++rank) {
      SCALAI_ASSIGN_OR_RETURN(parts.emplace_back(), writer.write_rank(LogicalRank(rank), provider));
    }
    return writer.finish(parts);
  }
};

TEST_F(HeldStateTest, ViewsAreThoseOfTheCheckpointThatWouldBeSaved) {
  write_hugging_face(path("llama"), llama_config(8, 2), {}, 3);
  write_hugging_face(path("mixtral"), mixtral_config(), {}, 4);
  for (const auto& [name, layout] : {std::pair("llama", "tp2,pp2"), std::pair("llama", "tp4,dp2"),
                                     std::pair("llama", "tp1"), std::pair("mixtral", "tp2,dp2,ep2")}) {
    const std::shared_ptr<const Checkpoint> whole = open(name);
    const HeldState state = held_of(whole, layout);
    const std::string saved = std::string("saved-") + name + layout;
    ASSERT_TRUE(save(state, saved).ok());
    const std::shared_ptr<const Checkpoint> written = open(saved);
    const auto held = Checkpoint::of_held(state);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ((*held)->info().step, 12);
    EXPECT_EQ((*held)->info().job, "a");
    EXPECT_EQ((*held)->state_bytes(), written->state_bytes());
    for (const char* view_name : {"hf", "tp4-pp2", "tp1", "logical-tp2-dp2-zero1"}) {
      SCOPED_TRACE(std::string(name) + " " + layout + " " + view_name);
      const auto view = View::make(*held, view_name), same = View::make(written, view_name);
      ASSERT_TRUE(view.ok()) << view.status();
      ASSERT_EQ((*view)->files(), (*same)->files());
      Random random(5);
      for (size_t file = 0; file < (*view)->files(); ++file) {
        SCOPED_TRACE((*view)->file_name(file));
        ASSERT_EQ((*view)->file_name(file), (*same)->file_name(file));
        const std::string all = *read_all(**(*same)->open(file));
        const ByteSourcePtr source = *(*view)->open(file);
        EXPECT_TRUE(*read_all(*source) == all);
        for (int i = 0; i < 100; ++i) {
          const int64_t begin = random.between(0, std::ssize(all)), end = random.between(begin, std::ssize(all));
          std::string part(static_cast<size_t>(end - begin), '?');
          ASSERT_TRUE(source->read(begin, std::as_writable_bytes(std::span(part))).ok());
          ASSERT_TRUE(part == all.substr(static_cast<size_t>(begin), part.size())) << begin << " to " << end;
        }
      }
    }
  }
}

// Flat shards, scalars, empty tensors, replicas: as the job's checkpoint on disk.
TEST_F(HeldStateTest, BoxesAreThoseOfTheJobsCheckpoint) {
  const collection::Collection side = sample_collection();
  ASSERT_TRUE(write_checkpoint(path("step_00000003"), side, {"job", 3}).ok());
  const std::shared_ptr<const Checkpoint> written = open("step_00000003");
  const auto read = [&](TensorId id, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst) {
    const std::vector<std::byte> bytes = content_of(side.tensors[static_cast<size_t>(id.value)], id, owned);
    std::copy_n(bytes.begin() + offset, dst.size(), dst.begin());
    return absl::OkStatus();
  };
  const auto held =
      Checkpoint::of_held({.place = "a run", .collection = side, .stamp = {"job", 3}, .id = "x", .read = read});
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ((*held)->tensors(), written->tensors());
  Random random(7);
  for (size_t tensor = 0; tensor < written->tensors().size(); ++tensor) {
    for (int i = 0; i < 50; ++i) {
      const LogicalState& state = written->tensors()[tensor];
      const tensor::Box box = random_box(random, state.shape);
      const auto bytes = static_cast<size_t>(box.volume() * tensor::size_of(state.dtype));
      std::vector<std::byte> ours(bytes), theirs(bytes);
      ASSERT_TRUE((*held)->read(tensor, box, ours).ok());
      ASSERT_TRUE(written->read(tensor, box, theirs).ok());
      ASSERT_EQ(ours, theirs) << state.name << " " << box.str();
    }
  }
}

TEST_F(HeldStateTest, SomeTensorsAreACheckpointToo) {
  const auto held = Checkpoint::of_held({.place = "a run",
                                         .collection = sample_collection(),
                                         .tensors = {TensorId(2), TensorId(0)},
                                         .stamp = {"job", 3},
                                         .id = "x"});
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ((*held)->tensors().size(), 2U);
  EXPECT_EQ((*held)->tensors()[0].name, "w");
  EXPECT_EQ((*held)->tensors()[1].name, "tied");
}

TEST_F(HeldStateTest, ErrorsNameThePlaceAndKeepTheirKind) {
  HeldState lost{.place = "out/run: job a, step 3", .collection = sample_collection(), .stamp = {"a", 3}, .id = "x"};
  lost.read = [](TensorId, const tensor::Box&, int64_t, std::span<std::byte>) {
    return absl::FailedPreconditionError("no longer kept");
  };
  const auto held = Checkpoint::of_held(lost);
  ASSERT_TRUE(held.ok()) << held.status();
  std::vector<std::byte> bytes(12);
  const absl::Status read = (*held)->read(0, tensor::Box::whole(tensor::Shape({1, 6})), bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(read)) << read;
  EXPECT_THAT(message_of(read), HasSubstr("out/run: job a, step 3/rank_000.safetensors: no longer kept"));
  lost.tensors = {TensorId(99)};
  EXPECT_THAT(message_of(Checkpoint::of_held(lost).status()), HasSubstr("has no tensor 99"));
}

}  // namespace held_state_test
}  // namespace scalai::store
