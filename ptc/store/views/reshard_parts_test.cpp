#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/views/internal/reshard_journal.h"
#include "ptc/store/views/internal/reshard_places.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {
namespace reshard_parts_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kParts = 3;

class ReshardParts : public FolderTest {
 protected:
  ReshardParts() { write_hugging_face(path("hf"), llama_config(8, 2), {}, 3); }

  std::shared_ptr<const View> view(const std::string& form, int part, int parts,
                                   const std::string& source = "hf") const {
    ViewSpec spec = *parse_view_name(form);
    spec.part = part;
    spec.parts = parts;
    spec.shard_bytes = 20'000;
    const auto checkpoint = Checkpoint::open(path(source));
    SCALAI_CHECK(checkpoint.ok(), message_of(checkpoint.status()));
    const auto made = View::make(*checkpoint, spec);
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    return *made;
  }
  ReshardOptions options(const std::string& target) const {
    return {.target = path(target), .verify = true, .progress = {}};
  }
  void write(const std::string& form, int part) const {
    const auto share = view(form, part, kParts);
    const ReshardOptions to = options(fs::path(part_folder("out", part, kParts)).filename());
    const auto plan = plan_reshard(*share, to);
    SCALAI_CHECK(plan.ok(), message_of(plan.status()));
    const auto result = reshard(*share, *plan, to);
    SCALAI_CHECK(result.ok(), message_of(result.status()));
    EXPECT_TRUE(*is_part(to.target, *share));
  }
  Joined join(const std::string& form) const {
    const auto joined = join_parts(*view(form, 0, 1), kParts, options("out"));
    SCALAI_CHECK(joined.ok(), message_of(joined.status()));
    return *joined;
  }
  // All that is below a folder, by path.
  static std::map<std::string, std::string> content(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files[entry.path().string().substr(folder.size())] = text_of(entry.path().string());
    }
    return files;
  }
  void write_reference(const std::string& form) const {
    const auto whole = view(form, 0, 1);
    SCALAI_CHECK(reshard(*whole, *plan_reshard(*whole, options("reference")), options("reference")).ok());
  }
  // Nothing but source, reference and result is left.
  void expect_clean() const {
    for (const auto& entry : fs::directory_iterator(path(""))) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "hf" || name == "out" || name == "reference") << name;
    }
  }
};

TEST_F(ReshardParts, TogetherAreTheWhole) {
  for (const char* form : {"tp4,pp2", "hf", "torch_dist", "tp2,pp2,torch"}) {
    SCOPED_TRACE(form);
    write_reference(form);
    EXPECT_THAT(join(form).missing, ElementsAre(0, 1, 2));
    write(form, 2);
    write(form, 0);
    EXPECT_THAT(join(form).missing, ElementsAre(1));
    EXPECT_FALSE(fs::exists(path("out")));
    write(form, 1);
    EXPECT_TRUE(join(form).missing.empty());
    EXPECT_EQ(content(path("out")), content(path("reference")));
    EXPECT_TRUE((*Checkpoint::open(path("out")))->verify({}).ok());
    expect_clean();
    fs::remove_all(path("out"));
    fs::remove_all(path("reference"));
  }
}

// A call that was killed between two renames, or behind the last.
TEST_F(ReshardParts, ACallThatWasKilledIsGoneOnWith) {
  write_reference("tp4,pp2");
  for (int part = 0; part < kParts; ++part) write("tp4,pp2", part);
  const internal::ReshardPlaces places = internal::places_of(path("out"));
  const std::string digest = "parts " + internal::digest_of_whole(*view("tp4,pp2", 0, 1));
  fs::create_directories(places.partial);
  const std::string first = part_folder(path("out"), 0, kParts);
  for (const auto& entry : fs::directory_iterator(first)) {
    const std::string name = entry.path().filename();
    if (name != kManifestName) {
      fs::rename(entry.path(), places.partial + "/" + name);
      break;
    }
  }
  EXPECT_TRUE((*internal::Journal::open(places.journal, digest, false))->begin().ok());
  EXPECT_TRUE(join("tp4,pp2").missing.empty());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  expect_clean();
  fs::create_directories(first);  // the last parts were about to be removed
  const std::string sum = Checksum().add(bytes_of(text_of(path("out") + "/" + kManifestName))).hex();
  EXPECT_TRUE((*internal::Journal::open(places.journal, digest, false))->publish(sum).ok());
  EXPECT_TRUE(join("tp4,pp2").missing.empty());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  expect_clean();
}

// Between the exchange with what DST was before and its removal, DST.partial has that: the same names, other bytes.
TEST_F(ReshardParts, WhatDstWasBeforeIsNotTakenForTheParts) {
  write_hugging_face(path("old-hf"), llama_config(8, 2), {}, 99);
  {
    const auto old = view("tp4,pp2", 0, 1, "old-hf");
    ASSERT_TRUE(reshard(*old, *plan_reshard(*old, options("old")), options("old")).ok());
  }
  write_reference("tp4,pp2");
  fs::copy(path("old"), path("out"), fs::copy_options::recursive);
  for (int part = 0; part < kParts; ++part) {
    write("tp4,pp2", part);
    fs::create_directories(path(fmt::format("kept-{}", part)));
    fs::copy(part_folder(path("out"), part, kParts) + "/" + kManifestName, path(fmt::format("kept-{}", part)));
  }
  ReshardOptions force = options("out");
  force.force = true;
  ASSERT_TRUE(join_parts(*view("tp4,pp2", 0, 1), kParts, force).ok());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  const internal::ReshardPlaces places = internal::places_of(path("out"));
  fs::rename(path("old"), places.partial);
  for (int part = 0; part < kParts; ++part)
    fs::rename(path(fmt::format("kept-{}", part)), part_folder(path("out"), part, kParts));
  const std::string digest = "parts " + internal::digest_of_whole(*view("tp4,pp2", 0, 1));
  const std::string sum = Checksum().add(bytes_of(text_of(path("out") + "/" + kManifestName))).hex();
  ASSERT_TRUE((*internal::Journal::open(places.journal, digest, false))->publish(sum).ok());
  const auto joined = join_parts(*view("tp4,pp2", 0, 1), kParts, force);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(joined->missing.empty());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  fs::remove_all(path("old-hf"));
  expect_clean();
}

// The manifest is written, and nothing is renamed yet.
TEST_F(ReshardParts, ACallThatWasKilledBeforeTheRenameIsGoneOnWith) {
  write_reference("tp4,pp2");
  for (int part = 0; part < kParts; ++part) write("tp4,pp2", part);
  const internal::ReshardPlaces places = internal::places_of(path("out"));
  fs::copy(path("reference"), places.partial, fs::copy_options::recursive);
  for (int part = 0; part < kParts; ++part) {
    for (const auto& entry : fs::directory_iterator(part_folder(path("out"), part, kParts))) {
      if (entry.path().filename() != kManifestName) fs::remove(entry.path());
    }
  }
  const std::string digest = "parts " + internal::digest_of_whole(*view("tp4,pp2", 0, 1));
  const std::string sum = Checksum().add(bytes_of(text_of(path("reference") + "/" + kManifestName))).hex();
  ASSERT_TRUE((*internal::Journal::open(places.journal, digest, false))->publish(sum).ok());
  EXPECT_TRUE(join("tp4,pp2").missing.empty());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  expect_clean();
}

// Killed behind the last rename of a part, or while a finished part was written anew.
TEST_F(ReshardParts, WhatAPartLeftBesideItIsRemoved) {
  write_reference("tp4,pp2");
  for (int part = 0; part < kParts; ++part) write("tp4,pp2", part);
  const auto left = [&](int part) { return internal::places_of(part_folder(path("out"), part, kParts)); };
  ASSERT_TRUE((*internal::Journal::open(left(0).journal, "job", false))->publish("sum").ok());
  ASSERT_TRUE((*internal::Journal::open(left(1).journal, "job", false))->begin().ok());
  fs::create_directories(left(1).partial);
  write_text(left(2).journal, "mine\n");
  EXPECT_TRUE(join("tp4,pp2").missing.empty());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  EXPECT_EQ(text_of(left(2).journal), "mine\n");
  fs::remove(left(2).journal);
  expect_clean();
}

TEST_F(ReshardParts, WhatOthersHaveBesideAPartStays) {
  for (int part = 0; part < kParts; ++part) write("tp4,pp2", part);
  const internal::ReshardPlaces other = internal::places_of(part_folder(path("out"), 0, kParts));
  fs::create_directories(other.partial);
  write_text(other.partial + "/notes.txt", "mine");
  ASSERT_TRUE((*internal::Journal::open(other.journal, "other", false))->begin().ok());
  EXPECT_TRUE(join("tp4,pp2").missing.empty());
  EXPECT_EQ(text_of(other.partial + "/notes.txt"), "mine");
  EXPECT_TRUE(fs::exists(other.journal));
}

// Killed between the exchange with what DST was and its removal, and called again with --restart: what DST was stays
// what it was.
TEST_F(ReshardParts, RestartDoesNotForgetThatAllWasPutTogether) {
  write_hugging_face(path("old-hf"), llama_config(8, 2), {}, 99);
  const auto old = view("tp4,pp2", 0, 1, "old-hf");
  ASSERT_TRUE(reshard(*old, *plan_reshard(*old, options("old")), options("old")).ok());
  write_reference("tp4,pp2");
  const internal::ReshardPlaces places = internal::places_of(path("out"));
  fs::copy(path("reference"), places.target, fs::copy_options::recursive);
  fs::rename(path("old"), places.partial);
  for (int part = 0; part < kParts; ++part) {
    write("tp4,pp2", part);
    for (const auto& entry : fs::directory_iterator(part_folder(path("out"), part, kParts))) {
      if (entry.path().filename() != kManifestName) fs::remove(entry.path());
    }
  }
  const std::string digest = "parts " + internal::digest_of_whole(*view("tp4,pp2", 0, 1));
  const std::string sum = Checksum().add(bytes_of(text_of(places.target + "/" + kManifestName))).hex();
  ASSERT_TRUE((*internal::Journal::open(places.journal, digest, false))->publish(sum).ok());
  ReshardOptions again = options("out");
  again.force = again.restart = true;
  const auto joined = join_parts(*view("tp4,pp2", 0, 1), kParts, again);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(content(path("out")), content(path("reference")));
  fs::remove_all(path("old-hf"));
  expect_clean();
}

TEST_F(ReshardParts, APartIsVerifiedByItsManifest) {
  write("tp4,pp2", 1);
  const std::string folder = part_folder(path("out"), 1, kParts);
  EXPECT_TRUE(verify_part(folder, 2).ok());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path();
    if (entry.path().filename() == kManifestName) continue;
    SCOPED_TRACE(file);
    const std::string before = text_of(file);
    std::string changed = before;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    write_text(file, changed);
    EXPECT_THAT(message_of(verify_part(folder, 2)), HasSubstr(file + ": is not what was written"));
    write_text(file, before);
  }
  EXPECT_TRUE(verify_part(folder, 2).ok());
}

TEST_F(ReshardParts, ThereMayBeMorePartsThanFiles) {
  write_reference("dcp");
  constexpr int kMany = 9;
  for (int part = 0; part < kMany; ++part) {
    const auto share = view("dcp", part, kMany);
    const ReshardOptions to = options(fs::path(part_folder("out", part, kMany)).filename());
    ASSERT_TRUE(reshard(*share, *plan_reshard(*share, to), to).ok());
  }
  ASSERT_TRUE(join_parts(*view("dcp", 0, 1), kMany, options("out")).ok());
  EXPECT_EQ(content(path("out")), content(path("reference")));
  expect_clean();
}

TEST_F(ReshardParts, OnlyOneProcessPutsThemTogether) {
  for (int part = 0; part < kParts; ++part) write("tp2", part);
  const auto other = internal::Journal::open(internal::places_of(path("out")).journal, "parts", false);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(join("tp2").busy);
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(ReshardParts, WhatIsOfOthersStays) {
  for (int part = 0; part < kParts; ++part) write("tp2", part);
  fs::create_directories(path("out.partial"));
  write_text(path("out.partial/notes.txt"), "mine");
  EXPECT_THAT(message_of(join_parts(*view("tp2", 0, 1), kParts, options("out")).status()),
              HasSubstr("has \"notes.txt\", which is not of what is written there"));
  EXPECT_EQ(text_of(path("out.partial/notes.txt")), "mine");
  EXPECT_FALSE(fs::exists(path("out.partial.journal")));
  EXPECT_TRUE(fs::exists(part_folder(path("out"), 0, kParts)));
}

TEST_F(ReshardParts, APartThatWasCutOffIsNotJoined) {
  for (int part = 0; part < kParts; ++part) write("tp2", part);
  const std::string folder = part_folder(path("out"), 0, kParts);
  fs::path file;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") file = entry.path();
  }
  fs::resize_file(file, 1'000);
  const auto before = content(path(""));
  EXPECT_THAT(message_of(join_parts(*view("tp2", 0, 1), kParts, options("out")).status()),
              HasSubstr(file.filename().string() + ": is not what a part had"));
  EXPECT_EQ(content(path("")), before) << "nothing is moved";
}

TEST_F(ReshardParts, AFolderOfOthersIsNotTakenOver) {
  for (int part = 0; part < kParts; ++part) write("tp2", part);
  const auto refusal = [&] { return message_of(join_parts(*view("tp2", 0, 1), kParts, options("out")).status()); };
  fs::create_directories(path("elsewhere"));
  write_text(path("elsewhere/config.json"), "mine");
  fs::create_symlink("elsewhere", path("out.partial"));
  EXPECT_THAT(refusal(), HasSubstr("is there and not a folder"));
  fs::remove(path("out.partial"));
  fs::create_directories(path("out.partial"));
  write_text(path("out.partial/rank_000.safetensors"), "mine");
  EXPECT_THAT(refusal(), HasSubstr("no journal says what it is"));
  EXPECT_EQ(text_of(path("out.partial/rank_000.safetensors")), "mine");
  EXPECT_EQ(text_of(path("elsewhere/config.json")), "mine");
}

TEST_F(ReshardParts, TheSourceIsNotReplaced) {
  ReshardOptions onto = options("hf");
  onto.force = true;
  for (int part = 0; part < kParts; ++part) write("tp2", part);
  EXPECT_THAT(message_of(join_parts(*view("tp2", 0, 1), kParts, onto).status()),
              HasSubstr("the source is read from it"));
}

// The same names and sizes; the source was trained on between two parts.
TEST_F(ReshardParts, PartsOfAChangedSourceAreRefused) {
  write("tp2", 0);
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  EXPECT_THAT(message_of(join_parts(*view("tp2", 0, 1), kParts, options("out")).status()),
              HasSubstr("is a part of something else"));
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 3);
  EXPECT_TRUE(join_parts(*view("tp2", 0, 1), kParts, options("out")).ok()) << "not of dates";
}

TEST_F(ReshardParts, PartsOfSomethingElseAreRefused) {
  write("tp2", 0);
  EXPECT_THAT(message_of(is_part(part_folder(path("out"), 0, kParts), *view("tp4", 0, kParts)).status()),
              HasSubstr("is a part of something else"));
  EXPECT_THAT(message_of(join_parts(*view("tp4", 0, 1), kParts, options("out")).status()),
              HasSubstr("is a part of something else"));
  EXPECT_THAT(message_of(Checkpoint::open(part_folder(path("out"), 0, kParts)).status()),
              HasSubstr("is a part of a checkpoint"));
}

}  // namespace reshard_parts_test
}  // namespace scalai::store
