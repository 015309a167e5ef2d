// What collection_text writes reads back equal: random collections, and Megatron's.

#include <numeric>
#include <set>

#include "ptc/base/random.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/collection/testing/support.h"

namespace scalai::collection {
namespace {

void expect_round_trip(const Collection& collection, const Residency& residency) {
  const std::string text = collection_text(collection, residency);
  const auto file = parse_collection(text, "x.textproto");
  ASSERT_TRUE(file.ok()) << text << message_of(file.status());
  EXPECT_EQ(file->collection, collection) << text;
  EXPECT_EQ(file->residency, residency) << text;
  EXPECT_EQ(collection_text(file->collection, file->residency), text);
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Collection collection() {
    Collection result{.name = "random \"" + std::to_string(pick(100)) + "\\", .epoch = pick(5)};
    const int a = 1 + pick(3), b = 1 + pick(3), c = 1 + pick(2);
    result.meshes = {Mesh({{"tp", a}, {"dp", b}, {"pp", c}}), Mesh({{"ep", a * b}, {"pp", c}}),
                     Mesh({{"x", a * b * c}})};
    std::vector<int> devices(static_cast<size_t>(a * b * c));
    std::iota(devices.begin(), devices.end(), pick(4));
    for (int swaps = pick(4); swaps > 0; --swaps) {
      const auto count = static_cast<int>(devices.size());
      std::swap(devices[static_cast<size_t>(pick(count))], devices[static_cast<size_t>(pick(count))]);
    }
    for (const int device : devices) result.device_of_rank.push_back(DeviceId(device));
    for (int i = 0; i < 12; ++i) {
      LogicalTensor tensor = this->tensor(result, i);
      result.tensors.push_back(tensor);
      // Not every layout fits every tensor: keep what does.
      if (!validate(result, TensorId(static_cast<int64_t>(result.tensors.size()) - 1)).ok()) result.tensors.pop_back();
    }
    result.tensors.push_back({.name = "last"});
    return result;
  }

  Residency residency(const Collection& collection) {
    Residency result{.storage = pick(2) == 0};
    for (int i = pick(3); i > 0; --i) result.lost.insert(DeviceId(pick(40)));
    for (int i = pick(3); i > 0; --i) {
      const TensorId id(pick(static_cast<int>(collection.tensors.size())));
      tensor::Box box = tensor::Box::whole(collection.tensors[static_cast<size_t>(id.value)].shape);
      if (box.rank > 0) box.lo[0] = pick(static_cast<int>(box.hi[0]));
      result.extra.push_back({id, box, HostId(pick(3))});
    }
    return result;
  }

 private:
  int pick(int bound) { return static_cast<int>(random_.below(bound)); }

  tensor::Cut cut(const Mesh& mesh, const std::string& axis, const tensor::Shape& shape) {
    const int parts = mesh.axis_size(axis);
    tensor::Cut result{.axis = axis, .dim = pick(shape.rank()), .rule = static_cast<tensor::SplitRule>(pick(7))};
    if (pick(4) == 0) result.dim = tensor::Cut::kFlat;
    const int64_t extent = result.dim == tensor::Cut::kFlat ? shape.elements() : shape[result.dim];
    if (result.rule == tensor::SplitRule::kPadded) result.multiple = 1 + pick(4);
    if (result.rule == tensor::SplitRule::kGrouped) result.groups = 1 + pick(3);
    if (result.rule == tensor::SplitRule::kBucket) {
      result.start = pick(9);
      result.bucket = (extent + result.start + parts) / parts * parts;
    }
    if (result.rule == tensor::SplitRule::kExplicit) {
      for (int i = 0; i < parts; ++i) result.bounds.push_back(random_.below(extent + 1));
      result.bounds.push_back(extent);
      std::sort(result.bounds.begin(), result.bounds.end());
      result.bounds.front() = 0;
    }
    return result;
  }

  LogicalTensor tensor(const Collection& collection, int index) {
    LogicalTensor result{.name = "t" + std::to_string(index) + " \"é\"",
                         .dtype = static_cast<tensor::DType>(pick(15)),
                         .shape = {1 + pick(12), 1 + pick(6)},
                         .kind = static_cast<model::StateKind>(pick(9)),
                         .mesh = pick(3)};
    const Mesh& mesh = collection.meshes[static_cast<size_t>(result.mesh)];
    std::vector<std::string> axes = {mesh.axes()[0].name};
    if (result.mesh == 0)
      axes = pick(2) == 0 ? std::vector<std::string>{"dp+tp"} : std::vector<std::string>{"dp", "tp"};
    for (const std::string& axis : axes) {
      if (pick(3) > 0) result.layout.cuts.push_back(cut(mesh, axis, result.shape));
    }
    if (result.mesh < 2 && pick(2) == 0) result.pins.push_back({"pp", {pick(mesh.axis_size("pp"))}});
    return result;
  }

  Random random_;
};

TEST(CollectionText, RandomCollectionsComeBack) {
  std::set<tensor::SplitRule> rules;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Generator generator(seed);
    const Collection collection = generator.collection();
    ASSERT_EQ(message_of(validate(collection)), "");
    for (const LogicalTensor& tensor : collection.tensors) {
      for (const tensor::Cut& cut : tensor.layout.cuts) rules.insert(cut.rule);
    }
    expect_round_trip(collection, generator.residency(collection));
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(rules.size(), 7u) << "every rule was written";
}

model::Model printed_model(int experts) {
  using model::Param;
  model::Model model{.name = "small", .layers = 2, .hidden = 8, .heads = 4, .kv_heads = 2, .ffn = 16};
  model.experts = experts;
  model.tied = true;
  model.params.push_back(
      {.name = "embedding", .shape = {30, 8}, .rule = model::TpRule::kVocab, .layer = Param::kBothEnds});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    model.params.push_back({.name = prefix + ".qkv", .shape = {16, 8}, .rule = model::TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = prefix + ".out", .shape = {8, 8}, .rule = model::TpRule::kRow, .layer = layer});
    for (int expert = 0; expert < experts; ++expert) {
      model.params.push_back({.name = prefix + ".expert" + std::to_string(expert),
                              .shape = {16, 8},
                              .rule = model::TpRule::kColumn,
                              .layer = layer,
                              .expert = expert});
    }
  }
  model.params.push_back({.name = "norm", .shape = {8}, .layer = Param::kLast});
  return model;
}

TEST(CollectionText, MegatronCollectionsComeBack) {
  int built = 0;
  for (const int experts : {0, 4}) {
    for (const int tp : {1, 2, 4}) {
      for (const int pp : {1, 2}) {
        for (const int dp : {1, 2, 3}) {
          for (const int zero : {0, 1, 3}) {
            const ParallelConfig config{
                .tp = tp, .pp = pp, .dp = dp, .ep = experts > 0 && dp == 2 ? 2 : 1, .zero = zero};
            SCOPED_TRACE(canonical(config) + " experts " + std::to_string(experts));
            std::vector<DeviceId> devices;
            for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
            const auto collection = megatron_collection(printed_model(experts), {}, config, devices,
                                                        {.distributed_optimizer_buckets = zero == 1});
            ASSERT_TRUE(collection.ok()) << message_of(collection.status());
            expect_round_trip(*collection, {});
            ++built;
          }
        }
      }
    }
  }
  EXPECT_EQ(built, 108);
}

}  // namespace
}  // namespace scalai::collection
