// Without SQLite there are no expressions.

#include "ptc/base/status.h"
#include "ptc/report/query/query.h"

namespace scalai::report {
namespace {

absl::Status absent() {
  return missing("expressions need SQLite, without which this program was built (Debian: libsqlite3-dev)");
}

}  // namespace

absl::Status check_expression(const QueryTable& /*table*/, const std::string& /*expression*/) { return absent(); }

absl::StatusOr<std::vector<std::optional<double>>> evaluate(const QueryTable& /*table*/,
                                                            const std::vector<std::string>& /*expressions*/) {
  return absent();
}

}  // namespace scalai::report
