#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/datasets/state.h"

namespace scalai::datasets {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostText = 4096;

class Fields {
 public:
  explicit Fields(const ordered_json& object) : object_(object) {}

  const ordered_json* find(const char* name) {
    known_.insert(name);
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    problem(name, "is missing");
    return nullptr;
  }
  void read(const char* name, int64_t& value) {
    const auto fits = [](const ordered_json& found) {
      return found.is_number_integer() &&
             (!found.is_number_unsigned() || found.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    };
    read(name, value, fits, "takes a whole number");
  }
  void read(const char* name, uint64_t& value) {
    read(name, value, &ordered_json::is_number_unsigned, "takes a whole number from 0 to 2^64 - 1");
  }
  void read(const char* name, bool& value) { read(name, value, &ordered_json::is_boolean, "takes true or false"); }
  void read(const char* name, std::string& value) { read(name, value, &ordered_json::is_string, "takes a text"); }
  void refuse_unknown() {
    for (const auto& [name, value] : object_.items()) {
      if (known_.count(name) == 0) problem(clipped(name, 40), "is no field of a dataset state");
    }
  }
  void problem(const std::string& name, const std::string& what) {
    problems_.push_back(fmt::format("/{}: {}", name, what));
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  template <class Value, class Fits>
  void read(const char* name, Value& value, Fits fits, const char* otherwise) {
    const ordered_json* found = find(name);
    if (found == nullptr) return;
    if (!std::invoke(fits, *found)) return problem(name, otherwise);
    value = found->get<Value>();
  }

  const ordered_json& object_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string state_text(const State& state) {
  const ordered_json json = {{"schema_version", kStateSchemaVersion},
                             {"index", state.index},
                             {"samples", state.samples},
                             {"sequence", state.sequence},
                             {"seed", state.seed},
                             {"shuffle", state.shuffle},
                             {"drop_last", state.drop_last},
                             {"global_batch", state.global_batch},
                             {"step", state.step},
                             {"pass", state.pass},
                             {"consumed", state.consumed}};
  return json_text(json, {.ascii = true});
}

absl::StatusOr<State> parse_state(std::string_view text) {
  if (text.size() > kMostText) return invalid(fmt::format("a dataset state has at most {} bytes", kMostText));
  std::vector<std::string> doubled;
  const absl::StatusOr<ordered_json> read = read_ordered_json(text, "", &doubled);
  if (!read.ok()) return invalid("a dataset state is a JSON object, and this is not one: " + message_of(read.status()));
  const ordered_json& json = *read;
  if (!json.is_object()) return invalid("a dataset state is a JSON object, and this is not one");
  Fields fields(json);
  int64_t schema_version = kStateSchemaVersion;
  fields.read("schema_version", schema_version);
  if (schema_version != kStateSchemaVersion) {
    return invalid(
        fmt::format("/schema_version: is {}, and this program reads {}", schema_version, kStateSchemaVersion));
  }
  for (const std::string& key : doubled) fields.problem(clipped(key, 40), "appears twice");
  State state;
  state.samples = kMostInState;  // fits whatever else is read, should it be missing
  fields.read("index", state.index);
  fields.read("samples", state.samples);
  fields.read("sequence", state.sequence);
  fields.read("seed", state.seed);
  fields.read("shuffle", state.shuffle);
  fields.read("drop_last", state.drop_last);
  fields.read("global_batch", state.global_batch);
  fields.read("step", state.step);
  fields.read("pass", state.pass);
  fields.read("consumed", state.consumed);
  fields.refuse_unknown();
  std::vector<std::string> problems = fields.problems();
  if (const absl::Status wrong = validate(state); !wrong.ok()) problems.push_back(message_of(wrong));
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  return state;
}

}  // namespace scalai::datasets
