#include "ptc/state/collection/collection_file.h"

#include <gmock/gmock.h>

#include "ptc/base/file.h"
#include "ptc/state/collection/testing/support.h"

namespace scalai::collection {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// The blocks of the README that are fenced as textproto.
std::vector<std::string> examples() {
  const std::string readme = read_file(std::string(SCALAI_SOURCE_DIR) + "/docs/collection-files.md").value();
  const std::string open = "```textproto\n";
  std::vector<std::string> blocks;
  for (size_t at = readme.find(open); at != std::string::npos; at = readme.find(open, at + 1)) {
    const size_t begin = at + open.size();
    blocks.push_back(readme.substr(begin, readme.find("```", begin) - begin));
  }
  return blocks;
}

// The collection of the example that has this tensor.
Collection example_with(const std::string& tensor) {
  for (const std::string& block : examples()) {
    Collection collection = read(block).collection;
    for (const LogicalTensor& one : collection.tensors) {
      if (one.name == tensor) return collection;
    }
  }
  ADD_FAILURE() << "no example has " << tensor;
  return {};
}

TEST(Readme, EveryExampleIsACollection) {
  EXPECT_EQ(examples().size(), 15u);
  for (const std::string& block : examples()) EXPECT_FALSE(read(block).digest.empty());
}

TEST(Readme, RepeatAndSpread) {
  const CollectionFile file = read(examples().front());
  const Collection& collection = file.collection;
  EXPECT_EQ(collection.name, "two stages");
  EXPECT_THAT(collection.device_of_rank, ElementsAre(DeviceId(0), DeviceId(1), DeviceId(8), DeviceId(9)));
  ASSERT_EQ(collection.tensors.size(), 12u);
  EXPECT_EQ(collection.tensors[0].dtype, tensor::DType::kBF16);
  EXPECT_EQ(collection.tensors[1].kind, model::StateKind::kScalar);
  EXPECT_THAT(boxes_of(collection, "embedding"), ElementsAre("[0:512, 0:64]", "[512:1000, 0:64]", "", ""));
  EXPECT_THAT(boxes_of(collection, "layers.2.up"), ElementsAre("[0:128, 0:64]", "[128:256, 0:64]", "", ""));
  EXPECT_THAT(boxes_of(collection, "layers.3.norm"), ElementsAre("", "", "[0:64]", "[0:64]"));
  EXPECT_EQ(file.residency, Residency());
}

TEST(Readme, TheTwoConventionsForARest) {
  const Collection collection = example_with("chunked");
  EXPECT_THAT(boxes_of(collection, "chunked"), ElementsAre("[0:3, 0:8]", "[3:6, 0:8]", "[6:9, 0:8]", "[9:10, 0:8]"));
  EXPECT_THAT(boxes_of(collection, "balanced"), ElementsAre("[0:3, 0:8]", "[3:6, 0:8]", "[6:8, 0:8]", "[8:10, 0:8]"));
}

TEST(Readme, ExplicitBoundsBesideAnotherCut) {
  EXPECT_THAT(boxes_of(example_with("uneven"), "uneven"),
              ElementsAre("[0:3, 0:4]", "[0:3, 4:8]", "", "", "[3:10, 0:4]", "[3:10, 4:8]"));
}

TEST(Readme, ThePaddingIsInNoBoxAndATiedEmbeddingHasTwoHomes) {
  EXPECT_THAT(boxes_of(example_with("vocabulary"), "vocabulary"),
              ElementsAre("[0:256, 0:64]", "[256:512, 0:64]", "[512:768, 0:64]", "[768:1000, 0:64]"));
  EXPECT_THAT(boxes_of(example_with("tied"), "tied"),
              ElementsAre("[0:512, 0:64]", "[512:1000, 0:64]", "", "", "[0:512, 0:64]", "[512:1000, 0:64]"));
}

TEST(Readme, AttentionByWholeGroupsInsideHeadsAndReplicated) {
  EXPECT_THAT(boxes_of(example_with("layers.0.attention.qkv.weight"), "layers.0.attention.qkv.weight"),
              ElementsAre("[0:32, 0:32]", "[32:64, 0:32]"));
  EXPECT_THAT(boxes_of(example_with("layers.0.attention.qkv.bias"), "layers.0.attention.qkv.bias"),
              ElementsAre("[0:12]", "[12:24]", "[24:36]", "[36:48]"));
  const Collection vllm = example_with("layers.0.attention.k.weight");
  EXPECT_THAT(boxes_of(vllm, "layers.0.attention.k.weight"),
              ElementsAre("[0:8, 0:32]", "[0:8, 0:32]", "[8:16, 0:32]", "[8:16, 0:32]"));
}

TEST(Readme, GateAndUpAreTwoTensors) {
  const Collection collection = example_with("layers.0.mlp.gate.weight");
  for (const char* half : {"layers.0.mlp.gate.weight", "layers.0.mlp.up.weight"})
    EXPECT_THAT(boxes_of(collection, half), ElementsAre("[0:704, 0:512]", "[704:1408, 0:512]")) << half;
}

TEST(Readme, FlatRangesOfWhatIsLeft) {
  const std::vector<std::string> boxes = boxes_of(example_with("zero.exp_avg"), "zero.exp_avg");
  ASSERT_EQ(boxes.size(), 8u);
  EXPECT_EQ(boxes[0], "[0:1, 0:5][1:2, 0:3]");
  EXPECT_EQ(boxes[1], "[0:1, 5:10][1:2, 5:8]");
  EXPECT_EQ(boxes[6], "[4:5, 4:5][5:6, 0:5]");
  const Collection context = example_with("context");
  EXPECT_THAT(boxes_of(context, "context"), Each("[0:4, 0:8]"));
  EXPECT_THAT(boxes_of(context, "context.exp_avg"),
              ElementsAre("[0:1, 0:8]", "[1:2, 0:8]", "[2:3, 0:8]", "[3:4, 0:8]"));
}

TEST(Readme, BucketsAreSharedOutOverTwoAxes) {
  const Collection collection = example_with("a.exp_avg");
  EXPECT_THAT(boxes_of(collection, "a.exp_avg"),
              ElementsAre("", "[0:6, 0:10][6:7, 0:4]", "[6:7, 4:10][7:10, 0:10]", ""));
  EXPECT_THAT(boxes_of(collection, "b.exp_avg"), ElementsAre("[0:60]", "", "", ""));
}

TEST(Readme, ExpertsByGlobalId) {
  const Collection collection = example_with("layers.1.experts.5.up");
  EXPECT_EQ(collection.tensors.size(), 18u);
  EXPECT_THAT(boxes_of(collection, "layers.1.experts.5.up"), ElementsAre("", "", "[0:256, 0:64]", ""));
}

TEST(Readme, ResidencyOfTheOldStateAlone) {
  const std::string text = examples().back();
  const CollectionFile file = read(text);
  EXPECT_TRUE(file.residency.storage);
  EXPECT_THAT(file.residency.lost, ElementsAre(DeviceId(8)));
  EXPECT_THAT(file.residency.extra, ElementsAre(ExtraHolder{TensorId(0), tensor::Box({4, 0}, {6, 8}), HostId(1)},
                                                ExtraHolder{TensorId(1), tensor::Box(), HostId(1)}));
  const absl::Status refused = parse_collection(text, "x.textproto", FileRole::kPlanned).status();
  EXPECT_EQ(exit_code_of(refused), 3);
  EXPECT_THAT(message_of(refused),
              AllOf(HasSubstr("x.textproto:5:1: error:"), HasSubstr("has no residency"), HasSubstr("1 error\n")));
  const std::string without = text.substr(0, text.find("residency"));
  EXPECT_EQ(parse_collection(without, "x.textproto", FileRole::kPlanned).value().collection, file.collection);
}

TEST(CollectionFile, JsonSaysTheSame) {
  const std::string json = R"({"meshes": [{"axes": [{"name": "tp", "size": 2}]}], "devices": "0-1",
    "tensors": [{"name": "w", "dtype": "F32", "shape": [4], "cuts": [{"axis": "tp", "dim": 0}]}]})";
  const std::string text =
      "meshes { axes { name: 'tp' size: 2 } } devices: '0,1' layouts { name: 'l' cuts { axis: 'tp' dim: 0 } }"
      "tensors { name: 'w' dtype: 'F32' shape: 4 layout: 'l' }";
  EXPECT_EQ(read(json).collection, read(text).collection);
  EXPECT_EQ(read(json).digest, read(text).digest);
  EXPECT_NE(read(json).digest, read("epoch: 1 " + text).digest);
}

TEST(CollectionFile, AllProblemsAtOnceWithPlaces) {
  const std::string text = problems_of(
      "schema_version: 2\n"
      "meshes { name: \"m\" axes { name: \"tp\" size: 2 } axes { name: \"tp\" size: 0 } }\n"
      "devices: \"0-3,2\"\n"
      "tensors { name: \"w\" dtype: \"BF61\" mesh: \"n\" }\n");
  EXPECT_THAT(text,
              AllOf(HasSubstr("x.textproto:1:17: error: schema version 2"),
                    HasSubstr("x.textproto:2:72: error: \"size\" must be at least 1, found 0"),
                    HasSubstr("x.textproto:3:15: error: 2 is in the list twice"),
                    HasSubstr("x.textproto:4:28: error: unknown dtype \"BF61\""), HasSubstr("did you mean \"BF16\"?"),
                    HasSubstr("x.textproto:4:41: error: unknown mesh \"n\"")));
  EXPECT_THAT(text, HasSubstr("5 errors"));
}

TEST(CollectionFile, MeshesAndDevicesFitTogether) {
  const std::string tensor = "tensors { name: 'w' dtype: 'F32' }";
  EXPECT_THAT(problems_of("devices: '0-2'\nmeshes { axes { name: 'tp' size: 2 } }\n" + tensor),
              AllOf(HasSubstr("x.textproto:2:1: error: the mesh has 2 ranks, the collection 3 devices"),
                    HasSubstr("x.textproto:1:10: note: the devices are listed here")));
  EXPECT_THAT(problems_of("devices: '0' meshes { axes { name: 'a+b' size: 1 } }" + tensor), HasSubstr("no \"+\""));
  EXPECT_THAT(problems_of("devices: '0' meshes { axes { name: 'a' size: 1 } axes { name: 'a' size: 1 } }" + tensor),
              HasSubstr("axis \"a\" is given twice"));
  EXPECT_THAT(problems_of("devices: '0' meshes { name: 'm' } meshes { name: 'm' }" + tensor),
              HasSubstr("mesh \"m\" is described twice"));
  EXPECT_THAT(problems_of("devices: '0' meshes { axes { name: 'a' size: 2000000000 } }" + tensor),
              HasSubstr("more than 131072 ranks"));
  EXPECT_THAT(problems_of("name: 'x'"), AllOf(HasSubstr("\"devices\" is missing"), HasSubstr("\"meshes\" is missing"),
                                              HasSubstr("\"tensors\" is missing")));
}

TEST(CollectionFile, WhatIsBrokenHasNoSecondProblem) {
  EXPECT_THAT(problems_of(two_by_two("tensors { name: 'w' dtype: 'F32' shape: [4, x] cuts { axis: 'tp' dim: 1 } }")),
              AllOf(HasSubstr("\"shape\" takes a whole number"), HasSubstr("1 error\n")));
  EXPECT_THAT(problems_of(two_by_two("tensors { name: 'w' dtype: 'F32' shape: 5 cuts { axis: 7 dim: 0 } }")),
              HasSubstr("1 error\n"));
  EXPECT_THAT(problems_of(two_by_two("tensors {")), AllOf(HasSubstr("never closed"), HasSubstr("1 error\n")));
}

TEST(CollectionFile, ResidencyNamesWhatIsThere) {
  const std::string tensor = "tensors { name: 'weight' dtype: 'F32' shape: [4, 3] }\n";
  const auto with = [&](const std::string& residency) {
    return problems_of(two_by_two(tensor + "residency { " + residency + " }"));
  };
  EXPECT_EQ(with("lost: '5,900' copies { tensor: 'weight' box: '[0:2, 1:3]' host: 0 }"), "");
  EXPECT_THAT(with("copies { tensor: 'wieght' host: 0 }"), HasSubstr("did you mean \"weight\"?"));
  EXPECT_THAT(with("copies { tensor: 'weight' host: -1 }"), HasSubstr("\"host\" must be at least 0"));
  EXPECT_THAT(with("copies { tensor: 'weight' }"), HasSubstr("\"host\" is missing"));
  EXPECT_THAT(with("copies { tensor: 'weight' box: '0:2' host: 0 }"), HasSubstr("write it like \"[0:4, 0:3]\""));
  EXPECT_THAT(with("copies { tensor: 'weight' box: '[0:5, 0:3]' host: 0 }"),
              HasSubstr("box [0:5, 0:3] is not inside tensor \"weight\" [4, 3]"));
  EXPECT_THAT(with("copies { tensor: 'weight' box: '[0:4]' host: 0 }"), HasSubstr("is not inside"));
  EXPECT_THAT(with("lost: '3-1'"), HasSubstr("x.textproto:4:20: error: the range falls"));
}

TEST(CollectionFile, LoadsFromAFile) {
  const std::string path = testing::TempDir() + "/collection_file_test.textproto";
  ASSERT_TRUE(write_file(path, examples().front()).ok());
  EXPECT_EQ(load_collection(path).value().collection, read(examples().front()).collection);
  ASSERT_TRUE(write_file(path, "x").ok());
  const absl::Status status = load_collection(path).status();
  EXPECT_EQ(exit_code_of(status), 3);
  EXPECT_THAT(message_of(status), HasSubstr(path + ":1:1: error:"));
  EXPECT_EQ(exit_code_of(load_collection(path + ".none").status()), 4);
}

}  // namespace
}  // namespace scalai::collection
