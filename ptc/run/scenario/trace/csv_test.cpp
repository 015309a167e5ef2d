#include "ptc/run/scenario/trace/csv.h"

#include "ptc/run/scenario/trace/lines.h"
#include "ptc/run/scenario/trace/problems.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using testing::has;

class CsvRows : public testing::TraceFiles {
 protected:
  Csv open(const std::string& text, char separator = ',') {
    absl::StatusOr<Csv> csv = Csv::open(file(text), problems_, separator);
    EXPECT_TRUE(csv.ok());
    return *std::move(csv);
  }
  std::string message() const { return message_of(problems_.status()); }
  Problems problems_;
};

TEST_F(CsvRows, FieldsOfALine) {
  std::vector<std::string> fields;
  using Fields = std::vector<std::string>;
  EXPECT_TRUE(split_fields("a,\"b, \"\"c\"\"\",,d", ',', fields));
  EXPECT_EQ(fields, (Fields{"a", "b, \"c\"", "", "d"}));
  EXPECT_TRUE(split_fields("", ',', fields));
  EXPECT_EQ(fields, (Fields{""}));
  EXPECT_TRUE(split_fields("a,", ',', fields));
  EXPECT_EQ(fields, (Fields{"a", ""}));
  EXPECT_TRUE(split_fields("a\t\"b\tc", '\t', fields));
  EXPECT_EQ(fields, (Fields{"a", "\"b", "c"}));
  EXPECT_FALSE(split_fields("a,\"b", ',', fields));
  EXPECT_FALSE(split_fields("a,\"b\"c", ',', fields));
}

TEST_F(CsvRows, ValuesAndTheirProblems) {
  Csv csv = open("\xEF\xBB\xBFname,time,size\r\njob 1,2.5,8\r\n\r\n,x,0\njob,1e12,1.5\nshort\n");
  ASSERT_TRUE(csv.read_header({"name", "time", "size"}));
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.name("name"), "job 1");
  EXPECT_EQ(csv.number("time", kAnyTime), 2.5);
  EXPECT_EQ(csv.count("size", kGpuCount), 8);
  EXPECT_TRUE(problems_.empty());
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.place().row, 4);  // blank lines count
  EXPECT_EQ(csv.name("name"), std::nullopt);
  EXPECT_EQ(csv.number("time", kAnyTime), std::nullopt);
  EXPECT_EQ(csv.count("size", kGpuCount), std::nullopt);
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.number("time", kAnyTime), std::nullopt);
  EXPECT_EQ(csv.count("size", kGpuCount), std::nullopt);
  EXPECT_FALSE(csv.next());
  EXPECT_EQ(csv.rows(), 4);
  for (const char* part :
       {"trace.csv:4: name: is empty", "trace.csv:4: time: \"x\" is not a number", "size: \"0\" is not within 1 to",
        "trace.csv:5: time: \"1e12\" is not within -100000000000 to", "size: \"1.5\" is not a whole number",
        "trace.csv:6: has 1 fields instead of 3", "6 problems"}) {
    EXPECT_TRUE(has(message(), part)) << part << "\n" << message();
  }
}

TEST_F(CsvRows, AHeaderThatLacksColumns) {
  Csv csv = open("nme,time\n1,2\n");
  EXPECT_FALSE(csv.read_header({"name", "time"}));
  EXPECT_TRUE(has(message(), "trace.csv:1: name: the header has no such column\n  hint: there is \"nme\""))
      << message();
  Problems twice;
  const std::string path = file("a,b,a\n");
  EXPECT_FALSE(Csv::open(path, twice)->read_header({"a"}));
  EXPECT_TRUE(has(message_of(twice.status()), "twice"));
  Problems empty;
  EXPECT_FALSE(Csv::open(file(""), empty)->read_header({"a"}));
  EXPECT_TRUE(has(message_of(empty.status()), "is empty"));
}

TEST_F(CsvRows, LinesOfAnyLengthWithOneBuffer) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::string(static_cast<size_t>(i), 'x') + "\n";
  absl::StatusOr<LineReader> lines = LineReader::open(file(text + "last"));
  ASSERT_TRUE(lines.ok());
  std::string_view line;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(lines->next(line));
    ASSERT_EQ(line.size(), static_cast<size_t>(i));
  }
  ASSERT_TRUE(lines->next(line));
  EXPECT_EQ(line, "last");
  EXPECT_EQ(lines->row(), 3001);
  EXPECT_FALSE(lines->next(line));
  EXPECT_TRUE(lines->status().ok());
}

TEST_F(CsvRows, FilesThatAreNoText) {
  absl::StatusOr<LineReader> lines = LineReader::open(file(std::string(2 << 20, 'x')));
  ASSERT_TRUE(lines.ok());
  std::string_view line;
  EXPECT_FALSE(lines->next(line));
  EXPECT_TRUE(has(message_of(lines->status()), "trace.csv:1: a line of more than 1048576 bytes"));
  EXPECT_TRUE(has(message_of(LineReader::open(file("\x1f\x8b\x08 packed")).status()), "gunzip"));
  EXPECT_EQ(exit_code_of(LineReader::open(folder().string()).status()), 4);
  EXPECT_EQ(exit_code_of(LineReader::open((folder() / "none").string()).status()), 4);
}

TEST_F(CsvRows, ManyProblemsAreCounted) {
  for (int i = 0; i < 25; ++i) problems_.add({"f", i + 1}, "x", "is bad");
  EXPECT_TRUE(has(message(), "f:20: x: is bad\n… and 5 more\n25 problems")) << message();
  EXPECT_FALSE(has(message(), "f:21"));
  EXPECT_EQ(in_quotes("a\nb"), "\"a?b\"");
}

}  // namespace
}  // namespace scalai::trace
