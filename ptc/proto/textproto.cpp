#include "ptc/proto/textproto.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>

#include "ptc/base/utf8.h"
#include "ptc/proto/internal/bind.h"
#include "ptc/proto/internal/text_tree.h"

namespace scalai::proto {
namespace {

// Whether `text` can be a text file at all; says why not.
bool check_bytes(std::string_view text, size_t max_bytes, Diagnostics& diagnostics) {
  if (text.size() > max_bytes) {
    diagnostics.error({}, fmt::format("the file has {} bytes; at most {} are read", text.size(), max_bytes));
  } else if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    diagnostics.error({}, "the file is empty");
  } else if (text.find('\0') != std::string_view::npos) {
    diagnostics.error({}, "the file contains NUL bytes: it is not a text file");
  } else if (const size_t bad = internal::find_bad_utf8(text); bad != std::string_view::npos) {
    const std::string_view before = text.substr(0, bad);
    const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
    const SourcePlace place{1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
                            1 + static_cast<int>(columns_of(before.substr(line_start))), 1};
    diagnostics.error(place, fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[bad])),
                      "save the file as UTF-8");
  } else {
    return true;
  }
  return false;
}

// A line that ends in a colon, and below it, further in, another name or an item: no text of ours has that.
bool looks_like_yaml(std::string_view text) {
  bool opened = false;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line = text.substr(from, end - from);
    from = end + 1;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    const size_t first = line.find_first_not_of(' ');
    if (first == std::string_view::npos || line[first] == '#') continue;
    const std::string_view word = line.substr(first);
    const bool item = word == "-" || word.starts_with("- ");
    const bool name =
        std::isalpha(static_cast<unsigned char>(word.front())) != 0 && word.find(':') != std::string_view::npos;
    if (opened && (item || (name && first > 0))) return true;
    opened = name && word.back() == ':' && word.find_first_of(" {\"'") == std::string_view::npos;
  }
  return false;
}

using TreeFunction = internal::TextValue (*)(std::string_view, Diagnostics&, bool&);

void parse(std::string_view text, google::protobuf::Message& message, TreeFunction read_tree, bool json,
           size_t max_bytes, Diagnostics& diagnostics, Places& places) {
  message.Clear();
  bool structure_ok = check_bytes(text, max_bytes, diagnostics);
  if (structure_ok && !json && looks_like_yaml(text)) {
    diagnostics.error(
        {}, "this is YAML; files of Scalai are textproto, or JSON",
        "write `hosts { count: 2 }` for a mapping, and the name again for each item of a list; `scalai init` "
        "writes a scenario to begin with");
    structure_ok = false;
  } else if (structure_ok) {
    const internal::TextValue root = read_tree(text, diagnostics, structure_ok);
    internal::bind(root, message, {.json = json}, diagnostics, places);
  }
  if (!structure_ok) places.set_broken("");
}

}  // namespace

SourcePlace Places::value(const std::string& path) const {
  for (std::string at = path; !at.empty(); at = parent_of(at)) {
    if (const auto place = places_.find(at); place != places_.end()) return place->second;
  }
  return {};
}

std::string parent_of(const std::string& path) {
  const size_t end = path.find_last_of(".[");
  return end == std::string::npos ? "" : path.substr(0, end);
}

void Places::forget(const std::string& path) {
  places_.erase(path);
  // Between these two stand all texts that begin with the path and "." or "[".
  const auto erase = [&](const std::string& from, const std::string& to) {
    places_.erase(places_.lower_bound(from), places_.lower_bound(to));
  };
  erase(path + ".", path + "/");
  erase(path + "[", path + "\\");
}

bool Places::broken(const std::string& path) const {
  for (std::string at = path; !at.empty(); at = parent_of(at)) {
    if (broken_.count(at) != 0) return true;
  }
  return broken_.count("") != 0;
}

bool Places::broken_inside(const std::string& path) const {
  // Between these two stand all texts that begin with the path and "." or "[".
  const auto any = [&](const std::string& from, const std::string& to) {
    return broken_.lower_bound(from) != broken_.lower_bound(to);
  };
  return any(path + ".", path + "/") || any(path + "[", path + "\\");
}

void parse_textproto(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics,
                     Places& places, size_t max_bytes) {
  parse(text, message, internal::read_text_tree, false, max_bytes, diagnostics, places);
}

void parse_json(std::string_view text, google::protobuf::Message& message, Diagnostics& diagnostics, Places& places,
                size_t max_bytes) {
  parse(text, message, internal::read_json_tree, true, max_bytes, diagnostics, places);
}

std::string pointer_of(const std::string& path) {
  std::string pointer = "/";
  for (const char c : path) {
    if (c == '.' || c == '[')
      pointer += '/';
    else if (c != ']')
      pointer += c;
  }
  return pointer;
}

std::string print_textproto(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace scalai::proto
