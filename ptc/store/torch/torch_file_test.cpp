#include "ptc/store/torch/torch_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/testing/memory_source.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store {
namespace torch_file_test {

using testing::AllOf;
using testing::HasSubstr;

std::string problem_of(const std::string& bytes) {
  return message_of(read_torch_file(MemorySource("f", bytes)).status());
}
std::string problem_of(const TorchTensor& tensor) {
  return problem_of(torch_file({tensor}, {{"0", std::string(24, 'x')}}));
}

TEST(TorchFiles, SayWhereTensorsLie) {
  const std::string first = "aaaabbbbccccddddeeeeffff", second = "gghh";
  const std::string bytes =
      torch_file({{.name = "model.b", .shape = {2}, .strides = {1}, .first = 4},
                  {.name = "model.a", .shape = {2, 2}, .strides = {2, 1}},
                  {.name = "half", .storage = "BFloat16Storage", .shape = {2}, .strides = {1}, .key = "1"},
                  {.name = "one", .shape = {}, .strides = {}, .first = 5}},
                 {{"0", first}, {"1", second}});
  const auto file = read_torch_file(MemorySource("f", bytes));
  ASSERT_TRUE(file.ok()) << message_of(file.status());
  EXPECT_EQ(file->iteration, 7);
  ASSERT_EQ(file->tensors.size(), 4U);
  const auto content = [&](size_t i) {
    return bytes.substr(static_cast<size_t>(file->tensors[i].offset), static_cast<size_t>(file->tensors[i].bytes));
  };
  EXPECT_EQ(file->tensors[0].name, "model.a");
  EXPECT_EQ(content(0), "aaaabbbbccccdddd");
  EXPECT_EQ(file->tensors[1].name, "model.b");
  EXPECT_EQ(content(1), "eeeeffff");
  EXPECT_EQ(content(2), "ffff");
  EXPECT_EQ(file->tensors[3].dtype, tensor::DType::kBF16);
  EXPECT_EQ(content(3), "gghh");
}

TEST(TorchFiles, RefuseWhatIsNotInTheFile) {
  EXPECT_EQ(problem_of({.name = "w", .shape = {4, 2}, .strides = {2, 1}}), "f: tensor \"w\" is beyond its storage");
  EXPECT_EQ(problem_of({.name = "w", .shape = {2}, .strides = {1}, .first = 5}),
            "f: tensor \"w\" is beyond its storage");
  EXPECT_EQ(problem_of({.name = "w", .shape = {2}, .strides = {1}, .first = -1}),
            "f: tensor \"w\" is beyond its storage");
  EXPECT_EQ(problem_of({.name = "w", .shape = {int64_t{1} << 62, 1 << 20}, .strides = {1 << 20, 1}}),
            "f: tensor \"w\" is beyond its storage");
  EXPECT_EQ(problem_of({.name = "w", .shape = {2}, .strides = {1}, .key = "9"}),
            "f: tensor \"w\" is in storage \"9\", which is not there");
  EXPECT_THAT(problem_of({.name = "w", .shape = {2, 3}, .strides = {1, 2}}), HasSubstr("is not contiguous"));
  EXPECT_THAT(problem_of({.name = "w", .storage = "ComplexFloatStorage", .shape = {1}, .strides = {1}}),
              HasSubstr("is of torch.ComplexFloatStorage, which safetensors has not"));
  EXPECT_THAT(
      problem_of(torch_file({{.name = "v", .shape = {9}, .strides = {1}}, {.name = "w", .shape = {9}, .strides = {1}}},
                            {{"0", "xxxx"}})),
      AllOf(HasSubstr("\"v\""), HasSubstr("\"w\"")))
      << "all at once";
}

// {"w": _rebuild_from_type_v2(_rebuild_tensor_v2, TYPE, (…), {"shared": True})}: what a tensor is that was given
// attributes.
std::string typed_file(std::string_view module, std::string_view type) {
  PickleWriter pickle;
  pickle.op("}").text("w").name("torch._tensor", "_rebuild_from_type_v2").op("(");
  pickle.name("torch._utils", "_rebuild_tensor_v2").name(module, type).op("((");
  pickle.text("storage").name("torch", "FloatStorage").text("0").text("cpu").number(1).op("tQ");
  pickle.number(1).numbers({1}).numbers({1}).op("\x89").name("collections", "OrderedDict").op(")Rt");
  pickle.op("}").text("shared").op("\x88stRs.");
  ZipWriter zip;
  zip.add("archive/data.pkl", pickle.bytes());
  zip.add("archive/data/0", "aaaabbbb");
  return zip.finish();
}

TEST(TorchFiles, TensorsWithAttributesAreTensors) {
  const std::pair<const char*, const char*> plain[] = {{"torch", "Tensor"}, {"torch.nn.parameter", "Parameter"}};
  for (const auto& [module, type] : plain) {
    const std::string bytes = typed_file(module, type);
    const auto file = read_torch_file(MemorySource("f", bytes));
    ASSERT_TRUE(file.ok()) << message_of(file.status());
    ASSERT_EQ(file->tensors.size(), 1U);
    EXPECT_EQ(file->tensors[0].name, "w");
    EXPECT_EQ(bytes.substr(static_cast<size_t>(file->tensors[0].offset), 4), "bbbb");
  }
  EXPECT_THAT(problem_of(typed_file("transformer_engine.pytorch", "Float8Tensor")),
              HasSubstr("\"w\" is not dense: torch._tensor._rebuild_from_type_v2"));
}

// What a view has that negates its elements when it is read: torch appends {"neg": True}, or nothing.
TEST(TorchFiles, SignsThatAreAppliedLaterAreRefused) {
  const auto file = [](std::string_view metadata) {
    PickleWriter pickle;
    pickle.op("}").text("w").name("torch._utils", "_rebuild_tensor_v2").op("((");
    pickle.text("storage").name("torch", "FloatStorage").text("0").text("cpu").number(1).op("tQ");
    pickle.number(0).numbers({1}).numbers({1}).op("\x89").name("collections", "OrderedDict").op(")R").op(metadata);
    pickle.op("tRs.");
    ZipWriter zip;
    zip.add("archive/data.pkl", pickle.bytes());
    zip.add("archive/data/0", "aaaa");
    return zip.finish();
  };
  EXPECT_THAT(problem_of(file(std::string_view("}X\3\0\0\0neg\x88s", 11))),
              HasSubstr("tensor \"w\" has a sign or a conjugation that is applied when it is loaded"));
  for (const char* nothing : {"", "N", "}"}) EXPECT_TRUE(read_torch_file(MemorySource("f", file(nothing))).ok());
}

TEST(TorchFiles, EmptyTensorsAreNowhere) {
  const auto file = read_torch_file(
      MemorySource("f", torch_file({{.name = "e", .shape = {0, 100'000}, .strides = {100'000, 1}}}, {{"0", ""}})));
  ASSERT_TRUE(file.ok()) << message_of(file.status());
  EXPECT_EQ(file->tensors.at(0).bytes, 0);
}

TEST(TorchFiles, LongNamesEnd) {
  EXPECT_THAT(problem_of(TorchTensor{.name = std::string(5'000, 'n'), .shape = {1}, .strides = {1}}),
              HasSubstr("has too long a name"));
}

TEST(TorchFiles, RefuseOtherFiles) {
  EXPECT_THAT(problem_of(std::string("\x80\x02.", 3)), HasSubstr("not a file of torch.save as of torch 1.6"));
  ZipWriter other;
  other.add("a.txt", "x");
  EXPECT_THAT(problem_of(other.finish()), HasSubstr("it has no data.pkl"));
  ZipWriter big;
  big.add("a/data.pkl", "N.");
  big.add("a/byteorder", "big");
  EXPECT_THAT(problem_of(big.finish()), HasSubstr("high byte first"));
  ZipWriter sparse;
  PickleWriter pickle;
  pickle.op("}").text("w").name("torch._utils", "_rebuild_sparse_tensor").op(")Rs.");
  sparse.add("a/data.pkl", pickle.bytes());
  EXPECT_THAT(problem_of(sparse.finish()), HasSubstr("\"w\" is not dense: torch._utils._rebuild_sparse_tensor"));
}

TEST(TorchFiles, ListsThatContainThemselvesEnd) {
  ZipWriter zip;
  zip.add("a/data.pkl", std::string_view("\x80\x02]q\x00h\x00"
                                         "a.",
                                         9));
  EXPECT_THAT(problem_of(zip.finish()), HasSubstr("is nested too deeply"));
}

TEST(TorchFiles, ListsThatShareListsEnd) {
  PickleWriter pickle;  // 2^60 paths
  pickle.op("]").op(std::string_view("q\0", 2));
  for (char i = 0; i < 60; ++i) {
    const std::string get = {'h', i}, put = {'q', static_cast<char>(i + 1)};
    pickle.op("](").op(get).op(get).op("e").op(put);
  }
  ZipWriter zip;
  zip.add("a/data.pkl", pickle.op(".").bytes());
  EXPECT_THAT(problem_of(zip.finish()), HasSubstr("is one of too many"));
}

TEST(TorchFiles, ManyEditsAreToldOrInside) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::string bytes =
      torch_file({{.name = "w", .shape = {2, 3}, .strides = {3, 1}}}, {{"0", std::string(24, 'x')}});
  for (int round = 0; round < 20'000; ++round) {
    std::string edited = bytes;
    for (int64_t edits = random.between(1, 3); edits > 0; --edits)
      edited[static_cast<size_t>(random.below(static_cast<int64_t>(edited.size())))] =
          static_cast<char>(random.below(256));
    const auto file = read_torch_file(MemorySource("f", edited));
    if (!file.ok()) continue;
    for (const StoredTensor& tensor : file->tensors)
      ASSERT_LE(tensor.offset + tensor.bytes, static_cast<int64_t>(edited.size()));
  }
}

}  // namespace torch_file_test
}  // namespace scalai::store
