#include "vfs/node_table.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "vfs/testing/fake_tree.h"

namespace scalai::vfs {
namespace {

std::shared_ptr<Directory> empty_folder() {
  return std::make_shared<FixedFolder>(std::vector<std::pair<std::string, Node>>{});
}

TEST(NodeTable, GivesANodeOneNumberWhileItIsHeld) {
  NodeTable table(empty_folder());
  const KnownNodePtr root = table.get(NodeTable::kRoot);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->path, "");
  EXPECT_EQ(table.look_up(*root, "a"), nullptr);
  const KnownNodePtr a = table.look_up(*root, "a", folder_node(empty_folder()));
  EXPECT_EQ(a->path, "a");
  EXPECT_EQ(table.look_up(*root, "a"), a);
  EXPECT_EQ(table.look_up(*root, "a", fake_file(1, 1)), a) << "the first one stays";
  const KnownNodePtr b = table.look_up(*a, "b", fake_file(1, 1));
  EXPECT_EQ(b->path, "a/b");
  EXPECT_NE(a->id, b->id);
  EXPECT_EQ(table.size(), 3u);
}

TEST(NodeTable, ForgetsWhenAllLookUpsAreForgotten) {
  NodeTable table(empty_folder());
  const KnownNodePtr root = table.get(NodeTable::kRoot);
  const auto source = std::make_shared<FakeSource>(1, 1);
  const uint64_t id = table.look_up(*root, "a", file_node(source))->id;
  table.look_up(*root, "a");
  table.forget(id, 1);
  EXPECT_NE(table.get(id), nullptr);
  table.forget(id, 1);
  EXPECT_EQ(table.get(id), nullptr);
  EXPECT_EQ(source.use_count(), 1) << "the node is gone";
  EXPECT_EQ(table.look_up(*root, "a"), nullptr);
  const KnownNodePtr again = table.look_up(*root, "a", fake_file(1, 1));
  EXPECT_NE(again->id, id) << "numbers are not used again";
  EXPECT_EQ(again->inode, inode_of("a")) << "but the file has its number";
  table.forget(again->id, 100);
  table.forget(again->id, 1);
  table.forget(NodeTable::kRoot, 1000);
  EXPECT_EQ(table.size(), 1u);
}

TEST(NodeTable, InodesFollowPaths) {
  EXPECT_EQ(inode_of(""), NodeTable::kRoot);
  EXPECT_NE(inode_of("a"), inode_of("b"));
  EXPECT_EQ(inode_of("views/tp4"), inode_of("views/tp4"));
  EXPECT_EQ(path_of("", "views"), "views");
  EXPECT_EQ(path_of("views", "tp4"), "views/tp4");
}

TEST(NodeTable, EndsEmptyAfterManyThreads) {
  NodeTable table(empty_folder());
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&table, seed] {
      std::mt19937 random(seed);
      const KnownNodePtr root = table.get(NodeTable::kRoot);
      std::vector<uint64_t> held;
      for (int i = 0; i < 5000; ++i) {
        const std::string name = std::to_string(random() % 20);
        KnownNodePtr known = table.look_up(*root, name);
        if (known == nullptr) known = table.look_up(*root, name, fake_file(1, 1));
        held.push_back(known->id);
        EXPECT_NE(table.get(known->id), nullptr);
        if (random() % 2 == 0) {
          table.forget(held.back(), 1);
          held.pop_back();
        }
      }
      for (const uint64_t id : held) table.forget(id, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace scalai::vfs
