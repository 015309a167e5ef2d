#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {
namespace {

using tensor::DType;
using ::testing::HasSubstr;

std::string length_prefix(size_t n) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
  return bytes;
}

std::string encoded(const std::vector<TensorSpec>& specs, const std::map<std::string, std::string>& metadata = {}) {
  const absl::StatusOr<EncodedHeader> header = encode_safetensors_header(specs, metadata);
  EXPECT_TRUE(header.ok()) << header.status();
  return header.ok() ? header->bytes : "";
}

std::string refusal(std::string_view json, int64_t data_bytes) {
  const absl::StatusOr<SafetensorsHeader> header =
      parse_safetensors_header(json, 8 + static_cast<int64_t>(json.size()) + data_bytes);
  return header.ok() ? "accepted" : message_of(header.status());
}

TEST(SafetensorsHeader, WritesTheFormatsOwnExamples) {
  EXPECT_EQ(encoded({}), length_prefix(8) + "{}      ");
  EXPECT_EQ(encoded({{"attn.0", DType::kF32, {1, 2, 3}}}),
            length_prefix(64) + R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  EXPECT_EQ(encoded({{"attn0", DType::kF32, {1, 1, 2, 3}}}),
            length_prefix(72) + R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}})" + "       ");
}

TEST(SafetensorsHeader, OrdersByDTypeThenName) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : tensor::dtype_names()) {
    specs.push_back({"b." + name, *tensor::parse_dtype(name), {}});
    specs.push_back({"a." + name, *tensor::parse_dtype(name), {}});
  }
  const absl::StatusOr<EncodedHeader> header = encode_safetensors_header(specs, {});
  ASSERT_TRUE(header.ok());
  std::vector<std::string> names;
  for (const StoredTensor& stored : header->header.tensors) {
    names.push_back(stored.name);
    EXPECT_EQ((stored.offset - header->header.data_begin) % tensor::size_of(stored.dtype), 0) << stored.name;
  }
  std::vector<std::string> expected;
  for (const char* name : {"U64", "I64", "F64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E4M3", "F8_E5M2",
                           "I8", "U8", "BOOL"}) {
    expected.push_back(std::string("a.") + name);
    expected.push_back(std::string("b.") + name);
  }
  EXPECT_EQ(names, expected);
}

TEST(SafetensorsHeader, EscapesAsJsonWithNothingMore) {
  const std::string name = "\xC3\xA9\x01\"\\/\x7F\n";
  const std::string bytes = encoded({{name, DType::kU8, {}}}, {{"k", "v\t"}});
  EXPECT_THAT(bytes, HasSubstr("{\"__metadata__\":{\"k\":\"v\\t\"},\"\xC3\xA9\\u0001\\\"\\\\/\x7F\\n\":{"));
  const auto back = parse_safetensors_header(bytes.substr(8), static_cast<int64_t>(bytes.size()) + 1);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->tensors.front().name, name);
  EXPECT_EQ(back->metadata.at("k"), "v\t");
}

TEST(SafetensorsHeader, RefusesToWriteWhatNobodyCouldRead) {
  const auto refused = [](std::vector<TensorSpec> specs, std::map<std::string, std::string> metadata = {}) {
    const auto header = encode_safetensors_header(std::move(specs), std::move(metadata));
    return header.ok() ? "accepted" : message_of(header.status());
  };
  EXPECT_EQ(refused({{"a", DType::kU8, {}}, {"a", DType::kF32, {}}}), "tensor \"a\" appears twice");
  EXPECT_EQ(refused({{"__metadata__", DType::kU8, {}}}), "tensor \"__metadata__\": a reserved name");
  EXPECT_EQ(refused({{"\xFF", DType::kU8, {}}}), "tensor \"?\": not UTF-8");
  EXPECT_EQ(refused({}, {{"k", "\xC3"}}), "metadata \"k\": not UTF-8");
  EXPECT_EQ(refused({{"a", DType::kU8, {-1}}}), "tensor \"a\": negative extent -1");
  EXPECT_THAT(refused({{"a", DType::kF32, {int64_t{1} << 62, 4, 0}}}), HasSubstr("more bytes than 2^63"));
  EXPECT_THAT(refused({{"a", DType::kU8, {int64_t{1} << 62}}, {"b", DType::kU8, {int64_t{1} << 62}}}),
              HasSubstr("together"));
}

// Each line is right but for what its name says.
TEST(SafetensorsHeader, RefusesWithTheReason) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(refusal("{" + a + "}", 4), "accepted");
  EXPECT_EQ(refusal("{" + a + "} \n\t ", 4), "accepted");
  EXPECT_EQ(refusal("{}", 0), "accepted");
  EXPECT_EQ(refusal("", 0), "the header does not begin with \"{\"");
  EXPECT_EQ(refusal(" {" + a + "}", 4), "the header does not begin with \"{\"");
  EXPECT_THAT(refusal("{" + a, 4), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("{" + a + "}x", 4), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("{\"\xFF\":{}}", 4), HasSubstr("is not JSON"));
  EXPECT_EQ(refusal("{" + a + "," + a + "}", 4), "tensor \"a\": appears twice");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
            "tensor \"a\": \"dtype\" appears twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "\"__metadata__\": appears twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":"1","k":"1"}})", 0), "\"__metadata__\": \"k\" appears twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":1}})", 0), "\"__metadata__\": \"k\" is no field or value of the format");
  EXPECT_EQ(refusal(R"({"__metadata__":null})", 0), "\"__metadata__\": is not an object");
  EXPECT_EQ(refusal(R"({"a":[1]})", 4), "tensor \"a\": is not an object");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "tensor \"a\": \"data_offsets\" is missing");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4),
            "tensor \"a\": unknown dtype \"F33\"");
  for (const char* field : {R"("x":1)", R"("x":"y")", R"("x":null)", R"("x":true)", R"("x":{})", R"("x":[])"}) {
    EXPECT_EQ(refusal(fmt::format(R"({{"a":{{{},"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}})", field), 4),
              "tensor \"a\": \"x\" is no field or value of the format");
  }
  for (const char* shape : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[[1]]", "[null]", "[18446744073709551615]", "1"}) {
    EXPECT_EQ(refusal(fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":[0,4]}}}})", shape), 4),
              "tensor \"a\": \"shape\" is no field or value of the format")
        << shape;
  }
  for (const char* offsets : {"[0]", "[4,0]", "[]"}) {
    EXPECT_EQ(refusal(fmt::format(R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})", offsets), 4),
              "tensor \"a\": data_offsets are not [begin, end]");
  }
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4),
              HasSubstr("no field or value"));
}

TEST(SafetensorsHeader, RefusesHolesOverlapsAndWrongSizes) {
  const auto two = [](int begin, int end, int data_bytes) {
    return refusal(fmt::format(R"({{"b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                               R"("a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}})",
                               end - begin, begin, end),
                   data_bytes);
  };
  EXPECT_EQ(two(4, 7, 7), "accepted");
  EXPECT_EQ(two(5, 7, 7), "tensor \"b\": its data begins at 5, but the data before it ends at 4: a hole");
  EXPECT_EQ(two(3, 7, 7), "tensor \"b\": its data begins at 3, but the data before it ends at 4: an overlap");
  EXPECT_THAT(two(4, 7, 6), HasSubstr("tensor \"b\": its data ends at byte"));
  EXPECT_THAT(two(4, 7, 8), HasSubstr("the tensors end at byte"));
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "tensor \"a\": F32 [2] has 8 bytes, but data_offsets give it 4");
  // The product overflows to 0 in 64 bits.
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              HasSubstr("more bytes than 2^63"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
              HasSubstr("more bytes than 2^63"));
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0), "accepted");
}

TEST(SafetensorsHeader, ReadsWhatItWrites) {
  const std::vector<std::string> dtypes = tensor::dtype_names();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<TensorSpec> specs;
    for (int64_t i = random.below(12); i > 0; --i) {
      std::vector<int64_t> shape;
      for (int64_t d = random.below(8); d > 0; --d) shape.push_back(random.below(4));
      const auto dtype = static_cast<DType>(random.below(static_cast<int64_t>(dtypes.size())));
      specs.push_back({fmt::format("{}.{}", random.below(1000), i), dtype, shape});
    }
    std::map<std::string, std::string> metadata;
    if (random.below(2) == 1) metadata["m"] = std::string(static_cast<size_t>(random.below(20)), '"');
    const absl::StatusOr<EncodedHeader> header = encode_safetensors_header(specs, metadata);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->bytes.size() % 8, 0u);
    const auto back = parse_safetensors_header(header->bytes.substr(8), header->header.file_bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->metadata, metadata);
    EXPECT_EQ(back->data_begin, header->header.data_begin);
    EXPECT_THAT(back->tensors, ::testing::UnorderedElementsAreArray(header->header.tensors));
  }
}

// Damaged headers are refused or read, never worse; a sanitizer build makes this a real test of the parser.
TEST(SafetensorsHeader, TakesAnyBytes) {
  const std::string good = encoded({{"a", DType::kF32, {2}}, {"b#0", DType::kU8, {3}}}, {{"k", "v"}}).substr(8);
  int refused = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::string bytes = good;
    for (int64_t i = random.between(1, 3); i > 0; --i) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())));
      bytes[at] = random.below(2) == 0 ? static_cast<char>(random.below(256)) : "{}[],:\"019-"[random.below(11)];
    }
    const auto header = parse_safetensors_header(bytes, 8 + static_cast<int64_t>(bytes.size()) + 11);
    if (header.ok()) continue;
    ++refused;
    EXPECT_FALSE(message_of(header.status()).empty());
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace scalai::store
