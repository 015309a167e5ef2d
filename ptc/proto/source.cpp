#include "ptc/proto/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai::proto {
namespace {

constexpr size_t kMaxNamesListed = 16;
constexpr size_t kMaxNameLength = 200;

bool looks_like_json(const std::string& file, const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return file.ends_with(".json") || (first != std::string::npos && text[first] == '{');
}

// Messages of the unit parsers read "what is wrong; how to write it".
std::pair<std::string, std::string> split_hint(const std::string& message) {
  const size_t at = message.rfind("; ");
  if (at == std::string::npos) return {message, ""};
  return {message.substr(0, at), message.substr(at + 2)};
}

template <class T>
std::optional<T> value_or_report(Source& source, const std::string& path, const absl::StatusOr<T>& value) {
  if (value.ok()) return *value;
  auto [message, hint] = split_hint(message_of(value.status()));
  source.error(path, message, std::move(hint));
  return std::nullopt;
}

}  // namespace

Source::Source(const std::string& file, const std::string& text)
    : json_(looks_like_json(file, text)), diagnostics_(file, text) {}

void Source::parse(const std::string& text, google::protobuf::Message& message, size_t max_bytes) {
  if (json_)
    parse_json(text, message, diagnostics_, places_, max_bytes);
  else
    parse_textproto(text, message, diagnostics_, places_, max_bytes);
}

void Source::report(const std::string& path, SourcePlace place, const std::string& message, std::string hint,
                    const std::vector<Note>& notes) {
  ++errors_;
  if (broken(path)) return;
  Diagnostic diagnostic{place, about(path, message), std::move(hint), {}};
  for (const Note& note : notes) diagnostic.notes.emplace_back(places_.value(note.path), about(note.path, note.text));
  diagnostics_.error(std::move(diagnostic));
}

std::string Source::setting_of(const std::string& path) const {
  for (std::string at = path; !at.empty(); at = parent_of(at)) {
    if (const auto found = replaced_.find(at); found != replaced_.end()) return found->second;
  }
  return "";
}

std::string Source::about(const std::string& path, const std::string& text) const {
  if (const std::string setting = setting_of(path); !setting.empty()) return fmt::format("{}: {}", setting, text);
  return json_ && !path.empty() ? fmt::format("{}: {}", pointer_of(path), text) : text;
}

void Source::replaced(const std::string& path, const std::string& setting, bool present) {
  places_.forget(path);
  replaced_[path] = setting;
  for (std::string at = path; present && !at.empty() && !places_.has(at); at = parent_of(at)) places_.set(at, {});
}

void Source::replaced_element(const std::string& list, const std::string& setting,
                              const std::vector<std::optional<int>>& from) {
  const auto element = [&](size_t i) { return fmt::format("{}[{}]", list, i); };
  std::vector<std::pair<SourcePlace, std::string>> kept;  // place and setting of each element
  for (const std::optional<int>& old : from) {
    const std::string path = old ? element(static_cast<size_t>(*old)) : "";
    kept.emplace_back(old ? places_.value(path) : SourcePlace{}, old ? setting_of(path) : setting);
  }
  const SourcePlace whole = places_.value(list);
  places_.forget(list);
  std::erase_if(replaced_, [&](const auto& one) { return one.first.starts_with(list + "["); });
  for (std::string at = list; !from.empty() && !at.empty() && !places_.has(at); at = parent_of(at))
    places_.set(at, at == list ? whole : SourcePlace{});
  for (size_t i = 0; i < kept.size(); ++i) {
    places_.set(element(i), kept[i].first);
    if (!kept[i].second.empty()) replaced_[element(i)] = kept[i].second;
  }
}

void Source::error(const std::string& path, const std::string& message, std::string hint,
                   const std::vector<Note>& notes) {
  report(path, places_.value(path), message, std::move(hint), notes);
}

void Source::missing(const std::string& path, std::string hint) {
  error(path, fmt::format("\"{}\" is missing", field_of(path)), std::move(hint));
}

void Source::error_inside(const std::string& path, const std::string& value, int position, int length,
                          const std::string& message, std::string hint, const std::vector<Note>& notes) {
  SourcePlace place = places_.value(path);
  const bool written_as_is = place.line > 0 && place.length == static_cast<int>(columns_of(value)) + 2;
  if (written_as_is) place = {place.line, place.column + position, length};
  report(path, place, message, std::move(hint), notes);
}

void Source::error_unknown(const std::string& path, const std::string& what, const std::string& name,
                           const std::vector<std::string>& known) {
  const std::string near = closest(name, known);
  std::string hint;
  if (!near.empty()) {
    hint = fmt::format("did you mean \"{}\"?", near);
  } else if (known.size() <= kMaxNamesListed) {
    hint = fmt::format("known are {}", fmt::join(known, ", "));
  }
  error(path, fmt::format("unknown {} \"{}\"", what, clipped(name, 60)), std::move(hint));
}

std::optional<double> Source::seconds(const std::string& path, const std::string& text) {
  return value_or_report(*this, path, parse_seconds(text));
}

std::optional<double> Source::bandwidth(const std::string& path, const std::string& text) {
  return value_or_report(*this, path, parse_bandwidth(text));
}

std::optional<int64_t> Source::bytes(const std::string& path, const std::string& text) {
  return value_or_report(*this, path, parse_bytes(text));
}

bool Source::at_least(const std::string& path, int64_t value, int64_t lowest) {
  if (value >= lowest) return true;
  if (given(path))
    error(path, fmt::format("\"{}\" must be at least {}, found {}", field_of(path), lowest, value));
  else
    missing(path);
  return false;
}

bool Source::is_name(const std::string& path, const std::string& text) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (text.empty()) {
    error(path, fmt::format("\"{}\" is {}", field_of(path), given(path) ? "empty" : "missing"));
  } else if (std::any_of(text.begin(), text.end(), control)) {
    error(path, fmt::format("\"{}\" contains control characters", field_of(path)));
  } else if (text.size() > kMaxNameLength) {
    error(path,
          fmt::format("\"{}\" has {} bytes, at most {} are allowed", field_of(path), text.size(), kMaxNameLength));
  } else {
    return true;
  }
  return false;
}

std::string field_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string field = dot == std::string::npos ? path : path.substr(dot + 1);
  return field.substr(0, field.find('['));
}

}  // namespace scalai::proto
