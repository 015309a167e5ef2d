#include "vfs/folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "ptc/base/status.h"
#include "vfs/testing/fake_tree.h"

namespace scalai::vfs {
namespace {

std::vector<std::string> names_of(Directory& directory) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < directory.entries(); ++i) names.push_back(directory.entry(i).name);
  return names;
}

TEST(GrowingFolder, WhateverAMakerThrowsIsAnError) {
  GrowingFolder folder([](const std::string&) -> absl::StatusOr<Node> { throw std::length_error("too long"); });
  EXPECT_EQ(message_of(folder.find("a").status()), "too long");
}

TEST(FixedFolder, FindsAndListsItsChildren) {
  const auto link = std::make_shared<SwitchedLink>("a");
  FixedFolder folder({{"b", fake_file(1, 10)}, {"a", std::shared_ptr<Link>(link)}});
  EXPECT_EQ(names_of(folder), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(folder.entry(1).kind, Kind::kLink);
  EXPECT_TRUE(folder.fixed());
  ASSERT_TRUE(folder.find("b").ok());
  EXPECT_EQ(kind_of(*folder.find("b")), Kind::kFile);
  EXPECT_EQ(folder.find("c").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(message_of(folder.find("c").status()), "");
}

TEST(GrowingFolder, MakesEachChildOnceAndListsItFromThenOn) {
  int made = 0;
  GrowingFolder folder([&](const std::string& name) -> absl::StatusOr<Node> {
    if (name == "bad") return invalid("does not fit");
    ++made;
    return fake_file(1, 10);
  });
  EXPECT_EQ(folder.entries(), 0);
  folder.add("first", fake_file(2, 20));
  ASSERT_TRUE(folder.find("tp4").ok());
  ASSERT_TRUE(folder.find("tp2").ok());
  const auto again = folder.find("tp4");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(made, 2);
  EXPECT_EQ(message_of(folder.find("bad").status()), "does not fit");
  EXPECT_EQ(names_of(folder), (std::vector<std::string>{"first", "tp4", "tp2"}));
  EXPECT_FALSE(folder.fixed());
}

TEST(GrowingFolder, ListsWhileAChildIsMade) {
  std::atomic<bool> go = false;
  std::atomic<int> made = 0;
  GrowingFolder folder([&](const std::string&) -> absl::StatusOr<Node> {
    while (!go) std::this_thread::yield();
    ++made;
    return fake_file(1, 10);
  });
  folder.add("there", fake_file(2, 20));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(folder.find("slow").ok()); });
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_TRUE(folder.find("there").ok());
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(folder.entries(), 2);
}

TEST(GrowingFolder, DropsTheOldestAndKeepsWhatWasAdded) {
  int made = 0;
  GrowingFolder folder(
      [&](const std::string&) -> absl::StatusOr<Node> {
        ++made;
        return fake_file(1, 10);
      },
      /*most=*/2);
  for (const char* name : {"a", "b"}) ASSERT_TRUE(folder.find(name).ok());
  folder.add("current", fake_file(2, 20));
  for (const char* name : {"c", "d", "e"}) ASSERT_TRUE(folder.find(name).ok());
  std::vector<std::string> listed;
  for (int64_t i = folder.listed_from(0); i < folder.entries(); i = folder.listed_from(i + 1))
    listed.push_back(folder.entry(i).name);
  EXPECT_EQ(listed, (std::vector<std::string>{"current", "d", "e"}));
  EXPECT_EQ(folder.entry(0).name, "") << "it went";
  EXPECT_TRUE(folder.find("a").ok());
  EXPECT_EQ(made, 6) << "made anew";
}

TEST(GrowingFolder, OneSlowChildHoldsUpNoOther) {
  std::atomic<bool> go = false;
  GrowingFolder folder([&](const std::string& name) -> absl::StatusOr<Node> {
    for (int i = 0; name == "slow" && i < 5000 && !go; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (name == "slow" && !go) return failed("the other one had to wait");
    return fake_file(1, 10);
  });
  std::thread slow([&] { EXPECT_TRUE(folder.find("slow").ok()); });
  EXPECT_TRUE(folder.find("fast").ok());
  go = true;
  slow.join();
}

TEST(GrowingFolder, TooLittleMemoryIsAnError) {
  GrowingFolder folder([](const std::string&) -> absl::StatusOr<Node> { throw std::bad_alloc(); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(folder.find("huge").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SwitchedLink, ShowsTheLastTarget) {
  SwitchedLink link("dp4/step-0");
  EXPECT_EQ(link.target(), "dp4/step-0");
  link.set("dp6/step-1234");
  EXPECT_EQ(link.target(), "dp6/step-1234");
}

}  // namespace
}  // namespace scalai::vfs
