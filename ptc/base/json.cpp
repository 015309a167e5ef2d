#include "ptc/base/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

SourcePlace place_at(std::string_view text, size_t byte, std::string_view token) {
  const std::string_view before = text.substr(0, byte);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return {1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          1 + static_cast<int>(columns_of(before.substr(line_start))),
          std::max(1, static_cast<int>(columns_of(token)))};
}

// The byte of the first bracket below kMaxJsonDepth others. Up to the first error of a text, brackets outside of
// strings are what the library counts; what follows an error is never read.
std::optional<size_t> too_deep(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return at;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

// Only looks for the first error: the library's readers of trees keep its place for themselves.
class ErrorFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ErrorFinder(std::string_view text) : text_(text) {}

  JsonProblem problem;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string& token, const nlohmann::json::exception& error) override {
    problem = json_problem(text_, position, token, error.id);
    return false;
  }

 private:
  std::string_view text_;
};

absl::Status refusal(std::string_view file, const JsonProblem& problem) {
  const auto [line, column, length] = problem.place;
  return invalid(file.empty() ? fmt::format("line {}, column {}: {}", line, column, problem.message)
                              : fmt::format("{}:{}:{}: {}", file, line, column, problem.message));
}

template <class Json>
absl::StatusOr<Json> read(std::string_view text, std::string_view file, std::vector<std::string>* doubled) {
  if (const std::optional<size_t> at = too_deep(text)) {
    return refusal(file, {place_at(text, *at, ""), fmt::format("nested more than {} levels deep", kMaxJsonDepth)});
  }
  std::set<std::string> keys;
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& value) {
    if (depth != 1 || event != Json::parse_event_t::key) return true;
    const auto& key = value.template get_ref<const std::string&>();
    if (!keys.insert(key).second) doubled->push_back(key);
    return true;
  };
  const typename Json::parser_callback_t callback =
      doubled == nullptr ? typename Json::parser_callback_t() : typename Json::parser_callback_t(watch);
  Json json = Json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  ErrorFinder finder(text);
  nlohmann::json::sax_parse(text.begin(), text.end(), &finder);
  return refusal(file, finder.problem);
}

size_t broken_bytes(std::string_view text) {
  size_t broken = 0;
  for (const std::string_view character : characters(text))
    broken += character.size() == 1 && (static_cast<unsigned char>(character[0]) & 0x80) != 0 ? 1 : 0;
  return broken;
}

template <class Json>
void find_broken(const Json& json, const std::string& pointer, std::vector<std::string>& found) {
  if (json.is_string() && broken_bytes(json.template get_ref<const std::string&>()) > 0) found.push_back(pointer);
  if (!json.is_structured()) return;
  size_t index = 0;
  for (auto at = json.begin(); at != json.end(); ++at, ++index) {
    const std::string name = json.is_object() ? at.key() : std::to_string(index);
    const std::string place = fmt::format("{}/{}", pointer, printable_text(name));
    if (json.is_object() && broken_bytes(name) > 0) found.push_back(place);
    find_broken(*at, place, found);
  }
}

template <class Json>
std::string write(const Json& json, const JsonForm& form, std::vector<std::string>* replaced) {
  std::string text = json.dump(form.indent, ' ', form.ascii, Json::error_handler_t::replace);
  // Only a text with the replacement character can have had other bytes; most have none.
  if (text.find(form.ascii ? "\\ufffd" : "\xEF\xBF\xBD") == std::string::npos) return text;
  std::vector<std::string> found;
  find_broken(json, "", found);
  if (replaced != nullptr) {
    *replaced = std::move(found);
  } else if (!found.empty()) {
    say("warning: bytes that are not UTF-8 are written as U+FFFD, in JSON at {}\n", fmt::join(found, ", "));
  }
  return text;
}

}  // namespace

std::string json_text(const nlohmann::json& json, const JsonForm& form, std::vector<std::string>* replaced) {
  return write(json, form, replaced);
}

std::string json_text(const nlohmann::ordered_json& json, const JsonForm& form, std::vector<std::string>* replaced) {
  return write(json, form, replaced);
}

nlohmann::json json_of_bytes(std::string_view bytes) {
  if (broken_bytes(bytes) == 0) return std::string(bytes);
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"hex", hex}};
}

std::optional<std::string> bytes_of_json(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto hex = json.is_object() ? json.find("hex") : json.end();
  if (hex == json.end() || !hex->is_string()) return std::nullopt;
  const auto& digits = hex->get_ref<const std::string&>();
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = digits.data() + std::min(i + 2, digits.size());
    if (const auto read = std::from_chars(digits.data() + i, end, byte, 16); read.ptr != digits.data() + i + 2)
      return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

absl::StatusOr<nlohmann::json> read_json(std::string_view text, std::string_view file) {
  return read<nlohmann::json>(text, file, nullptr);
}

absl::StatusOr<nlohmann::ordered_json> read_ordered_json(std::string_view text, std::string_view file,
                                                         std::vector<std::string>* doubled) {
  return read<nlohmann::ordered_json>(text, file, doubled);
}

// `position` counts the bytes read up to and including the offending one; `last_token` is exact for numbers only.
JsonProblem json_problem(std::string_view text, size_t position, std::string_view last_token, int error_id) {
  constexpr int kNumberOverflow = 406;
  if (error_id == kNumberOverflow) {
    return {place_at(text, position - last_token.size(), last_token),
            fmt::format("{} is not a finite number", clipped(last_token, 40))};
  }
  const size_t at = std::max<size_t>(position, 1) - 1;
  std::string found = "end of the file";
  if (at < text.size() && text[at] == '\n') {
    found = "end of the line";
  } else if (at < text.size()) {
    found = fmt::format("\"{}\"", printable(characters(text.substr(at, 4))[0]));
  }
  return {place_at(text, at, ""), fmt::format("this is not JSON: unexpected {}", found)};
}

}  // namespace scalai
