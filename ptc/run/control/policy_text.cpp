#include "ptc/run/control/internal/policy_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai::control {
namespace {

std::string text_of(const policy::Grant& grant) {
  std::string text = fmt::format("{}={}@{}", grant.job.value, grant.gpus, grant.type.value);
  for (size_t i = 0; i < grant.hosts.size(); ++i)
    text += fmt::format("{}h{}*{}", i == 0 ? ":" : "+", grant.hosts[i].host.value, grant.hosts[i].gpus);
  if (grant.beside.valid()) text += fmt::format("&{}", grant.beside.value);
  return text;
}

// Reads a word from its beginning; any step that fails makes it false for good.
class Word {
 public:
  explicit Word(std::string_view rest) : rest_(rest) {}

  bool skip(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }
  template <class Number>
  Number number() {
    Number value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    good_ = good_ && error == std::errc{};
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  void need(std::string_view mark) { good_ = skip(mark) && good_; }
  bool good() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

policy::Grant grant_in(Word& word) {
  policy::Grant grant;
  grant.job = policy::JobId(word.number<int32_t>());
  word.need("=");
  grant.gpus = word.number<int32_t>();
  word.need("@");
  grant.type = policy::GpuType(word.number<int32_t>());
  if (word.skip(":")) {
    do {
      word.need("h");
      const HostId host(word.number<int32_t>());
      word.need("*");
      grant.hosts.push_back({.host = host, .gpus = word.number<int32_t>()});
    } while (word.skip("+"));
  }
  if (word.skip("&")) grant.beside = policy::JobId(word.number<int32_t>());
  return grant;
}

}  // namespace

std::string decision_text(const policy::Decision& decision) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const policy::Grant& grant : decision.grants) add(text_of(grant));
  for (const policy::JobId job : decision.refused) add(fmt::format("!{}", job.value));
  if (decision.wake_at_s != policy::kNever) add("wake=" + shortest(decision.wake_at_s));
  return text;
}

absl::StatusOr<policy::Decision> parse_decision(const std::string& text) {
  policy::Decision decision;
  std::istringstream words(text);
  for (std::string one; words >> one;) {
    Word word(one);
    if (word.skip("wake=")) {
      decision.wake_at_s = word.number<double>();
    } else if (word.skip("!")) {
      decision.refused.emplace_back(word.number<int32_t>());
    } else {
      decision.grants.push_back(grant_in(word));
    }
    if (!word.good() || std::isnan(decision.wake_at_s))
      return invalid(fmt::format("\"{}\" is no part of a decision", clipped(one, 40)));
  }
  return decision;
}

// Decisions of a program stand behind the event that they answer.
absl::Status RecordedPolicy::learn(const std::vector<Event>& events, const std::string& file) {
  for (size_t i = 0; i < events.size(); ++i) {
    const auto* decided = std::get_if<PolicyDecided>(&events[i].body);
    if (decided == nullptr) continue;
    absl::StatusOr<policy::Decision> decision = parse_decision(decided->decision);
    if (!decision.ok()) return invalid(fmt::format("{}: event {}: {}", file, i + 1, message_of(decision.status())));
    answers_.push_back(*std::move(decision));
  }
  return absl::OkStatus();
}

absl::StatusOr<policy::Decision> RecordedPolicy::decide(const policy::View& view,
                                                        std::span<const policy::Event> events) {
  if (answers_.empty() && program_ != nullptr) {
    SCALAI_ASSIGN_OR_RETURN(policy::Decision answer, program_->decide(view, events));
    if (record_) SCALAI_RETURN_IF_ERROR(record_({view.now_s(), PolicyDecided{decision_text(answer)}}));
    return answer;
  }
  if (answers_.empty())
    return invalid(fmt::format("the log has no decision of the policy at {} s", shortest(view.now_s())));
  policy::Decision next = std::move(answers_.front());
  answers_.pop_front();
  return next;
}

}  // namespace scalai::control
