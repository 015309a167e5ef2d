#include "ptc/proto/textproto.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>

#include "ptc/proto/scenario.pb.h"

namespace scalai::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

struct Parsed {
  Scenario message;
  Places places;
  std::vector<Diagnostic> problems;
};

Parsed parse(const std::string& text, bool json = false) {
  Parsed result;
  Diagnostics diagnostics("x", text);
  if (json)
    parse_json(text, result.message, diagnostics, result.places);
  else
    parse_textproto(text, result.message, diagnostics, result.places);
  result.problems = diagnostics.problems();
  return result;
}

std::string place_text(const SourcePlace& place) {
  return std::to_string(place.line) + ":" + std::to_string(place.column) + "+" + std::to_string(place.length);
}

// All problems as "line:column+length message".
std::vector<std::string> problems_of(const std::string& text, bool json = false) {
  std::vector<std::string> lines;
  for (const Diagnostic& problem : parse(text, json).problems)
    lines.push_back(place_text(problem.place) + " " + problem.message);
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Textproto, EveryWayToWriteAValue) {
  const Parsed parsed = parse(
      "name: \"a\" 'b' # comment { \n  \"\\x63\\144\\u00e9\\n\" ; seed: 0x1F, jobs { gpus: -017 devices: [1, 2] "
      "devices: 3 }\n"
      "jobs: < name: 'x' steps: -5 checkpoint: { host_memory_copy: t } > jobs: [ { name: \"y\" }, <> ] jobs []\n"
      "expect { at_least: 1.5e3f at_most: -.5 equals: 7 is: \"\" }\n"
      "cluster { fabric { kind: RAIL } } events { at: '1s' fail { links: [] } }");
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems[0].message;
  EXPECT_EQ(parsed.message.name(), "abcd\xC3\xA9\n");
  EXPECT_EQ(parsed.message.seed(), 31U);
  ASSERT_EQ(parsed.message.jobs_size(), 4);
  EXPECT_EQ(parsed.message.jobs(0).gpus(), -15);
  EXPECT_EQ(parsed.message.jobs(0).devices_size(), 3);
  EXPECT_EQ(parsed.message.jobs(1).steps(), -5);
  EXPECT_TRUE(parsed.message.jobs(1).checkpoint().host_memory_copy());
  EXPECT_EQ(parsed.message.jobs(2).name(), "y");
  EXPECT_EQ(parsed.message.expect(0).at_least(), 1500);
  EXPECT_EQ(parsed.message.expect(0).at_most(), -0.5);
  EXPECT_TRUE(parsed.message.expect(0).has_is());
  EXPECT_EQ(parsed.message.cluster().fabric().kind(), Fabric::RAIL);
  EXPECT_TRUE(parsed.message.events(0).has_fail());
}

TEST(Textproto, PlacesOfFieldsAndValues) {
  const Parsed parsed = parse(
      "name: \"gr\xC3\xB6\xC3\x9F\" seed: 12\n"
      "jobs {\n"
      "\tname: 'a' 'b'\n"
      "  devices: [10, -1]  configs { layout: \"tp4\" }\n"
      "}\n"
      "events { fail { } }\n");
  const auto at = [&](const std::string& path) { return place_text(parsed.places.value(path)); };
  EXPECT_EQ(at("name"), "1:7+6");
  EXPECT_EQ(at("seed"), "1:20+2");
  EXPECT_EQ(at("jobs[0]"), "2:1+4");
  EXPECT_EQ(at("jobs[0].name"), "3:8+7");
  EXPECT_EQ(at("jobs[0].devices"), "4:3+7");
  EXPECT_EQ(at("jobs[0].devices[0]"), "4:13+2");
  EXPECT_EQ(at("jobs[0].devices[1]"), "4:17+2");
  EXPECT_EQ(at("jobs[0].configs[0].layout"), "4:40+5");
  EXPECT_EQ(at("events[0].fail"), "6:10+4");
  EXPECT_EQ(at("events[0].fail.devices[3]"), "6:10+4") << "absent: the nearest that is there";
  EXPECT_EQ(at("jobs[0].configs[0].step_time"), "4:22+7");
  EXPECT_EQ(parsed.places.value("until").line, 0);
  EXPECT_TRUE(parsed.places.has("seed"));
  EXPECT_FALSE(parsed.places.has("until"));
}

TEST(Textproto, AllProblemsOfTypesAtOnce) {
  EXPECT_EQ(problems_of("name: 3\nseed: -1\nschema_version: 2147483648\njobs { gpus: \"8\" steps: 1.5 checkpoint { "
                        "host_memory_copy: 2 } }\n"
                        "cluster { fabric { kind: MESH } storage: 3 }\nexpect { at_least: 1e400 at_most: -nan equals: "
                        "\"1\" }\nnmae: \"x\""),
            (Lines{"1:7+1 \"name\" takes a text in quotes, found 3", "2:7+2 -1 does not fit \"seed\"",
                   "3:17+10 2147483648 does not fit \"schema_version\"",
                   "4:14+3 \"gpus\" takes a whole number, found the text \"8\"",
                   "4:25+3 \"steps\" takes a whole number, found 1.5",
                   "4:60+1 \"host_memory_copy\" takes true or false, found 2",
                   "5:26+4 \"kind\" takes one of STAR, LEAF_SPINE, RAIL, FAT_TREE, DRAGONFLY, found MESH",
                   "5:42+1 \"storage\" takes a block { … }, found 3",
                   "6:20+5 1e400 is not a finite number that \"at_least\" can hold",
                   "6:35+4 -nan is not a finite number that \"at_most\" can hold",
                   "6:48+3 \"equals\" takes a number, found the text \"1\"", "7:1+4 unknown field \"nmae\""}));
}

TEST(Textproto, IntegerLimits) {
  EXPECT_TRUE(problems_of("schema_version: -2147483648 seed: 18446744073709551615 jobs { steps: -9223372036854775808 }")
                  .empty());
  EXPECT_EQ(parse("jobs { steps: -9223372036854775808 }").message.jobs(0).steps(), INT64_MIN);
  EXPECT_EQ(
      problems_of("schema_version: -2147483649 seed: 18446744073709551616 jobs { steps: 9223372036854775808 }").size(),
      3U);
}

TEST(Textproto, SingularFieldsAndOneofsOnce) {
  EXPECT_EQ(problems_of("name: 'a' name: 'b' events { resize { } fail { } } cluster { } cluster { }"),
            (Lines{"1:11+4 \"name\" is given twice", "1:41+4 \"resize\" and \"fail\" exclude each other",
                   "1:64+7 \"cluster\" is given twice"}));
}

TEST(Textproto, SyntaxProblemsKeepTheirPlaces) {
  EXPECT_EQ(problems_of("name: \"abc\nuntil: \"1h\""), (Lines{"1:7+4 this text is not closed on its line"}));
  EXPECT_EQ(problems_of("jobs {\n name: 'x'\n"), (Lines{"1:1+4 \"jobs\" is never closed"}));
  EXPECT_EQ(problems_of("}\nname: 'x'"), (Lines{"1:1+1 \"}\" closes nothing"}));
  EXPECT_EQ(problems_of("jobs { name: 'x' >"), (Lines{"1:18+1 \"jobs\" is closed with \">\", expected \"}\""}));
  EXPECT_EQ(problems_of("name\nseed: 3"), (Lines{"1:1+4 \"name\" has no value"}));
  EXPECT_EQ(problems_of("name:\nseed: 3"), (Lines{"1:1+4 \"name\" has no value"}));
  EXPECT_EQ(problems_of("name 'x'"), (Lines{"1:6+3 expected \":\" or \"{\" after \"name\", found \"'x'\""}));
  EXPECT_EQ(problems_of("name: = 'x'\nseed: x"), (Lines{"1:7+1 expected a value for \"name\", found \"=\"",
                                                        "2:7+1 \"seed\" takes a whole number >= 0, found x"}));
  EXPECT_EQ(problems_of("jobs { devices: [1 2] }"),
            (Lines{"1:20+1 expected \",\" or \"]\" in the list of \"devices\", found \"2\""}));
  EXPECT_EQ(problems_of("\"name\": 'x'"), (Lines{"1:1+6 expected a field name, found \"\"name\"\""}));
  EXPECT_EQ(problems_of("name: 'a\\qb'"), (Lines{"1:9+2 \"\\q\" starts no valid escape"}));
  EXPECT_EQ(problems_of("name: '\\ud800'"), (Lines{"1:8+2 \"\\u\" starts no valid escape"}));
  EXPECT_EQ(problems_of("name: '\\377'"), (Lines{"1:7+6 this text is not UTF-8 once its escapes are decoded"}));
  EXPECT_EQ(problems_of("name: '\\000'"), (Lines{"1:7+6 this text contains a NUL character"}));
}

TEST(Textproto, WhatIsNoTextFile) {
  EXPECT_EQ(problems_of(""), (Lines{"0:0+1 the file is empty"}));
  EXPECT_EQ(problems_of(" \n\t\n"), (Lines{"0:0+1 the file is empty"}));
  EXPECT_EQ(problems_of(std::string("name: \"\0\"", 9)),
            (Lines{"0:0+1 the file contains NUL bytes: it is not a text file"}));
  EXPECT_EQ(problems_of("name: 'x'\n # \xC3\xA4\xE9"), (Lines{"2:5+1 byte 0xe9 is not UTF-8"}));
  EXPECT_EQ(problems_of(std::string((1 << 20) + 1, ' ')),
            (Lines{"0:0+1 the file has 1048577 bytes; at most 1048576 are read"}));
  EXPECT_TRUE(problems_of("# only a comment").empty());
}

TEST(Textproto, HostileFilesStayBounded) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "jobs{";
  EXPECT_LE(problems_of(deep).size(), 3U);
  EXPECT_LE(problems_of(std::string(1 << 20, '}')).size(), 101U);
  std::string unknown;
  for (int i = 0; i < 50000; ++i) unknown += "x: 1\n";
  EXPECT_LE(problems_of(unknown).size(), 101U);
  EXPECT_LE(problems_of(std::string(1000000, '['), true).size(), 3U);
}

TEST(Textproto, BrokenFieldsAreKnown) {
  const Parsed parsed = parse("nam: 'x' jobs { gpus: 'x' devices: [1, 'x', 3] name: 'j' }");
  EXPECT_TRUE(parsed.places.broken("name")) << "its misspelling is reported";
  EXPECT_TRUE(parsed.places.broken("jobs[0].gpus"));
  EXPECT_TRUE(parsed.places.broken("jobs[0].devices[1]"));
  EXPECT_FALSE(parsed.places.broken("jobs[0].name"));
  EXPECT_FALSE(parsed.places.broken(""));
  EXPECT_TRUE(parse("jobs {").places.broken("name"));
}

TEST(Json, ProblemsCarryPointers) {
  EXPECT_EQ(problems_of("{\"name\": 3, \"jobs\": [{\"gpu\": 1, \"steps\": \"12\", \"globalBatch\": 2.5}], \"cluster\": "
                        "[], \"until\": null}",
                        true),
            (Lines{"0:0+1 /name: \"name\" takes a text in quotes, found 3",
                   "0:0+1 /jobs/0/gpu: unknown field \"gpu\" in \"jobs[0]\"",
                   "0:0+1 /jobs/0/global_batch: \"global_batch\" takes a whole number, found 2.5",
                   "0:0+1 /cluster: \"cluster\" takes a block { … }, found a list"}));
  EXPECT_EQ(problems_of("{\"jobs\": {}, \"name\": \"a\", \"name\": \"b\"}", true),
            (Lines{"0:0+1 /jobs: \"jobs\" takes a list, found a block { … }", "0:0+1 /name: \"name\" is given twice"}));
  EXPECT_EQ(pointer_of("jobs[0].configs[12].layout"), "/jobs/0/configs/12/layout");
}

TEST(Json, SyntaxProblemsHaveAPlace) {
  EXPECT_EQ(problems_of("{\n \"name\": \"\xC3\xBC\",}", true), (Lines{"2:14+1 this is not JSON: unexpected \"}\""}));
  EXPECT_EQ(problems_of("{\"seed\": 1e400}", true), (Lines{"1:10+5 1e400 is not a finite number"}));
  EXPECT_EQ(problems_of("{", true), (Lines{"1:2+1 this is not JSON: unexpected end of the file"}));
  EXPECT_EQ(problems_of("[]", true), (Lines{"0:0+1 the file must hold one JSON object { … }"}));
}

// A random message: every field of the schema, any depth.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  void fill(Message& message) {
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (random_() % 3 == 0) continue;
      for (unsigned n = field->is_repeated() ? random_() % 3 : 1; n > 0; --n) set(message, *field);
    }
  }
  unsigned operator()() { return static_cast<unsigned>(random_()); }

 private:
  void set(Message& message, const FieldDescriptor& field);
  std::mt19937 random_;
};

void Generator::set(Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  const bool repeated = field.is_repeated();
  const std::vector<std::string> texts = {"",        "a b", "\"quoted\\\"", "gr\xC3\xB6\xC3\x9F\n\t",
                                          "{ # } '", "1h",  "\x7F\x01"};
  const std::vector<double> doubles = {0, -1.5, 1e300, 5e-324, 0.1, 12345678901234567.0};
  const auto number =
      static_cast<int64_t>(static_cast<uint64_t>(random_()) << (random_() % 32)) * (random_() % 2 == 0 ? 1 : -1);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      fill(repeated ? *reflection->AddMessage(&message, &field) : *reflection->MutableMessage(&message, &field));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated)
        reflection->AddString(&message, &field, texts[random_() % texts.size()]);
      else
        reflection->SetString(&message, &field, texts[random_() % texts.size()]);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      if (repeated)
        reflection->AddInt32(&message, &field, static_cast<int32_t>(number));
      else
        reflection->SetInt32(&message, &field, static_cast<int32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_INT64: reflection->SetInt64(&message, &field, number); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection->SetUInt64(&message, &field, static_cast<uint64_t>(number)); break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection->SetDouble(&message, &field, doubles[random_() % doubles.size()]);
      break;
    case FieldDescriptor::CPPTYPE_BOOL: reflection->SetBool(&message, &field, random_() % 2 == 0); break;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection->SetEnumValue(&message, &field,
                               static_cast<int>(random_() % static_cast<unsigned>(field.enum_type()->value_count())));
      break;
    default: FAIL() << "the schema has a type this test does not fill: " << field.full_name();
  }
}

TEST(Textproto, ReadsWhatIsPrinted) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Generator generator(seed);
    Scenario message;
    generator.fill(message);
    TextFormat::Printer printer;
    printer.SetSingleLineMode(seed % 2 == 0);
    printer.SetUseShortRepeatedPrimitives(seed % 3 == 0);
    std::string printed;
    printer.PrintToString(message, &printed);
    for (const std::string& text : {printed, print_textproto(message)}) {
      if (text.empty()) continue;
      const Parsed parsed = parse(text);
      ASSERT_TRUE(parsed.problems.empty()) << parsed.problems[0].message << "\n" << text;
      ASSERT_TRUE(MessageDifferencer::Equals(parsed.message, message)) << text;
    }
    std::string json;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(message, &json).ok());
    const Parsed parsed = parse(json, true);
    ASSERT_TRUE(parsed.problems.empty()) << parsed.problems[0].message << "\n" << json;
    ASSERT_TRUE(MessageDifferencer::Equals(parsed.message, message)) << json;
  }
}

// As in protobuf: "01.5" is no octal number, and no decimal one.
TEST(Textproto, ALeadingZeroIsNoDecimalNumber) {
  EXPECT_EQ(
      problems_of("expect { at_least: 01.5 at_most: -00.5 equals: 0.5 }"),
      (Lines{"1:20+4 \"at_least\" takes a number, found 01.5", "1:34+5 \"at_most\" takes a number, found -00.5"}));
}

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

// Texts with a few tokens dropped, doubled or swapped: what we accept, protobuf's parser accepts and reads the same.
// As protobuf has it: what is nearer to 0 than any number is 0.
TEST(Textproto, NumbersTooSmallAreZero) {
  Job message;
  Places places;
  const std::string text = "search { batch_tolerance: 4.9e-3214 }";
  Diagnostics diagnostics("x", text);
  parse_textproto(text, message, diagnostics, places);
  EXPECT_TRUE(diagnostics.empty());
  EXPECT_EQ(message.search().batch_tolerance(), 0);
}

TEST(Textproto, AgreesWithProtobufOnDamagedTexts) {
  const std::vector<std::string> pieces = {" ", "{",  "}", "<",  ">", "[",  "]", ":",    ",",  ";",
                                           "'", "\"", "#", "\n", "-", "0x", "1", "name", "\\", "."};
  int accepted = 0;
  int refused = 0;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(seed);
    Generator generator(seed);
    Job message;
    generator.fill(message);
    std::string text = print_textproto(message);
    for (unsigned n = generator() % 3; n > 0 && !text.empty(); --n) {
      const size_t at = generator() % text.size();
      text.replace(at, generator() % 3, pieces[generator() % pieces.size()]);
    }
    Job ours;
    Places places;
    Diagnostics diagnostics("x", text);
    parse_textproto(text, ours, diagnostics, places);
    Job theirs;
    Silent silent;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&silent);
    const bool protobuf_accepts = parser.ParseFromString(text, &theirs);
    ++(diagnostics.empty() ? accepted : refused);
    if (diagnostics.empty()) {
      ASSERT_TRUE(protobuf_accepts) << text;
      ASSERT_TRUE(MessageDifferencer::Equals(ours, theirs)) << text;
    } else if (protobuf_accepts) {
      // Stricter only about emptiness and texts that no terminal or JSON file could hold.
      const std::string& why = diagnostics.problems()[0].message;
      ASSERT_TRUE(why.find("empty") != std::string::npos || why.find("NUL") != std::string::npos ||
                  why.find("UTF-8") != std::string::npos)
          << why << "\n"
          << text;
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace scalai::proto
