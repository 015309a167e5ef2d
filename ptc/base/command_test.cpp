#include "ptc/base/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/base/testing/toy_program.h"

namespace scalai {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

Arguments parsed(const Words& words) {
  const absl::StatusOr<Arguments> arguments = parse_arguments(validate_spec(), words);
  EXPECT_TRUE(arguments.ok()) << message_of(arguments.status());
  return arguments.ok() ? *arguments : Arguments{};
}

std::string refusal(const Words& words) {
  const absl::StatusOr<Arguments> arguments = parse_arguments(validate_spec(), words);
  return arguments.ok() ? "accepted" : message_of(arguments.status());
}

// --- parse_arguments ----------------------------------------------------------------------------------------------

TEST(ParseArguments, ReadsEveryTypeInBothForms) {
  const Arguments arguments =
      parsed({"--format=csv", "a", "--strict", "--seed", "3", "--memory", "48GiB", "--deadline=2min", "b",
              "--only=shape,memory", "--tags", "x,y z", "--write-a-very-long-report=-=--x"});
  EXPECT_EQ(arguments.text("format"), "csv");
  EXPECT_TRUE(arguments.flag("strict"));
  EXPECT_EQ(arguments.count("seed"), 3);
  EXPECT_EQ(arguments.bytes("memory"), 48ll << 30);
  EXPECT_EQ(arguments.seconds("deadline"), 120);
  EXPECT_EQ(arguments.list("only"), (Words{"shape", "memory"}));
  EXPECT_EQ(arguments.list("tags"), (Words{"x", "y z"}));
  EXPECT_EQ(arguments.text("write-a-very-long-report"), "-=--x");
  EXPECT_EQ(arguments.positional(), (Words{"a", "b"}));
}

TEST(ParseArguments, FallsBackToDefaults) {
  const Arguments arguments = parsed({"a"});
  EXPECT_EQ(arguments.text("format"), "table");
  EXPECT_EQ(arguments.count("seed"), 7);
  EXPECT_EQ(arguments.seconds("deadline"), 90);
  EXPECT_FALSE(arguments.flag("strict"));
  EXPECT_TRUE(arguments.has("format"));
  EXPECT_FALSE(arguments.has("memory"));
  EXPECT_EQ(arguments.text("write-a-very-long-report"), "");
  EXPECT_EQ(arguments.list("tags"), Words{});
}

TEST(ParseArguments, TakesDashesAsArgumentsWhereTheyAre) {
  EXPECT_EQ(parsed({"-", "--strict"}).positional(), (Words{"-"}));
  EXPECT_EQ(parsed({"--", "--strict", "-x"}).positional(), (Words{"--strict", "-x"}));
  EXPECT_EQ(parsed({"a", "--", "--"}).positional(), (Words{"a", "--"}));
  EXPECT_EQ(parsed({"", "a b"}).positional(), (Words{"", "a b"}));
  EXPECT_EQ(parsed({"--tags", "-", "a"}).text("tags"), "-");
}

TEST(ParseArguments, KnowsTheOptionsOfEveryCommand) {
  const Arguments arguments = parsed({"a", "-q", "--verbose", "--color=never"});
  EXPECT_TRUE(arguments.flag("quiet"));
  EXPECT_TRUE(arguments.flag("verbose"));
  EXPECT_FALSE(arguments.flag("wide"));
  EXPECT_EQ(arguments.text("color"), "never");
  EXPECT_EQ(parsed({"a"}).text("color"), "auto");
  EXPECT_EQ(refusal({"a", "-q", "--quiet"}), "option --quiet is given twice");
  EXPECT_EQ(refusal({"a", "--seed", "-q"}), "option --seed needs a value, as in --seed=…");
  EXPECT_EQ(parsed({"--", "-q"}).positional(), (Words{"-q"}));
}

TEST(ParseArguments, RefusesUnknownOptions) {
  EXPECT_EQ(refusal({"a", "--formt", "csv"}), "unknown option --formt; did you mean --format?");
  EXPECT_EQ(refusal({"a", "--formt=csv"}), "unknown option --formt; did you mean --format?");
  EXPECT_EQ(refusal({"a", "--hlep"}), "unknown option --hlep; did you mean --help?");
  EXPECT_EQ(refusal({"a", "--banana"}), "unknown option --banana");
  EXPECT_EQ(refusal({"a", "-format=csv"}), "unknown option -format; did you mean --format?");
  EXPECT_EQ(refusal({"a", "-x"}), "unknown option -x");
  EXPECT_EQ(refusal({"a", "-3"}), "unknown option -3");
  EXPECT_EQ(refusal({"a", "--FORMAT=csv"}), "unknown option --FORMAT");
  EXPECT_THAT(refusal({"a", "--=x"}), HasSubstr("unknown option --"));
  EXPECT_THAT(refusal({"a", "---"}), HasSubstr("unknown option ---"));
}

TEST(ParseArguments, DoesNotGuessAbbreviations) {
  EXPECT_EQ(refusal({"a", "--stric"}), "unknown option --stric; did you mean --strict?");
  EXPECT_EQ(refusal({"a", "--s"}), "unknown option --s");
  EXPECT_EQ(refusal({"a", "--write"}), "unknown option --write");
}

TEST(ParseArguments, RefusesMissingAndSuperfluousValues) {
  const std::string missing_seed = "option --seed needs a value, as in --seed=…";
  EXPECT_EQ(refusal({"a", "--seed"}), missing_seed);
  EXPECT_EQ(refusal({"a", "--seed="}), missing_seed);
  EXPECT_EQ(refusal({"a", "--seed", ""}), missing_seed);
  EXPECT_EQ(refusal({"a", "--seed", "--strict"}), missing_seed);
  EXPECT_EQ(refusal({"a", "--seed", "--format=csv"}), missing_seed);
  EXPECT_EQ(refusal({"a", "--seed", "--", "3"}), missing_seed);
  EXPECT_EQ(refusal({"a", "--strict=yes"}), "option --strict takes no value");
  EXPECT_EQ(refusal({"a", "--strict="}), "option --strict takes no value");
}

TEST(ParseArguments, RefusesRepeats) {
  EXPECT_EQ(refusal({"a", "--seed=1", "--seed", "1"}), "option --seed is given twice");
  EXPECT_EQ(refusal({"a", "--strict", "--strict"}), "option --strict is given twice");
}

TEST(ParseArguments, SomeOptionsRepeat) {
  CommandSpec spec = validate_spec();
  spec.options.push_back({"set", ValueType::kTexts, "PATH=VALUE", "One value.", "", {}});
  const auto arguments = parse_arguments(spec, {"a", "--set=x=1,2", "--set", "y= z", "--set=x=1,2"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->texts("set"), (std::vector<std::string>{"x=1,2", "y= z", "x=1,2"}));
  EXPECT_EQ(parse_arguments(spec, {"a"})->texts("set"), std::vector<std::string>{});
  EXPECT_FALSE(parse_arguments(spec, {"a", "--set="}).ok());
}

TEST(ParseArguments, ChecksValues) {
  EXPECT_EQ(refusal({"a", "--seed=-3"}), "option --seed: \"-3\" is not a whole number >= 0");
  EXPECT_EQ(refusal({"a", "--seed", "-3"}), "option --seed: \"-3\" is not a whole number >= 0");
  EXPECT_EQ(refusal({"a", "--seed", "+3"}), "option --seed: \"+3\" is not a whole number >= 0");
  EXPECT_THAT(refusal({"a", "--memory=48"}), HasSubstr("option --memory: \"48\" is not a number of bytes: the unit"));
  EXPECT_THAT(refusal({"a", "--deadline=2m"}), HasSubstr("option --deadline: \"2m\" is not a duration: unknown unit"));
  EXPECT_EQ(refusal({"a", "--format=tabel"}),
            "option --format: \"tabel\" is not one of table, json, csv; did you mean table?");
  EXPECT_EQ(refusal({"a", "--only=shape,disk"}), "option --only: \"disk\" is not one of shape, memory");
  EXPECT_EQ(refusal({"a", "--tags=x,,y"}), "option --tags: \"x,,y\" has an empty item");
  EXPECT_EQ(refusal({"a", "--tags=x,"}), "option --tags: \"x,\" has an empty item");
}

TEST(ParseArguments, CountsArguments) {
  EXPECT_EQ(refusal({}), "an argument is missing; usage: toy validate FILE…");
  EXPECT_EQ(refusal({"a", "b"}), "accepted");
  EXPECT_EQ(refusal({"a", "b", "c"}), "unexpected argument \"c\"; usage: toy validate FILE…");
  CommandSpec any = validate_spec();
  any.max_arguments = -1;
  EXPECT_EQ(parse_arguments(any, Words(100, "x"))->positional().size(), 100u);
}

TEST(ArgumentsDeathTest, AsksOnlyForWhatTheSpecHas) {
  const Arguments arguments = parsed({"a"});
  EXPECT_EXIT(arguments.text("colour"), testing::ExitedWithCode(70), "the command has no option --colour");
  EXPECT_EXIT(arguments.bytes("memory"), testing::ExitedWithCode(70), "--memory is absent");
}

// --- help_text ----------------------------------------------------------------------------------------------------

TEST(HelpText, ShowsAllOfTheSpec) {
  EXPECT_EQ(help_text(validate_spec()),
            "Usage: toy validate FILE…\n"
            "\n"
            "Reads each FILE and prints every problem it finds, with the place, so that one\n"
            "run is enough to repair it.\n"
            "\n"
            "  a | b\n"
            "\n"
            "Last.\n"
            "\n"
            "Options:\n"
            "  --format=FORMAT      How to print. One of: table, json, csv. Default: table.\n"
            "  --strict             Take warnings for errors.\n"
            "  --seed=N             Seed of every random draw. Default: 7.\n"
            "  --memory=SIZE        Memory of a device.\n"
            "  --deadline=DURATION  Longest run in wall-clock time. Default: 90s.\n"
            "  --only=A,B,…         Checks to run. One of: shape, memory.\n"
            "  --tags=A,B,…         Free words.\n"
            "  --write-a-very-long-report=FILE\n"
            "                       Where to write.\n"
            "\n"
            "Options of every command:\n"
            "  --wide               Tables with all columns, as wide as they are.\n"
            "  --color=WHEN         Colour in tables. One of: auto, always, never. Default:\n"
            "                       auto.\n"
            "  -q, --quiet          No progress, no legends; results, warnings and errors\n"
            "                       only.\n"
            "  -v, --verbose        Say at the end how long it took, and the peak memory.\n"
            "  -h, --help           Print this help.\n"
            "\n"
            "Examples:\n"
            "  toy validate a.textproto\n"
            "\n"
            "Exit codes:\n"
            "  0   done\n"
            "  1   an expectation failed\n"
            "  2   the command line is wrong\n"
            "  3   the scenario, plan or checkpoint is invalid\n"
            "  4   a device, library, file or permission is missing\n"
            "  5   failed while running\n"
            "  70  a bug in Scalai; please report it\n"
            "\n"
            "Terms: docs/glossary.md\n");
}

TEST(HelpText, ListsGoOnUnderTheirExplanations) {
  CommandSpec spec = validate_spec();
  spec.description =
      "These:\n\n  one    short\n  three  an explanation that is too long for a line of eighty columns, whatever it is";
  EXPECT_THAT(help_text(spec),
              HasSubstr("  one    short\n"
                        "  three  an explanation that is too long for a line of eighty columns, whatever\n"
                        "         it is\n"));
}

TEST(HelpText, ListsVerbsAndBreaksLongExamplesForAShell) {
  CommandSpec spec = validate_spec();
  spec.verbs = {{"show", "Print it."}, {"verify", "Read all of it."}};
  spec.examples = {"toy validate --write-a-very-long-report=somewhere/else.txt --only=shape,memory --seed=12"};
  const std::string help = help_text(spec);
  EXPECT_THAT(help, HasSubstr("Verbs:\n  show    Print it.\n  verify  Read all of it.\n\n"));
  EXPECT_THAT(help, HasSubstr("Examples:\n"
                              "  toy validate --write-a-very-long-report=somewhere/else.txt \\\n"
                              "      --only=shape,memory --seed=12\n"));
}

}  // namespace
}  // namespace scalai
