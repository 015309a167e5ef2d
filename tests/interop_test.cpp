// `scalai checkpoint reshard` between Hugging Face's form and Megatron's ranks, held against
// tests/interop/reference.py, which shares nothing with it; files of PyPI's safetensors and torch, both ways; and every
// family in transformers and megatron-core. The interpreter is the one of the build folder's environment
// (python/environment), else python3; SCALAI_PYTHON names another. What needs a package that it does not have is
// skipped.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

const fs::path kScripts = fs::path(SCALAI_SOURCE_DIR) / "tests" / "interop";
const fs::path kTools = fs::path(SCALAI_SOURCE_DIR) / "ptc" / "store" / "tools";

std::string python() {
  if (const char* const named = std::getenv("SCALAI_PYTHON")) return named;
  const fs::path venv = kPrograms.parent_path() / "venv" / "bin" / "python";
  return fs::exists(venv) ? venv.string() : "python3";
}

bool python_has(const std::string& modules) {
  return std::system(fmt::format("{} -c 'import {}' >/dev/null 2>&1", python(), modules).c_str()) == 0;
}

class Interop : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    if (!python_has("json")) GTEST_SKIP() << python() << " does not run (SCALAI_PYTHON names another)";
  }
  // A script of the tests, which has to succeed.
  std::string script(const std::string& words) {
    const Outcome outcome =
        shell(fmt::format("PYTHONDONTWRITEBYTECODE=1 {} {}/{}", python(), kScripts.string(), words));
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.out << outcome.err;
    return outcome.out;
  }
  void make_tiny(const std::string& words, const std::string& name) {
    script(fmt::format("make_tiny.py {} {}", words, path(name)));
  }
  void reshard(const std::string& src, const std::string& dst, const std::string& options) {
    const Outcome outcome = scalai(fmt::format("checkpoint reshard {} {} {}", path(src), path(dst), options));
    ASSERT_EQ(outcome.code, 0) << src << " to " << dst << " " << options << "\n" << outcome.out << outcome.err;
  }
  // The rank files in `ranks` are those of the Hugging Face folder `hf`, e.g. for "--tp=4 --pp=2".
  void expect_reference(const std::string& ranks, const std::string& hf, const std::string& sizes) {
    const std::string reference = ranks + ".reference";
    script(fmt::format("reference.py megatron {} {} --out={}", path(hf), sizes, path(reference)));
    const std::string said = script(fmt::format("reference.py compare {} {}", path(reference), path(ranks)));
    EXPECT_NE(said.find(": equal"), std::string::npos) << said;
  }
  static std::vector<std::string> files_of(const fs::path& folder) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (entry.path().extension() == ".safetensors" || name == "model.safetensors.index.json") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  // The same files, byte for byte.
  void expect_identical(const std::string& one, const std::string& other) {
    const std::vector<std::string> names = files_of(folder_ / one);
    ASSERT_FALSE(names.empty());
    ASSERT_EQ(files_of(folder_ / other), names);
    for (const std::string& name : names) {
      EXPECT_TRUE(read_all(folder_ / one / name) == read_all(folder_ / other / name)) << name;
    }
  }
};

// --- there and back --------------------------------------------------------------------------------------------------

class InteropModels : public Interop, public ::testing::WithParamInterface<std::string> {};

TEST_P(InteropModels, ThroughTwoLayoutsOfMegatronAndBack) {
  make_tiny(GetParam(), "hf");
  reshard("hf", "tp4-pp2", "--to=tp4,pp2");
  expect_reference("tp4-pp2", "hf", "--tp=4 --pp=2");
  reshard("tp4-pp2", "tp2-pp1", "--to=tp2,pp1");
  expect_reference("tp2-pp1", "hf", "--tp=2 --pp=1");
  reshard("tp2-pp1", "back", "--to=hf");
  expect_identical("hf", "back");
}

INSTANTIATE_TEST_SUITE_P(All, InteropModels,
                         ::testing::Values("llama", "llama --tied --dtype=f32 --seed=2", "mqa --seed=3",
                                           "mha --dtype=f16 --seed=4", "gpt2 --dtype=f16 --seed=5", "gpt2 --seed=6",
                                           "mixtral --seed=7"));

TEST_F(Interop, MoreRanksThanQueryGroups) {
  for (const char* model : {"llama", "mqa"}) {  // two groups, one group
    const std::string name = model;
    make_tiny(name, name);
    reshard(name, name + ".tp8", "--to=tp8");
    expect_reference(name + ".tp8", name, "--tp=8");
    reshard(name + ".tp8", name + ".back", "--to=hf");
    expect_identical(name, name + ".back");
  }
}

TEST_F(Interop, ReplicasAndUnevenStages) {
  make_tiny("gpt2", "hf");
  reshard("hf", "ranks", "--to=tp2,pp3,dp2");
  expect_reference("ranks", "hf", "--tp=2 --pp=3 --dp=2");
  reshard("ranks", "back", "--to=hf");
  expect_identical("hf", "back");
}

TEST_F(Interop, ExpertsOverRanks) {
  make_tiny("mixtral", "hf");
  reshard("hf", "ep2", "--to=tp2,pp2,ep2,etp1");
  expect_reference("ep2", "hf", "--tp=2 --pp=2 --ep=2 --etp=1");
  reshard("ep2", "etp2", "--to=tp2,dp2,ep2,etp2");
  expect_reference("etp2", "hf", "--tp=2 --dp=2 --ep=2 --etp=2");
  reshard("etp2", "back", "--to=hf");
  expect_identical("hf", "back");
}

TEST_F(Interop, SeveralFilesWithAnIndex) {
  make_tiny("llama --shard-bytes=150000", "hf");
  ASSERT_GE(files_of(folder_ / "hf").size(), 4u);
  reshard("hf", "ranks", "--to=tp2,pp2");
  expect_reference("ranks", "hf", "--tp=2 --pp=2");
  reshard("ranks", "back", "--to=hf --shard-size=150kB");
  expect_identical("hf", "back");
}

TEST_F(Interop, RankFilesOfOthersWhoseLayoutTheUserSays) {
  for (const char* model : {"llama", "gpt2", "mixtral"}) {
    const std::string name = model;
    make_tiny(name, name);
    script(fmt::format("reference.py megatron {} --tp=4 --pp=2 --out={}", path(name), path(name + ".ranks")));
    reshard(name + ".ranks", name + ".back",
            fmt::format("--from=tp4,pp2 --names=megatron --config={}/config.json --to=hf", path(name)));
    expect_identical(name, name + ".back");
  }
}

TEST_F(Interop, NamesWithoutAPrefixAreReadAndKept) {
  make_tiny("gpt2 --prefix=", "hf");
  reshard("hf", "ranks", "--to=tp2");
  expect_reference("ranks", "hf", "--tp=2");
  reshard("ranks", "back", "--to=hf");
  expect_identical("hf", "back");
}

// --- files of others -------------------------------------------------------------------------------------------------

TEST_F(Interop, TheReferenceLibraryReadsOurs) {
  const bool torch = python_has("torch, safetensors.torch");
  if (!torch && !python_has("safetensors.numpy")) GTEST_SKIP() << python() << " has no safetensors with torch or numpy";
  make_tiny(torch ? "llama" : "llama --dtype=f16", "hf");  // numpy has no bfloat16
  reshard("hf", "ranks", "--to=tp4,pp2");
  reshard("ranks", "back", "--to=hf --shard-size=100kB");
  script(fmt::format("pypi.py check {} {}", path("ranks"), path("back")));
}

TEST_F(Interop, WeReadWhatTheReferenceLibraryWrites) {
  const bool torch = python_has("torch, safetensors.torch");
  if (!torch && !python_has("safetensors.numpy")) GTEST_SKIP() << python() << " has no safetensors with torch or numpy";
  make_tiny(torch ? "mixtral" : "mixtral --dtype=f32", "hf");
  script(fmt::format("pypi.py rewrite {} {}", path("hf"), path("theirs")));
  expect_identical("hf", "theirs");  // make_tiny.py writes as the reference does
  reshard("theirs", "ranks", "--to=tp2,pp2");
  expect_reference("ranks", "hf", "--tp=2 --pp=2");
}

TEST_F(Interop, FromTorchFiles) {
  if (!python_has("torch")) GTEST_SKIP() << python() << " has no torch";
  make_tiny("gpt2", "hf");
  script(fmt::format("pypi.py torch_bin {} {}", path("hf"), path("bin")));
  const Outcome outcome = shell(
      fmt::format("{} -B {}/torch_to_safetensors.py {} {}", python(), kTools.string(), path("bin"), path("converted")));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_identical("hf", "converted");
  reshard("converted", "ranks", "--to=tp2,pp2");
  expect_reference("ranks", "hf", "--tp=2 --pp=2");
}

TEST_F(Interop, TheTorchToolPassesItsTests) {
  if (!python_has("torch")) GTEST_SKIP() << python() << " has no torch";
  script("torch_tool_test.py");
}

// ---- servers --------------------------------------------------------------------------------------------------------

TEST_F(Interop, FoldersOnServersAndObjectsOfS3) {
  if (!python_has("http.server")) GTEST_SKIP() << python() << " is no Python 3";
  ::setenv("SCALAI_BIN", kPrograms.c_str(), 1);
  script("remote_test.py");
}

// ---- families in their frameworks -----------------------------------------------------------------------------------

class InteropFamilies : public Interop {
 protected:
  void passes(const std::string& tests) {
    ::setenv("SCALAI_BIN", kPrograms.c_str(), 1);
    script("families_test.py " + tests);
  }
};

TEST_F(InteropFamilies, ThroughLayoutsAndBackInTransformers) {
  if (!python_has("torch, transformers")) GTEST_SKIP() << python() << " has no transformers";
  passes("Transformers");
}

TEST_F(InteropFamilies, StackedExpertsOfTransformers) {
  if (!python_has("torch, transformers")) GTEST_SKIP() << python() << " has no transformers";
  passes("Stacked");
}

TEST_F(InteropFamilies, FilesOfTorch) {
  if (!python_has("torch, transformers")) GTEST_SKIP() << python() << " has no transformers";
  passes("Torch");
}

TEST_F(InteropFamilies, TypesAsTorchConvertsThem) {
  if (!python_has("torch, transformers")) GTEST_SKIP() << python() << " has no transformers";
  passes("Types");
}

TEST_F(InteropFamilies, MegatronLoadsThemStrictly) {
  if (!python_has("torch, transformers")) GTEST_SKIP() << python() << " has no transformers";
  if (!python_has("megatron.core")) GTEST_SKIP() << python() << " has no megatron-core";
  passes("WithMegatron");
}

TEST_F(InteropFamilies, MegatronsBucketsLoadInOtherLayouts) {
  if (!python_has("torch, pytest")) GTEST_SKIP() << python() << " has no torch, or no pytest";
  if (!python_has("megatron.core")) GTEST_SKIP() << python() << " has no megatron-core";
  ::setenv("SCALAI_BIN", kPrograms.c_str(), 1);
  script("buckets_test.py");
}

TEST_F(Interop, StatisticsAreThoseOfNumpy) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no numpy";
  const std::string said = script(fmt::format("stats_test.py {}/scalai", kPrograms.string()));
  EXPECT_NE(said.find("tensors are as numpy has them"), std::string::npos) << said;
}

}  // namespace
}  // namespace scalai::testing
