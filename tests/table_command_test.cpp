// Tables of commands at 80 and 120 columns and whole, held against golden texts in tests/golden/tables. Run with
// UPDATE_GOLDEN=1 to write the texts anew.

#include "ptc/base/utf8.h"
#include "tests/end_to_end.h"

namespace table_command_test {

using namespace scalai::testing;

// Searches run on several threads: which candidates they price, and so how many, differs from run to run.
struct Shown {
  std::string name, words;
  const char* program = "scalai";  // "" in a build without it: skipped
};

void PrintTo(const Shown& shown, std::ostream* out) { *out << shown.name; }

const std::vector<Shown>& all_shown() {
  static const std::vector<Shown> shown = {
      {"models", "models"},
      {"model", "models gpt2 | tail -8"},
      {"machines", "machines"},
      {"machine", "machines p4d.24xlarge"},
      {"policies", "policies", "scalai-jobs"},
      {"policy", "policies pollux", "scalai-jobs"},
      {"import", "import --list", "scalai-jobs"},
      {"accuracy", "accuracy", "scalai-accuracy"},
      {"parallelize",
       "parallelize --model=gpt3-xl --gpus=8 --gpu=a100-40g --global-batch=64 --top=4 | grep -v ' priced, '"},
      {"parallelize-breakdown",
       "parallelize --model=gpt3-xl --gpus=8 --gpu=a100-40g --global-batch=64 --top=1 --breakdown | grep -v ' priced, "
       "'"},
      {"plan-device", "plan show plan.binpb --device=3"},
      {"plan-tensor", "plan show plan.binpb --tensor=layers.0.attention.qkv.weight"},
      {"sim", "sim SCENARIOS/failure-gpt3-2.7b.textproto", "scalai-sim"},
      {"compare", "sim SCENARIOS/redeploy.textproto --strategy=reshard,tenplex,central,full-migration", "scalai-sim"},
      {"jobs", "sim many-jobs.textproto", "scalai-sim"},
      {"recovery", "sim spot.textproto", "scalai-sim"},
  };
  return shown;
}

class TableCommand : public EndToEnd, public ::testing::WithParamInterface<Shown> {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    ::unsetenv("SCALAI_WIDE");
    if (!fs::exists(kPrograms / GetParam().program)) GTEST_SKIP() << GetParam().program << " is not built";
    for (const std::string name : {"many-jobs", "spot"}) {
      if (GetParam().words.find(name + ".textproto") == std::string::npos) continue;
      ASSERT_EQ(scalai(fmt::format("init {} --template={}", path(name + ".textproto"), name)).code, 0);
    }
    if (GetParam().words.find("plan.binpb") == std::string::npos) return;
    ASSERT_EQ(scalai("plan --model=gpt3-xl --from=tp2,pp2,dp2 --to=tp4,pp2 --out=" + path("plan.binpb")).code, 0);
  }
  void TearDown() override {
    ::setenv("SCALAI_WIDE", "1", 1);
    EndToEnd::TearDown();
  }
  // Its output on so many columns; 0 = whole.
  std::string shown(int columns) const {
    std::string words = GetParam().words;
    if (const size_t at = words.find("SCENARIOS"); at != std::string::npos) words.replace(at, 9, kScenarios.string());
    const std::string variable = columns == 0 ? "SCALAI_WIDE=1" : fmt::format("COLUMNS={}", columns);
    const Outcome outcome =
        shell(fmt::format("cd '{}' && {} '{}/scalai' {}", folder_.string(), variable, kPrograms.string(), words));
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    return outcome.out;
  }
};

// Lines of tables: those between the dashes and an empty line, or a line that is not indented like them, are hard to
// tell apart from others, so the widest line with dashes stands for its table.
size_t widest_rule(const std::string& text) {
  size_t widest = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of("- ") == std::string::npos) widest = std::max(widest, line.size());
  }
  return widest;
}

TEST_P(TableCommand, FitsAndIsTheGoldenText) {
  for (const int columns : {80, 120, 0}) {
    const std::string said = shown(columns);
    if (columns > 0) {
      EXPECT_LE(widest_rule(said), static_cast<size_t>(columns)) << said;
    }
    const fs::path expected =
        fs::path(SCALAI_SOURCE_DIR) / "tests/golden/tables" /
        fmt::format("{}.{}.txt", GetParam().name, columns == 0 ? "wide" : std::to_string(columns));
    if (std::getenv("UPDATE_GOLDEN") != nullptr) write_all(expected, said);
    ASSERT_TRUE(fs::exists(expected)) << "no " << expected << "; write it with UPDATE_GOLDEN=1";
    EXPECT_EQ(said, scalai::testing::read_all(expected)) << "if this is meant, run again with UPDATE_GOLDEN=1";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, TableCommand, ::testing::ValuesIn(all_shown()), [](const auto& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// --- on a terminal ---------------------------------------------------------------------------------------------------

class Terminal : public EndToEnd {
 protected:
  // `script` runs a command on a terminal; a pipe's width and environment do not reach it.
  std::string on_terminal(const std::string& words) const {
    const std::string command = fmt::format("stty cols 100; '{}/scalai' {}", kPrograms.string(), words);
    const Outcome outcome = shell(fmt::format(
        "env -u SCALAI_WIDE -u COLUMNS -u NO_COLOR TERM=xterm script -qec \"{}\" '{}'", command, path("typescript")));
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return outcome.out;
  }
  bool has_script() const { return shell("command -v script").code == 0; }
};

TEST_F(Terminal, HasColourLegendAndNextStep) {
  if (!has_script()) GTEST_SKIP() << "no script(1)";
  const std::string words = "plan --model=gpt3-xl --from=tp2 --to=tp4";
  const std::string all = on_terminal(words);
  EXPECT_NE(all.find("\033[1mstate"), std::string::npos) << all;
  EXPECT_NE(all.find("at least = the bytes"), std::string::npos) << all;
  EXPECT_NE(all.find("next: --"), std::string::npos) << all;
  EXPECT_NE(all.find("terms: docs/glossary.md"), std::string::npos) << all;
  const std::string plain = on_terminal(words + " --color=never -q");
  EXPECT_EQ(plain.find('\033'), std::string::npos) << plain;
  EXPECT_EQ(plain.find("next:"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("terms:"), std::string::npos) << plain;
}

TEST_F(Terminal, IsMeasured) {
  if (!has_script()) GTEST_SKIP() << "no script(1)";
  const size_t widest = widest_rule([&] {
    std::string text = on_terminal("machines --color=never");
    std::erase(text, '\r');
    return text;
  }());
  EXPECT_LE(widest, 100U);
  EXPECT_GT(widest, 80U);
}

// Without a terminal nothing of it appears, unless colour is forced.
TEST_F(Terminal, APipeHasNone) {
  const Outcome piped = scalai("plan --model=gpt3-xl --from=tp2 --to=tp4");
  EXPECT_EQ(piped.out.find('\033'), std::string::npos) << piped.out;
  EXPECT_EQ(piped.err, "");
  EXPECT_NE(scalai("models --color=always").out.find("\033[1mmodel"), std::string::npos);
  EXPECT_EQ(scalai("models --color=always --format=csv").out.find('\033'), std::string::npos);
  const Outcome verbose = scalai("models -v");
  EXPECT_EQ(verbose.code, 0);
  EXPECT_NE(verbose.err.find("scalai models: "), std::string::npos) << verbose.err;
  EXPECT_NE(verbose.err.find(" of memory at most"), std::string::npos) << verbose.err;
}

}  // namespace table_command_test
