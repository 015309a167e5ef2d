// `scalai fs` on real mounts, through system calls: views of checkpoints, errors, other readers.

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/fs_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FsTest : public FsEndToEnd {};

TEST_F(FsTest, ShowsTheCheckpointInAnyLayout) {
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  EXPECT_EQ(shell("ls " + path("m/views")).out, "hf\n");
  EXPECT_EQ(shell(fmt::format("cmp {} {}", path("m/views/hf/model.safetensors"), path("hf/model.safetensors"))).code,
            0);
  EXPECT_EQ(shell(fmt::format("cmp {} {}", path("m/views/hf/config.json"), path("hf/config.json"))).code, 0);
  const std::string ranks = shell(fmt::format("ls {}", path("m/views/tp2-pp2"))).out;
  EXPECT_THAT(ranks,
              HasSubstr("rank_000.safetensors\nrank_001.safetensors\nrank_002.safetensors\nrank_003.safetensors"));
  EXPECT_EQ(shell("ls " + path("m/views")).out, "hf\ntp2-pp2\n");
  // Sizes are known before anything is read, and are those of what is read.
  for (const char* name : {"rank_000.safetensors", "rank_003.safetensors", "config.json"}) {
    const std::string file = path(std::string("m/views/tp2-pp2/") + name);
    const auto size = fs::file_size(file);
    EXPECT_GT(size, 0u);
    EXPECT_EQ(read_all(file).size(), size) << name;
  }
}

TEST_F(FsTest, AViewIsACheckpointToo) {
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  const Outcome second =
      mount("n", fmt::format("--checkpoint={} --names=megatron --from=tp4,pp2", path("m/views/tp4-pp2")));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(shell(fmt::format("cmp {} {}", path("n/views/hf/model.safetensors"), path("hf/model.safetensors"))).code, 0)
      << log_of("n");
  EXPECT_EQ(unmount("n").code, 0);
}

TEST_F(FsTest, IsWhatReshardWrites) {
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  for (const std::string layout : {"tp4-pp2", "logical-tp2"}) {
    const Outcome written = scalai(fmt::format("checkpoint reshard {} {} --to={}", path("hf"), path(layout), layout));
    ASSERT_EQ(written.code, 0) << written.err;
    const Outcome same =
        shell(fmt::format("diff -r --exclude=manifest.json {} {}", path(layout), path("m/views/" + layout)));
    EXPECT_EQ(same.code, 0) << same.out << same.err;
  }
}

TEST_F(FsTest, WhatDoesNotFitIsNotThere) {
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"tp3", "8 attention heads"}, {"pp5", "layers"}, {"nonsense", "nonsense"}, {"tp1-pp1-dp16777216", "at most"}};
  for (const auto& [name, why] : bad) {
    OpenedFile file(path("m/views/" + name));
    EXPECT_FALSE(file.ok());
    EXPECT_EQ(file.error(), ENOENT);
    EXPECT_THAT(log_of("m"), HasSubstr("scalai fs: views/" + name + ": "));
    EXPECT_THAT(log_of("m"), HasSubstr(why));
  }
  EXPECT_FALSE(fs::exists(path("m/views/.git")));
  EXPECT_FALSE(fs::exists(path("m/views/tp2/rank_002.safetensors")));
  EXPECT_FALSE(fs::exists(path("m/dataset")));
  EXPECT_THAT(log_of("m"), Not(AnyOf(HasSubstr("git"), HasSubstr("rank_002"))));
  EXPECT_NE(shell(fmt::format("echo a >{}", path("m/views/hf/a"))).code, 0);
  EXPECT_EQ(::open(path("m/views/hf/config.json").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(FsTest, ManyReadersSeeTheSameBytes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  const std::string file = path("m/views/tp4-pp2/rank_005.safetensors"), whole = read_all(file);
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      std::mt19937_64 random(seed + i);
      OpenedFile mine(file);
      for (int k = 0; k < 200; ++k) {
        const size_t offset = random() % whole.size(), bytes = 1 + random() % 20'000;
        ASSERT_EQ(mine.read(static_cast<int64_t>(offset), bytes), whole.substr(offset, bytes))
            << offset << ", " << bytes;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(FsTest, FilesCanBeMapped) {
  for (const std::string reads : {"auto", "cached"}) {
    ASSERT_EQ(mount("m", fmt::format("--checkpoint={} --reads={}", path("hf"), reads)).code, 0);
    const std::string file = path("m/views/tp2/rank_001.safetensors"), whole = read_all(file);
    for (const int flags : {MAP_PRIVATE, MAP_SHARED}) {
      OpenedFile opened(file);
      void* const map = ::mmap(nullptr, whole.size(), PROT_READ, flags, opened.fd(), 0);
      ASSERT_NE(map, MAP_FAILED) << std::strerror(errno);
      EXPECT_EQ(std::string(static_cast<const char*>(map), whole.size()), whole);
      ::munmap(map, whole.size());
    }
    EXPECT_EQ(unmount("m").code, 0);
  }
}

TEST_F(FsTest, ACutSourceIsAnErrorAndTheServerLivesOn) {
  ASSERT_TRUE(make_model("other"));
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  OpenedFile file(path("m/views/tp2/rank_001.safetensors"));
  const std::string before = file.read(50'000, 1000);
  ASSERT_EQ(before.size(), 1000u);
  fs::resize_file(path("hf/model.safetensors"), 100'000);
  EXPECT_EQ(file.read(60'000, 1000), "");
  EXPECT_EQ(file.error(), EIO);
  EXPECT_THAT(log_of("m"), HasSubstr("hf/model.safetensors"));
  EXPECT_THAT(log_of("m"), HasSubstr("cut"));
  EXPECT_THAT(log_of("m"), HasSubstr("views/tp2/rank_001.safetensors"));
  EXPECT_THAT(scalai("fs status " + path("m")).out, HasSubstr("errors"));
  EXPECT_EQ(unmount("m").code, 5) << "a file is open";
}

TEST_F(FsTest, AChangedSourceIsAnErrorToo) {
  ASSERT_EQ(mount("m", "--checkpoint=" + path("hf")).code, 0);
  OpenedFile file(path("m/views/hf/model.safetensors"));
  ASSERT_EQ(file.read(0, 10).size(), 10u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // file systems count time in ticks
  std::fstream source(path("hf/model.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  source.seekp(200'000);
  source << "other";
  source.close();
  EXPECT_EQ(file.read(200'000, 100), "");
  EXPECT_EQ(file.error(), EIO);
  EXPECT_THAT(log_of("m"), HasSubstr("changed"));
}

// The bytes that are read are not the damaged one, but of the same stored tensor. It is one that tp cuts: of replicas,
// as of norms, the mount reads the first.
TEST_F(FsTest, ADamagedSourceIsAnErrorToo) {
  ASSERT_EQ(scalai(fmt::format("checkpoint reshard {} {} --to=tp2", path("hf"), path("ranks"))).code, 0);
  const std::string file = path("ranks/rank_001.safetensors"), before = read_all(file);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, before.data(), sizeof header_bytes);
  const nlohmann::json header = nlohmann::json::parse(before.substr(8, header_bytes));
  const std::string name = "embedding.word_embeddings.weight";
  ASSERT_TRUE(header.contains(name)) << header;
  const auto begin = static_cast<int64_t>(8 + header_bytes) + header.at(name).at("data_offsets").at(0).get<int64_t>();
  std::string damage = before;
  damage[static_cast<size_t>(begin)] ^= 1;
  write_all(file, damage);
  ASSERT_EQ(mount("m", "--checkpoint=" + path("ranks")).code, 0);
  OpenedFile sound(path("m/views/tp2/rank_000.safetensors")), damaged(path("m/views/tp2/rank_001.safetensors"));
  EXPECT_EQ(sound.read(begin + 20, 10).size(), 10u);
  EXPECT_EQ(damaged.read(begin + 20, 10), "");
  EXPECT_EQ(damaged.error(), EIO);
  EXPECT_THAT(log_of("m"), HasSubstr("ranks/rank_001.safetensors: tensor \"" + name + "\""));
  EXPECT_THAT(log_of("m"), HasSubstr("do not have the checksum of the manifest"));
}

// PyPI's safetensors maps the file and hands out views of the mapping.
TEST_F(FsTest, PythonReadsAView) {
  const char* const chosen = std::getenv("SCALAI_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  if (shell(python + " -c 'import numpy, safetensors.numpy'").code != 0)
    GTEST_SKIP() << python << " has no safetensors and numpy; SCALAI_PYTHON names another one";
  ASSERT_TRUE(shell(fmt::format("python3 -B {}/tests/interop/make_tiny.py llama {} --dtype=f32", SCALAI_SOURCE_DIR,
                                path("f32")))
                  .code == 0);
  ASSERT_EQ(mount("m", "--checkpoint=" + path("f32")).code, 0);
  write_all(path("read.py"), R"(
import sys
import numpy
from safetensors import safe_open
source, views = sys.argv[1:]
with safe_open(source, "numpy") as f:
    whole = {k: f.get_tensor(k) for k in f.keys()}
parts = []
for r in range(2):
    with safe_open(f"{views}/tp2/rank_{r:03}.safetensors", "numpy") as f:
        parts.append({k: f.get_tensor(k) for k in f.keys()})
name = [k for k in parts[0] if k.endswith("layers.0.mlp.linear_fc2.weight")][0]
joined = numpy.concatenate([p[name] for p in parts], axis=1)
assert numpy.array_equal(joined, whole["model.layers.0.mlp.down_proj.weight"])
with safe_open(f"{views}/hf/model.safetensors", "numpy") as f:
    assert all(numpy.array_equal(f.get_tensor(k), whole[k]) for k in whole)
print("equal")
)");
  const Outcome read =
      shell(fmt::format("{} -B {} {} {}", python, path("read.py"), path("f32/model.safetensors"), path("m/views")));
  EXPECT_EQ(read.out, "equal\n") << read.err;
}

}  // namespace
}  // namespace scalai::testing
