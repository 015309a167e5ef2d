#include "ptc/state/collection/id_list.h"

#include <fmt/format.h>

#include <charconv>
#include <unordered_set>

#include "ptc/base/utf8.h"

namespace scalai::collection {
namespace {

constexpr int kMaxId = (1 << 24) - 1;
constexpr size_t kMaxIds = size_t{1} << 18;
constexpr const char* kExample = "write it like \"0-15,24\"";

class IdListParser {
 public:
  IdListParser(std::string_view text, std::vector<int>& ids) : text_(text), ids_(ids) {}

  std::optional<IdListProblem> parse() {
    if (text_.empty()) return problem(0, "the list is empty", kExample);
    while (true) {
      if (std::optional<IdListProblem> bad = parse_range()) return bad;
      if (at_ == text_.size()) return std::nullopt;
      if (text_[at_] != ',') return unexpected("\",\"");
      ++at_;
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
  }

 private:
  IdListProblem problem(size_t begin, std::string message, std::string hint = "") const {
    const auto columns = [&](size_t from, size_t to) {
      return static_cast<int>(columns_of(text_.substr(from, to - from)));
    };
    return {1 + columns(0, begin), std::max(1, columns(begin, at_)), std::move(message), std::move(hint)};
  }

  IdListProblem unexpected(const std::string& wanted) const {
    const std::string_view rest = text_.substr(at_);
    const std::string found = rest.empty() ? "the end" : fmt::format("\"{}\"", printable(characters(rest)[0]));
    return problem(at_, fmt::format("expected {}, found {}", wanted, found), kExample);
  }

  std::optional<IdListProblem> parse_number(int& number) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (begin == at_) return unexpected("a number");
    const bool fits = std::from_chars(text_.data() + begin, text_.data() + at_, number).ec == std::errc{};
    if (fits && number <= kMaxId) return std::nullopt;
    return problem(begin, fmt::format("{} is too large", clipped(text_.substr(begin, at_ - begin), 40)),
                   fmt::format("numbers go to {}", kMaxId));
  }

  std::optional<IdListProblem> parse_range() {
    const size_t begin = at_;
    int first = 0;
    if (auto bad = parse_number(first)) return bad;
    int last = first;
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      if (auto bad = parse_number(last)) return bad;
    }
    if (last < first) return problem(begin, "the range falls", "ranges rise; write single numbers for another order");
    if (ids_.size() + static_cast<size_t>(last - first) >= kMaxIds)
      return problem(begin, fmt::format("the list has more than {} numbers", kMaxIds));
    for (int id = first; id <= last; ++id) {
      if (!seen_.insert(id).second) return problem(begin, fmt::format("{} is in the list twice", id));
      ids_.push_back(id);
    }
    return std::nullopt;
  }

  std::string_view text_;
  std::vector<int>& ids_;
  size_t at_ = 0;
  std::unordered_set<int> seen_;
};

}  // namespace

std::optional<IdListProblem> parse_id_list(std::string_view text, std::vector<int>& ids) {
  ids.clear();
  return IdListParser(text, ids).parse();
}

std::string id_list_of(const std::vector<int>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    text += fmt::format("{}{}", i == 0 ? "" : ",", ids[i]);
    if (end - i > 1) text += fmt::format("-{}", ids[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace scalai::collection
