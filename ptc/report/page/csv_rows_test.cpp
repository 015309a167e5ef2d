#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/report/page/internal/csv_rows.h"
#include "ptc/report/page/testing/example_pages.h"

namespace scalai::report {
namespace {

using ::testing::HasSubstr;

class CsvRowsTest : public testing::PageTest {};

TEST_F(CsvRowsTest, ReadsFieldsByColumn) {
  const auto rows = CsvRows::read(write("a.csv", "name,bytes,at_s\n\"a, \"\"b\"\"\",12,\nc,x,1.5\n"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 2U);
  EXPECT_EQ(rows->text(0, "name"), "a, \"b\"");
  EXPECT_EQ(rows->number(0, "bytes"), 12);
  EXPECT_EQ(rows->number(0, "at_s"), std::nullopt);   // empty
  EXPECT_EQ(rows->number(1, "bytes"), std::nullopt);  // no number
  EXPECT_EQ(rows->number(1, "at_s"), 1.5);
  EXPECT_EQ(rows->text(0, "later"), "");  // a column of another version
  EXPECT_FALSE(rows->has("later"));
}

TEST_F(CsvRowsTest, NamesThePlaceOfDamage) {
  const std::string short_row = write("b.csv", "a,b\n1,2\n3\n"), quote = write("c.csv", "a,b\n\"1,2\n"),
                    empty = write("d.csv", "");
  EXPECT_EQ(message_of(CsvRows::read(short_row).status()), short_row + ":3: error: 1 fields; the header has 2");
  EXPECT_EQ(message_of(CsvRows::read(quote).status()), quote + ":2: error: a quote is not closed");
  EXPECT_EQ(message_of(CsvRows::read(empty).status()), empty + ": error: the file is empty");
  EXPECT_EQ(exit_code_of(CsvRows::read(path("none.csv")).status()), 4);
}

}  // namespace
}  // namespace scalai::report
