#include "ptc/store/torch/pickle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store {
namespace pickle_test {

using Kind = PickleValue::Kind;
using std::string_view_literals::operator""sv;
using testing::AnyOf;
using testing::HasSubstr;

Pickle read(const std::string& bytes) {
  absl::StatusOr<Pickle> pickle = Pickle::read(bytes);
  SCALAI_CHECK(pickle.ok(), message_of(pickle.status()));
  return *std::move(pickle);
}
std::string problem_of(const std::string& bytes) { return message_of(Pickle::read(bytes).status()); }
std::string raw(std::string_view bytes) { return std::string(bytes); }

// 100,000 calls with the same 100,000 arguments.
TEST(Pickles, TheSameValuesAreNotTakenTooOften) {
  std::string bytes = "\x80\x02(";
  for (int i = 0; i < 100'000; ++i) bytes += 'N';
  bytes += std::string("tq\0", 3) + "0(";
  for (int i = 0; i < 100'000; ++i) bytes += std::string("ca\nb\nh\0R", 8);
  bytes += "t.";
  const absl::StatusOr<Pickle> read = Pickle::read(bytes);
  EXPECT_THAT(message_of(read.status()), testing::HasSubstr("takes the same values too often"));
}

// A byte of a pickle can ask for a value of a hundred bytes and more.
TEST(Pickles, ValuesTakeMemoryInProportion) {
  constexpr size_t kBytes = 1 << 20;
  const auto repeated = [](std::string_view part, std::string_view end) {
    std::string bytes = "\x80\x02(";
    while (bytes.size() < kBytes) bytes += part;
    return bytes + std::string(end);
  };
  const auto resident = [] {
    struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  for (const std::string_view part : {"N"sv, "\x88"sv, "K\x07"sv, ")"sv, "N0"sv}) {  // these are there once
    const size_t before = resident();
    const absl::StatusOr<Pickle> read = Pickle::read(repeated(part, "t."));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_LT(resident() - before, kBytes * 10) << part;
  }
  for (const std::string_view part : {"]"sv, "}"sv, "N\x85"sv, "J\x00\x00\x00\x80"sv, "\x8c\x01x"sv, "]q\x01"sv})
    EXPECT_THAT(problem_of(repeated(part, "t.")), AnyOf("", HasSubstr("has values that take too much memory"))) << part;
  EXPECT_THAT(problem_of(repeated("]", "t.")), HasSubstr("has values that take too much memory"));
}

// Equal small numbers are one value; a memo with gaps is read as one without.
TEST(Pickles, SharedValuesAndAMemoWithGaps) {
  const Pickle pickle = read(raw("\x80\x02(K\x05q\x07K\x05h\x07I5\n]q\x00h\x00t."sv));
  const std::vector<PickleValue*>& items = pickle.root().items;
  ASSERT_EQ(items.size(), 6U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(items[i]->number, 5);
  EXPECT_EQ(items[4]->kind, Kind::kList);
  EXPECT_EQ(items[4], items[5]);
}

TEST(Pickles, ReadsWhatPythonWrites) {
  // pickle.dumps({"a": [1, -2, 70000, 1.5, None, True], "b": (b"xy", "z")}, protocol=4)
  const Pickle four =
      read(raw("\x80\x04\x95\x31\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
               "a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00G?\xf8\x00\x00"
               "\x00\x00\x00\x00N\x88"
               "e\x8c\x01"
               "b\x94"
               "C\x02xy\x94\x8c\x01z\x94\x86\x94u."sv));
  const PickleValue* const list = four.root().find("a");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 6U);
  EXPECT_EQ(list->items[1]->number, -2);
  EXPECT_EQ(list->items[2]->number, 70000);
  EXPECT_EQ(list->items[3]->real, 1.5);
  EXPECT_EQ(list->items[4]->kind, Kind::kNone);
  EXPECT_EQ(list->items[5]->number, 1);
  EXPECT_EQ(four.root().find("b")->items[0]->text, "xy");
  EXPECT_EQ(four.root().find("c"), nullptr);
  // The same list in protocol 0.
  const Pickle zero = read("(lp0\nI1\naI-2\naI70000\naF1.5\naNaI01\na.");
  EXPECT_EQ(zero.root().items[2]->number, 70000);
}

TEST(Pickles, NamesAreNotCalled) {
  PickleWriter writer;  // os.system("touch x") in a dict
  writer.op("}").text("k").name("os", "system").op("(").text("touch x").op("tRs.");
  const Pickle pickle = read(writer.bytes());
  const PickleValue* const call = pickle.root().find("k");
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(call->is_call_of("os.system"));
  EXPECT_EQ(call->items[0]->text, "touch x");
}

TEST(Pickles, ObjectsHaveAttributes) {
  PickleWriter writer;
  writer.name("argparse", "Namespace").op(")\x81}").text("tp").number(4).op("sb.");
  const Pickle pickle = read(writer.bytes());
  ASSERT_NE(pickle.root().attribute("tp"), nullptr);
  EXPECT_EQ(pickle.root().attribute("tp")->number, 4);
}

TEST(Pickles, SharedValuesAreOne) {
  const Pickle pickle =
      read(raw("\x80\x02]q\x00(]q\x01h\x01h\x00"
               "e."sv));
  ASSERT_EQ(pickle.root().items.size(), 3U);
  EXPECT_EQ(pickle.root().items[0], pickle.root().items[1]);
  EXPECT_EQ(pickle.root().items[2], &pickle.root()) << "a list may contain itself";
}

TEST(Pickles, RefusesDamage) {
  EXPECT_EQ(problem_of(""), "pickle, byte 0: is cut off");
  EXPECT_EQ(problem_of("\x80\x02}"), "pickle, byte 3: is cut off");
  EXPECT_THAT(problem_of("\xff."), HasSubstr("opcode 0xff is not known here"));
  EXPECT_THAT(problem_of("."), HasSubstr("takes a value that is not there"));
  EXPECT_THAT(problem_of("t."), HasSubstr("to a mark that is not there"));
  EXPECT_THAT(problem_of("h\x01."), HasSubstr("remembers a value that is not there"));
  EXPECT_THAT(problem_of("\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09."), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(problem_of(std::string("X\xff\xff\xff\xff", 5)), HasSubstr("is cut off"));
  EXPECT_THAT(problem_of("}K\x01s."), HasSubstr("takes a value"));
}

TEST(Pickles, ManyEditsAreToldOrHarmless) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  PickleWriter writer;
  writer.op("}(");
  for (const char* name : {"a", "b"}) {
    writer.text(name);
    append_tensor(writer, {.name = name, .shape = {2, 3}, .strides = {3, 1}});
  }
  writer.op("u.");
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string edited = writer.bytes();
    for (int64_t edits = random.between(1, 4); edits > 0; --edits)
      edited[static_cast<size_t>(random.below(static_cast<int64_t>(edited.size())))] =
          static_cast<char>(random.below(256));
    refused += Pickle::read(edited).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace pickle_test
}  // namespace scalai::store
