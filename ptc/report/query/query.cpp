#include "ptc/report/query/query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "ptc/base/diagnostics.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"

namespace scalai::report {
namespace {

constexpr int kMostBytes = 1 << 20;   // of a text or a value
constexpr int kMostSteps = 2'000;     // of kOperations each: three seconds
constexpr int kOperations = 100'000;  // of SQLite's machine, between two calls of the watch
constexpr int kMostColumns = 200;
const char* const kOpening = "SELECT (";
const char* const kGivesText = "it gives the text";
const char* const kOfText = "it is computed of a text, not of numbers";

struct Closed {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, Closed>;
using Statement = std::unique_ptr<sqlite3_stmt, Closed>;

// ---- functions ------------------------------------------------------------------------------------------------------
// Values of one aggregate. SQLite owns zeroed memory for it, which holds a pointer until the aggregate is final.
struct Values {
  std::vector<double> all;
  double percent = 50;
  bool bad_percent = false, has_text = false;
};

Values* values_of(sqlite3_context* context, bool make) {
  void* memory = sqlite3_aggregate_context(context, make ? sizeof(void*) : 0);
  if (memory == nullptr) return nullptr;
  Values* values = nullptr;
  std::memcpy(&values, memory, sizeof(void*));
  if (values != nullptr || !make) return values;
  values = new (std::nothrow) Values;
  std::memcpy(memory, &values, sizeof(void*));
  return values;
}

bool is_number(sqlite3_value* value) {
  const int type = sqlite3_value_numeric_type(value);
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

// Whether the values are numbers; else the error is said.
bool all_numbers(sqlite3_context* context, const Values& values) {
  if (values.has_text) sqlite3_result_error(context, kOfText, -1);
  return !values.has_text;
}

void add_value(sqlite3_context* context, int count, sqlite3_value** arguments) {
  Values* values = values_of(context, true);
  if (values == nullptr) return sqlite3_result_error_nomem(context);
  if (count > 1) {
    const double percent = sqlite3_value_double(arguments[1]);
    const bool first = values->all.empty();
    values->bad_percent = values->bad_percent || !is_number(arguments[1]) || !(percent >= 0 && percent <= 100) ||
                          (!first && percent != values->percent);
    values->percent = percent;
  }
  if (sqlite3_value_type(arguments[0]) == SQLITE_NULL) return;
  values->has_text = values->has_text || !is_number(arguments[0]);
  values->all.push_back(sqlite3_value_double(arguments[0]));
}

void give(sqlite3_context* context, const std::optional<double>& value) {
  if (value)
    sqlite3_result_double(context, *value);
  else
    sqlite3_result_null(context);
}

void give_percentile(sqlite3_context* context) {
  const std::unique_ptr<Values> values(values_of(context, false));
  if (!values) return sqlite3_result_null(context);
  if (values->bad_percent) {
    return sqlite3_result_error(context, "the second argument of percentile() is one number from 0 to 100", -1);
  }
  if (!all_numbers(context, *values)) return;
  give(context, quantile(values->all, values->percent / 100));
}

void give_deviation(sqlite3_context* context) {
  const std::unique_ptr<Values> values(values_of(context, false));
  if (values && !all_numbers(context, *values)) return;
  if (!values || values->all.size() < 2) return sqlite3_result_null(context);
  double sum = 0, squares = 0;
  for (const double value : values->all) sum += value;
  const double mean = sum / static_cast<double>(values->all.size());
  for (const double value : values->all) squares += (value - mean) * (value - mean);
  sqlite3_result_double(context, std::sqrt(squares / static_cast<double>(values->all.size() - 1)));
}

void give_mean(sqlite3_context* context) {
  const std::unique_ptr<Values> values(values_of(context, false));
  if (values && !all_numbers(context, *values)) return;
  if (!values || values->all.empty()) return sqlite3_result_null(context);
  double sum = 0;
  for (const double value : values->all) sum += value;
  sqlite3_result_double(context, sum / static_cast<double>(values->all.size()));
}

// count(*) and count(x), as floating numbers.
void count_row(sqlite3_context* context, int count, sqlite3_value** arguments) {
  auto* sum = static_cast<double*>(sqlite3_aggregate_context(context, sizeof(double)));
  if (sum == nullptr) return sqlite3_result_error_nomem(context);
  if (count == 0 || sqlite3_value_type(arguments[0]) != SQLITE_NULL) *sum += 1;
}

void give_count(sqlite3_context* context) {
  const auto* sum = static_cast<double*>(sqlite3_aggregate_context(context, 0));
  sqlite3_result_double(context, sum == nullptr ? 0 : *sum);
}

using Step = void (*)(sqlite3_context*, int, sqlite3_value**);
using Final = void (*)(sqlite3_context*);

int add_functions(sqlite3* database) {
  struct Function {
    const char* name;
    int arguments;
    Step step;
    Final final;
  };
  constexpr Function kFunctions[] = {
      {"percentile", 2, add_value, give_percentile}, {"median", 1, add_value, give_percentile},
      {"stddev", 1, add_value, give_deviation},      {"mean", 1, add_value, give_mean},
      {"count", 0, count_row, give_count},           {"count", 1, count_row, give_count},
  };
  for (const Function& function : kFunctions) {
    const int code =
        sqlite3_create_function(database, function.name, function.arguments, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                nullptr, nullptr, function.step, function.final);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

// ---- what is allowed ------------------------------------------------------------------------------------------------
int judge(void* table, int action, const char* first, const char* second, const char* /*database*/,
          const char* /*trigger*/) {
  if (action == SQLITE_SELECT) return SQLITE_OK;
  if (action == SQLITE_READ)
    return static_cast<const std::string*>(table)->compare(first) == 0 ? SQLITE_OK : SQLITE_DENY;
  if (action != SQLITE_FUNCTION) return SQLITE_DENY;
  for (const char* no : {"random", "randomblob", "zeroblob", "load_extension", "date", "time", "datetime", "julianday",
                         "strftime", "unixepoch", "current_date", "current_time", "current_timestamp",
                         "last_insert_rowid", "changes", "total_changes", "sqlite_source_id", "sqlite_version"}) {
    if (sqlite3_stricmp(second, no) == 0) return SQLITE_DENY;
  }
  return SQLITE_OK;
}

int watch(void* left) { return --*static_cast<int*>(left) < 0 ? 1 : 0; }

bool is_text(const QueryTable& table, const std::string& column) {
  return std::find(table.text_columns.begin(), table.text_columns.end(), column) != table.text_columns.end();
}

// ---- one table ------------------------------------------------------------------------------------------------------
class Query {
 public:
  static absl::StatusOr<std::unique_ptr<Query>> of(const QueryTable& table) {
    auto query = std::make_unique<Query>();
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, nullptr);
    query->database_.reset(raw);
    if (code != SQLITE_OK || add_functions(raw) != SQLITE_OK) return query->error("open a table in memory");
    SCALAI_RETURN_IF_ERROR(query->fill(table));
    sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kMostBytes);
    sqlite3_limit(raw, SQLITE_LIMIT_COLUMN, kMostColumns);
    sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
    query->table_ = table.name;
    sqlite3_set_authorizer(raw, judge, &query->table_);
    return query;
  }

  absl::StatusOr<Statement> prepare(const QueryTable& table, const std::string& expression) {
    // A comment at the end of the expression ends with the line.
    const std::string text = fmt::format("{}{}\n) FROM \"{}\"", kOpening, expression, table.name);
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    const int code = sqlite3_prepare_v2(database_.get(), text.c_str(), static_cast<int>(text.size()), &raw, &rest);
    Statement statement(raw);
    if (code == SQLITE_AUTH) {
      return invalid(
          "it may only read the table and compute\nhint: no random numbers, no times of day, no other tables");
    }
    if (code != SQLITE_OK) return wrong(table, expression);
    if (!statement || (rest != nullptr && *rest != '\0')) return invalid("it is more than one expression");
    if (sqlite3_column_count(raw) != 1) {
      return invalid("it gives several numbers\nhint: an expression each, as \"name=expression\"");
    }
    return statement;
  }

  // What it gives: one number for all rows.
  absl::StatusOr<std::optional<double>> value(sqlite3_stmt* statement, bool of_no_rows) {
    int left = kMostSteps;
    sqlite3_progress_handler(database_.get(), kOperations, watch, &left);
    const int code = sqlite3_step(statement);
    if (code == SQLITE_INTERRUPT) {
      return failed(fmt::format("it takes too long: more than {} million operations", kMostSteps / 10));
    }
    if (code == SQLITE_DONE && of_no_rows) return each_row();
    if (code == SQLITE_DONE) return std::optional<double>();
    if (code != SQLITE_ROW) return failed(sqlite3_errmsg(database_.get()));
    const int type = sqlite3_column_type(statement, 0);
    const double number = sqlite3_column_double(statement, 0);
    if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
      return failed(fmt::format("{} \"{}\", no number", kGivesText, text == nullptr ? "" : text));
    }
    if (sqlite3_step(statement) == SQLITE_ROW) return each_row();
    return type == SQLITE_NULL || !std::isfinite(number) ? std::nullopt : std::optional<double>(number);
  }

 private:
  static absl::Status each_row() {
    return invalid(
        "it gives a number for each row, not one for the run\nhint: wrap it in mean(…), sum(…), max(…), "
        "median(…) or percentile(…, 99)");
  }

  absl::Status error(const std::string& doing) const {
    return failed(fmt::format("cannot {}: {}", doing, sqlite3_errmsg(database_.get())));
  }

  // The message of SQLite, the expression with a mark, and a name that may be meant.
  absl::Status wrong(const QueryTable& table, const std::string& expression) const {
    std::string message = sqlite3_errmsg(database_.get());
    int offset = -1;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(database_.get()) - static_cast<int>(std::strlen(kOpening));
#endif
    if (offset >= 0 && offset < std::ssize(expression) && expression.find('\n') == std::string::npos) {
      message += fmt::format(", at \"{}\"", expression.substr(static_cast<size_t>(offset)));
    }
    constexpr std::string_view kColumn = "no such column: ", kFunction = "no such function: ";
    const std::string plain = sqlite3_errmsg(database_.get());
    if (plain.starts_with(kColumn)) {
      const std::string word = plain.substr(kColumn.size());
      std::string near = closest(word, table.columns);
      for (const std::string& column : table.columns) {  // its unit may be missing
        if (near.empty() && column.starts_with(word + "_")) near = column;
      }
      return invalid(message + (near.empty() ? fmt::format("\nhint: there are {}", fmt::join(table.columns, ", "))
                                             : fmt::format("\nhint: did you mean \"{}\"?", near)));
    }
    if (plain.starts_with(kFunction)) {
      return invalid(message +
                     "\nhint: there are mean, sum, min, max, count, median, percentile, stddev and those of SQLite");
    }
    return invalid(message);
  }

  absl::Status fill(const QueryTable& table) {
    std::vector<std::string> columns, places;
    std::vector<bool> text;
    for (const std::string& column : table.columns) {
      text.push_back(is_text(table, column));
      columns.push_back(fmt::format("\"{}\" {}", column, text.back() ? "TEXT" : "REAL"));
      places.emplace_back("?");
    }
    const std::string make = fmt::format("CREATE TABLE \"{}\"({})", table.name, fmt::join(columns, ", "));
    if (sqlite3_exec(database_.get(), make.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      return error("make a table");
    const std::string add = fmt::format("INSERT INTO \"{}\" VALUES({})", table.name, fmt::join(places, ", "));
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), add.c_str(), -1, &raw, nullptr) != SQLITE_OK) return error("fill a table");
    const Statement statement(raw);
    for (const std::vector<std::string>& row : table.rows) {
      SCALAI_CHECK(row.size() == table.columns.size());
      for (size_t k = 0; k < row.size(); ++k) {
        const int place = static_cast<int>(k) + 1;
        if (row[k].empty() && !text[k])
          sqlite3_bind_null(raw, place);
        else if (text[k])
          sqlite3_bind_text(raw, place, row[k].data(), static_cast<int>(row[k].size()), SQLITE_STATIC);
        else
          sqlite3_bind_double(raw, place, std::strtod(row[k].c_str(), nullptr));
      }
      if (sqlite3_step(raw) != SQLITE_DONE) return error("fill a table");
      sqlite3_reset(raw);
    }
    return absl::OkStatus();
  }

  std::string table_;  // its name
  Database database_;
};

}  // namespace

absl::Status check_expression(const QueryTable& table, const std::string& expression) {
  QueryTable sample = table;
  sample.rows.clear();
  const auto value_of = [&]() -> absl::StatusOr<std::optional<double>> {
    SCALAI_ASSIGN_OR_RETURN(const auto query, Query::of(sample));
    SCALAI_ASSIGN_OR_RETURN(const Statement statement, query->prepare(sample, expression));
    return query->value(statement.get(), sample.rows.empty());
  };
  // An aggregate gives one row even of none; what it computes of none may well be no number.
  if (const auto value = value_of(); absl::IsInvalidArgument(value.status())) return value.status();
  // Of one row with a text wherever there may be one: a number must not come of it.
  std::vector<std::string>& row = sample.rows.emplace_back();
  for (const std::string& column : table.columns) row.push_back(is_text(table, column) ? "text" : "1");
  const auto value = value_of();
  const std::string message = message_of(value.status());
  if (message != kOfText && !message.starts_with(kGivesText)) return absl::OkStatus();
  if (table.text_columns.empty()) return invalid(message);
  return invalid(fmt::format("{}\nhint: these columns are texts: {}; compare them, as in sum({} = 'a')", kOfText,
                             fmt::join(table.text_columns, ", "), table.text_columns.front()));
}

absl::StatusOr<std::vector<std::optional<double>>> evaluate(const QueryTable& table,
                                                            const std::vector<std::string>& expressions) {
  SCALAI_ASSIGN_OR_RETURN(const auto query, Query::of(table));
  std::vector<std::optional<double>> values;
  for (const std::string& expression : expressions) {
    SCALAI_ASSIGN_OR_RETURN(const Statement statement, query->prepare(table, expression));
    SCALAI_ASSIGN_OR_RETURN(const std::optional<double> value, query->value(statement.get(), false));
    values.push_back(value);
  }
  return values;
}

}  // namespace scalai::report
