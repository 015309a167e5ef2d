#include "ptc/store/safetensors/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/json_fields.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::store {
namespace manifest_test {

using ::testing::HasSubstr;

constexpr const char* kSum = "0123456789abcdef0123456789abcdef";

Manifest sample() {
  return {"job \"x\"", 12, 5, "digest", {{"rank_000.safetensors", 0, 99, kSum, {{"w", "w#0", {{0}, {3}}, kSum}}}}};
}

// The sample with one text put in another's place.
std::string refusal(const std::string& from, const std::string& to) {
  std::string text = manifest_part(sample());
  const size_t at = text.find(from);
  SCALAI_CHECK(at != std::string::npos, from);
  text.replace(at, from.size(), to);
  const absl::StatusOr<Manifest> manifest = parse_manifest(text);
  return manifest.ok() ? "accepted" : message_of(manifest.status());
}

TEST(ManifestTest, ReadsBackWhatItWrote) {
  EXPECT_EQ(*parse_manifest(manifest_text(sample())), sample());
  EXPECT_EQ(*parse_manifest(manifest_part(sample())), sample());
  EXPECT_EQ(manifest_part(sample()).find('\n'), std::string::npos);
}

TEST(ManifestTest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_EQ(refusal("\"step\":12", "\"step\":12"), "accepted");
  EXPECT_EQ(refusal("\"schema_version\":1", "\"schema_version\":2"), "schema version 2; this program reads version 1");
  EXPECT_EQ(refusal("\"step\":12", "\"stop\":12"), "\"step\" is missing");
  EXPECT_EQ(refusal("\"step\":12", "\"step\":-12"), "\"step\" is not a whole number in range");
  EXPECT_EQ(refusal("\"rank\":0", "\"rank\":4294967296"), "\"rank\" is not a whole number in range");
  EXPECT_EQ(refusal("\"tensor\":\"w\"", "\"tensor\":7"), "\"tensor\" is not a string");
  EXPECT_EQ(refusal("[0:3]\"", "[3:0]\""), "\"box\" is not a box");
  EXPECT_EQ(refusal(kSum, "0123"), "\"xxh3_128\" is not a checksum");
  EXPECT_EQ(refusal("rank_000", "../rank_000"), "\"name\" is not the name of a file");
  EXPECT_EQ(refusal("\"boxes\":[", "\"boxes\":7,\"x\":["), "\"boxes\" is not a list");
  EXPECT_EQ(refusal("\"files\":[", "\"files\":[7,"), "\"name\" is missing");
  EXPECT_THAT(refusal("{", "["), HasSubstr("this is not JSON"));
  EXPECT_EQ(message_of(parse_manifest("[]").status()), "not readable as a JSON object");
}

// Every element of every tensor has exactly one writer, and it is the lowest rank that holds it.
TEST(OwnedBoxes, AreThePiecesOfTheFirstHolder) {
  const collection::Collection collection = sample_collection();
  const std::vector<std::vector<OwnedBox>> owned = owned_boxes(collection);
  for (size_t t = 0; t < collection.tensors.size(); ++t) {
    const TensorId id(static_cast<int64_t>(t));
    int64_t volume = 0;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      for (const OwnedBox& box : owned[static_cast<size_t>(rank)]) {
        if (box.tensor != id) continue;
        volume += box.box.volume();
        for (int earlier = 0; earlier < rank; ++earlier) {
          for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(earlier)).pieces) {
            EXPECT_FALSE(intersect(piece.box, box.box)) << collection.tensors[t].name << " rank " << rank;
          }
        }
      }
    }
    EXPECT_EQ(volume, collection.tensors[t].shape.elements()) << collection.tensors[t].name;
  }
}

}  // namespace manifest_test
}  // namespace scalai::store
