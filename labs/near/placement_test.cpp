#include "labs/near/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace placement_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Use> uses_of(const std::string& text) {
  const auto pipeline = parse_pipeline(text, {});
  EXPECT_TRUE(pipeline.ok());
  std::vector<Use> uses;
  for (size_t i = 0; i < pipeline->size(); ++i)
    uses.push_back(Annotations::built_in().use_of((*pipeline)[i], {.first = i == 0, .byte_locale = true}));
  return uses;
}

// Hosts with files of 100 kB each, one part at a time.
Source source_of(const std::vector<std::vector<std::string>>& hosts) {
  Source source;
  for (const auto& files : hosts) {
    source.hosts.push_back({.name = "h" + std::to_string(source.hosts.size()), .folder = "/x"});
    source.jobs.push_back(1);
    source.by_host.emplace_back();
    for (const std::string& file : files)
      source.by_host.back()[file] = {.bytes = 100'000, .ends_whole = file != "cut", .has_mark = file == "marked"};
  }
  EXPECT_TRUE(unite(source).ok());
  return source;
}

TEST(Place, SplitsByFileWhereTheFilesAre) {
  const Placement placement = place(uses_of("grep x a b c d | wc -l | sort"), source_of({{"a", "b"}, {"c", "d"}}), {});
  EXPECT_EQ(placement.near, 2U);
  EXPECT_EQ(placement.merge, Merge::kSum);
  EXPECT_EQ(placement.local_from, 2U);
  ASSERT_EQ(placement.parts.size(), 2U);
  EXPECT_THAT(placement.parts[0].files, ElementsAre("a", "b"));
  EXPECT_THAT(placement.parts[1].files, ElementsAre("c", "d"));
  EXPECT_EQ(placement.input_bytes, 400'000);
  EXPECT_EQ(placement.moved_if_local_bytes, 400'000);
  EXPECT_LT(placement.moved_bytes, 100);
  EXPECT_EQ(placement.why[2], "what is put out before it is of parts");
}

TEST(Place, KeepsTheOrderOfFiles) {
  const Placement placement = place(uses_of("cut -c1 a c b d"), source_of({{"a", "b"}, {"c", "d"}}), {});
  ASSERT_EQ(placement.parts.size(), 4U);
  EXPECT_THAT(placement.parts[1].files, ElementsAre("c"));
  EXPECT_EQ(placement.parts[1].host, 1U);
}

TEST(Place, ReplicasShareTheWork) {
  const Placement placement =
      place(uses_of("sha256sum a b c d"), source_of({{"a", "b", "c", "d"}, {"a", "b", "c", "d"}}), {.part_bytes = 1});
  ASSERT_EQ(placement.parts.size(), 2U);
  EXPECT_NE(placement.parts[0].host, placement.parts[1].host);
  EXPECT_EQ(placement.parts[0].bytes, 200'000);
}

// As a host may claim: sums stay numbers, and there are no more parts than jobs.
TEST(Place, SizesThatNoFileHasAreNoWork) {
  Source source = source_of({{"a"}});
  source.jobs = {4};
  source.files["a"].bytes = source.by_host[0]["a"].bytes = kMostListed;
  EXPECT_EQ(place(uses_of("sort a"), source, {}).parts.size(), 4U);
  std::string often = "sort";
  for (int i = 0; i < 300; ++i) often += " a";
  const Placement placement = place(uses_of(often), source, {});
  EXPECT_EQ(placement.near, 0U);
  EXPECT_THAT(placement.why[0], HasSubstr("2^60 bytes"));
  EXPECT_GT(placement.input_bytes, 0);
}

TEST(Place, CutsALargeFileByRecords) {
  Source source = source_of({{"a"}});
  source.jobs = {4};
  const Placement placement = place(uses_of("sort a | uniq -c"), source, {.part_bytes = 10});
  ASSERT_EQ(placement.parts.size(), 4U);
  int64_t at = 0;
  for (const PlacedPart& part : placement.parts) {
    ASSERT_EQ(part.ranges.size(), 1U);
    EXPECT_EQ(part.ranges[0].begin, at);
    EXPECT_TRUE(part.ranges[0].records);
    at = part.ranges[0].end;
  }
  EXPECT_EQ(at, 100'000);
  EXPECT_EQ(placement.merge, Merge::kCounted);
  EXPECT_TRUE(placement.counts_sorted);
  EXPECT_EQ(place(uses_of("sort a"), source, {.cuts = false, .part_bytes = 10}).parts.size(), 1U);
  EXPECT_EQ(place(uses_of("wc -l a"), source, {.part_bytes = 10}).parts.size(), 1U);  // its line names the file
}

// Small files share a part; one whose last line goes on is the last of its part.
TEST(Place, CutsPutSmallFilesTogether) {
  Source source = source_of({{}, {}});
  std::string text = "sort";
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "f" + std::to_string(i);
    source.by_host[i < 500 ? 0 : 1][name] = {.bytes = 2, .ends_whole = i != 100};
    text += " " + name;
  }
  source.by_host[0]["large"] = {.bytes = 10'000};
  source.jobs = {8, 8};
  ASSERT_TRUE(unite(source).ok());
  const Placement placement = place(uses_of(text + " large"), source, {.part_bytes = 1000});
  EXPECT_LE(placement.parts.size(), 14U);
  EXPECT_TRUE(placement.by_record(0));
  int next = 0;
  for (const PlacedPart& part : placement.parts) {
    int64_t bytes = 0;
    for (const Range& range : part.ranges) {
      EXPECT_TRUE(source.has(part.host, range.file));
      EXPECT_TRUE(range.file == "large" || range.file == "f" + std::to_string(next++));
      EXPECT_TRUE(range.file != "f100" || &range == &part.ranges.back());
      bytes += range.end - range.begin;
    }
    EXPECT_EQ(part.bytes, bytes);
  }
  EXPECT_EQ(next, 1000);
  // Without a file to cut, as many parts as files are no better.
  EXPECT_LE(place(uses_of(text), source, {}).parts.size(), 3U);
}

TEST(Place, NoMoreThanOneMergeLiesBetweenNearAndHere) {
  const Source source = source_of({{"a"}, {"b"}});
  const auto near_of = [&](const std::string& text) { return place(uses_of(text), source, {}).near; };
  EXPECT_EQ(near_of("sort a b | head -n 3"), 2U);
  EXPECT_EQ(near_of("sort a b | head -n 3 | tail -n 1"), 2U);
  EXPECT_EQ(near_of("sort a b | grep x"), 1U);
  EXPECT_EQ(near_of("sort -r a b | uniq -c"), 1U);
  EXPECT_EQ(near_of("cat a b | head -n 3 | sort"), 2U);
  EXPECT_EQ(near_of("cat a b | grep x | cut -c1 | tr a b | uniq"), 5U);
  EXPECT_EQ(near_of("cat a b | awk x | wc"), 1U);
  EXPECT_EQ(near_of("cat -n a b | wc"), 0U);
  const Placement again = place(uses_of("sort a b | head -n 3"), source, {});
  EXPECT_EQ(again.merge, Merge::kSorted);
  EXPECT_EQ(again.local_from, 1U);
  EXPECT_EQ(place(uses_of("cat a b | head -n 3"), source, {}).local_from, 1U);
}

// What one host has as a whole runs there as it is.
TEST(Place, WhatIsNotSplitRunsOnTheHostThatHasAll) {
  const Placement placement = place(uses_of("cat -n a b | tail -n 1"), source_of({{"a"}, {"a", "b"}}), {});
  EXPECT_EQ(placement.near, 2U);
  ASSERT_EQ(placement.parts.size(), 1U);
  EXPECT_EQ(placement.parts[0].host, 1U);
  EXPECT_EQ(placement.merge, Merge::kConcatenate);
}

// Outputs wait in files: on this machine a copy of all that is read saves nothing.
TEST(Place, WhatPutsOutAllThatItReadsIsNotSplitHere) {
  Source source = source_of({{"a", "b"}});
  source.hosts[0].here = true;
  source.jobs[0] = 2;
  const PlaceOptions small{.part_bytes = 10};
  EXPECT_EQ(place(uses_of("cat a b | tr a b"), source, small).near, 0U);
  EXPECT_EQ(place(uses_of("cat a b | tr a b | grep x"), source, small).near, 3U);
  EXPECT_EQ(place(uses_of("sort a b"), source, small).near, 1U);
  EXPECT_EQ(place(uses_of("sha256sum a b"), source, small).parts.size(), 2U);
}

TEST(Place, SaysWhyNothingIsNear) {
  const Source source = source_of({{"a"}, {"b"}});
  EXPECT_EQ(place(uses_of("cat a nosuch"), source, {}).why[0], "nosuch is no file of the source");
  EXPECT_EQ(place(uses_of("awk x a"), source, {}).why[0], "no annotation of awk");
  EXPECT_EQ(place(uses_of("cat a b"), source, {.most_near = 0}).near, 0U);
  EXPECT_EQ(place(uses_of("jq . cut b"), source_of({{"cut"}, {"b"}}), {}).near, 0U)
      << "the last line of cut goes on in b";
  EXPECT_EQ(place(uses_of("jq . b cut"), source_of({{"cut"}, {"b"}}), {}).near, 1U);
  EXPECT_EQ(place(uses_of("jq . b marked"), source_of({{"b"}, {"marked"}}), {}).near, 0U)
      << "jq takes a mark at the begin of its input only";
  EXPECT_EQ(place(uses_of("jq . marked b"), source_of({{"b"}, {"marked"}}), {}).near, 1U);
}

// Every byte of every file is in exactly one part, in order, on a host that has it.
TEST(Place, PartsAreTheWholeInput) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Source source;
    const auto hosts = static_cast<size_t>(random.between(1, 4)), files = static_cast<size_t>(random.between(1, 6));
    std::string text = "sort";
    source.by_host.resize(hosts);
    for (size_t host = 0; host < hosts; ++host) {
      source.hosts.push_back({.name = std::to_string(host), .folder = "/x", .here = host == 0});
      source.jobs.push_back(static_cast<int>(random.between(1, 4)));
    }
    for (size_t file = 0; file < files; ++file) {
      const std::string name = "f" + std::to_string(file);
      const int64_t bytes = random.below(1000);
      const auto sure = static_cast<size_t>(random.below(static_cast<int64_t>(hosts)));
      for (size_t host = 0; host < hosts; ++host)
        if (host == sure || random.below(3) == 0) source.by_host[host][name] = {.bytes = bytes};
      text += " " + name;
    }
    ASSERT_TRUE(unite(source).ok());
    const std::vector<Use> uses = uses_of(text);
    const Placement placement = place(uses, source, {.part_bytes = random.between(1, 500)});
    if (placement.near == 0) continue;
    std::vector<std::pair<std::string, int64_t>> seen;  // file and bytes so far
    for (const PlacedPart& part : placement.parts) {
      for (const std::string& file : part.files) {
        EXPECT_TRUE(source.has(part.host, file));
        seen.emplace_back(file, source.files[file].bytes);
      }
      for (const Range& range : part.ranges) {
        EXPECT_TRUE(source.has(part.host, range.file));
        if (range.begin == 0) seen.emplace_back(range.file, 0);
        ASSERT_EQ(seen.back(), std::pair(range.file, range.begin));
        seen.back().second = range.end;
      }
    }
    ASSERT_EQ(seen.size(), files);
    for (size_t i = 0; i < files; ++i)
      EXPECT_EQ(seen[i], std::pair(uses[0].inputs[i], source.files[uses[0].inputs[i]].bytes));
  }
}

TEST(Unite, NamesFilesThatDiffer) {
  Source source;
  source.hosts = {{.name = "p"}, {.name = "q"}};
  source.by_host = {{{"a", {.bytes = 1}}, {"b", {.bytes = 2}}}, {{"a", {.bytes = 3}}, {"b", {.bytes = 4}}}};
  const absl::Status status = unite(source);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr("a: 1 bytes on p, 3 on q"));
  EXPECT_THAT(message_of(status), HasSubstr("b: 2 bytes on p, 4 on q"));
}

}  // namespace placement_test
}  // namespace scalai::near
