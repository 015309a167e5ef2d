// The controller's journal: made, written, closed, opened after a kill, replaced by that of another run.

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "executor/journal/journal.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "tests/crash/subject.h"

namespace scalai::crash {
namespace {

using namespace executor::journal;

constexpr int kVariants = 6, kLong = 3;  // a long run, whose log is written back
constexpr int64_t kLongStates = 1500;    // of 8 MB each

struct Call {
  enum class What : uint8_t {
    kCreate,
    kReplace,
    kOpen,
    kClose,
    kKill,
    kEvent,
    kBegin,
    kRound,
    kCommit,
    kAbort,
    kFreed
  };
  What what = What::kEvent;
  int64_t id = 0;  // of a transaction; number of the run
  int64_t bytes = 0;
  int round = 0;
};
using What = Call::What;

// What a journal holds.
struct Contents {
  RunFacts facts;
  int64_t epoch = 0;
  std::vector<std::string> events;
  std::vector<Transaction> transactions;
  std::vector<std::vector<Round>> rounds;
  friend bool operator==(const Contents&, const Contents&) = default;
};

std::string text_of(int64_t bytes, int64_t salt) {
  std::string text;
  while (std::ssize(text) < bytes) text += fmt::format("{},", salt * 1'000'003 + std::ssize(text));
  text.resize(static_cast<size_t>(bytes));
  return text;
}

RunFacts facts_of(int64_t run) {
  return {text_of(700 + 3000 * (run % 2), run), fmt::format("digest {}", run), "reshard", fmt::format("run {}", run)};
}

// The journal after each call, without SQLite. nullopt: there is none.
void act(const Call& call, std::optional<Contents>& contents) {
  if (call.what == What::kCreate || call.what == What::kReplace) contents = Contents{facts_of(call.id), 1, {}, {}, {}};
  SCALAI_CHECK(contents.has_value());
  const auto of_id = [&]() -> Transaction& { return contents->transactions.at(static_cast<size_t>(call.id - 1)); };
  switch (call.what) {
    case What::kOpen: ++contents->epoch; break;
    case What::kEvent: contents->events.push_back(text_of(call.bytes, call.id)); break;
    case What::kBegin:
      contents->transactions.push_back({call.id, 0, call.id, "plan", TransactionState::kPrepared});
      contents->rounds.emplace_back();
      break;
    case What::kRound:
      contents->rounds.at(static_cast<size_t>(call.id - 1)).push_back({call.id, call.round, text_of(call.bytes, 7)});
      break;
    case What::kCommit: of_id().state = TransactionState::kCommitted; break;
    case What::kAbort: of_id().state = TransactionState::kAborted; break;
    case What::kFreed: of_id().state = TransactionState::kFreed; break;
    default: break;
  }
}

absl::Status run_call(const Call& call, const std::string& path, std::optional<Journal>& journal) {
  const auto keep = [&](absl::StatusOr<Journal> made) -> absl::Status {
    if (!made.ok()) return made.status();
    journal.emplace(*std::move(made));
    return absl::OkStatus();
  };
  switch (call.what) {
    case What::kCreate: return keep(Journal::create(path, facts_of(call.id)));
    case What::kReplace: {
      SCALAI_ASSIGN_OR_RETURN(JournalLock lock, JournalLock::take(path));
      return keep(Journal::replace(std::move(lock), facts_of(call.id)));
    }
    case What::kOpen: return keep(Journal::open(path));
    case What::kClose: journal.reset(); return absl::OkStatus();
    case What::kKill: return absl::OkStatus();
    case What::kEvent: return journal->append_event(text_of(call.bytes, call.id)).status();
    case What::kBegin: return journal->begin_transaction({0, call.id, "plan"}).status();
    case What::kRound: return journal->record_round({call.id, call.round, text_of(call.bytes, 7)});
    case What::kCommit: return journal->commit(call.id);
    case What::kAbort: return journal->abort(call.id);
    case What::kFreed: return journal->freed(call.id);
  }
  return absl::OkStatus();
}

class JournalSubject : public Subject {
 public:
  explicit JournalSubject(const SubjectOptions& options) : long_(options.variant % kVariants == kLong) {
    Random random(options.seed * 1000 + static_cast<uint64_t>(options.variant));
    calls_.push_back({What::kCreate, 1});
    if (long_) {
      calls_.push_back({What::kBegin, 1});
      for (int round = 1; round <= 62; ++round) calls_.push_back({What::kRound, 1, 66'000, round});
      for (int i = 0; i < 12; ++i) calls_.push_back({What::kEvent, i, 100});
      calls_.push_back({What::kClose});
    } else {
      for (int session = 0; session < 4; ++session) add_session(session, random);
    }
    std::optional<Contents> contents;
    after_.push_back(contents);
    for (const Call& call : calls_) {
      act(call, contents);
      after_.push_back(contents);
    }
  }
  std::string name() const override { return "journal"; }
  int64_t enough() const override { return long_ ? kLongStates : Subject::enough(); }

  absl::Status play(const std::string& root) override {
    for (size_t at = 0; at < calls_.size();) {
      size_t end = at;
      while (end < calls_.size() && calls_[end].what != What::kKill) ++end;
      SCALAI_RETURN_IF_ERROR(in_process([&] { return run_calls(at, end, root + "/journal.db"); }));
      if (end < calls_.size()) {
        mark("begin");
        mark("end");
      }
      at = end + 1;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) override {
    const Progress progress = progress_of(marks);
    const std::optional<Contents>& before = after_.at(static_cast<size_t>(progress.ended));
    const std::optional<Contents>& after = after_.at(static_cast<size_t>(progress.begun));
    const bool replacing =
        progress.begun > progress.ended && calls_.at(static_cast<size_t>(progress.ended)).what == What::kReplace;
    const std::string path = root + "/journal.db";
    absl::StatusOr<Journal> journal = Journal::open(path);
    if (absl::IsNotFound(journal.status())) {
      if (before && !replacing) return failed("the journal is gone: " + message_of(journal.status()));
      // It can be made: as the controller does.
      SCALAI_RETURN_IF_ERROR(Journal::create(path, facts_of(9)).status());
      SCALAI_ASSIGN_OR_RETURN(const Journal made, Journal::open(path));
      if (made.run() != facts_of(9)) return failed("a journal made anew has other facts");
      return Found::kOld;
    }
    SCALAI_RETURN_IF_ERROR(journal.status());
    SCALAI_ASSIGN_OR_RETURN(Contents found, read(*journal));
    --found.epoch;  // this opening
    const bool is_new = after && found == *after;
    if (!is_new && !(before && found == *before))
      return failed(
          fmt::format("{} events, {} transactions, epoch {}, of \"{}\": neither the journal after {} calls "
                      "nor after {}",
                      found.events.size(), found.transactions.size(), found.epoch, found.facts.run_id, progress.ended,
                      progress.begun));
    SCALAI_RETURN_IF_ERROR(journal->append_event("goes on").status());
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> events, journal->events());
    if (events.size() != found.events.size() + 1) return failed("the journal cannot be continued");
    return is_new ? Found::kNew : Found::kOld;
  }

 private:
  void add_session(int session, Random& random) {
    if (session == 2) {
      calls_.push_back({What::kReplace, 2});
      transactions_ = 0;
    } else if (session > 0) {
      calls_.push_back({What::kOpen});
    }
    for (int64_t i = 0, count = random.between(2, 4); i < count; ++i) {
      calls_.push_back({What::kEvent, random.below(1000), random.between(1, 300)});
      calls_.push_back({What::kBegin, ++transactions_});
      for (int round = 1; round <= random.below(3); ++round)
        calls_.push_back({What::kRound, transactions_, random.below(3) == 0 ? random.between(4000, 9000) : 50, round});
      const bool aborts = random.below(3) == 0;
      calls_.push_back({aborts ? What::kAbort : What::kCommit, transactions_});
      if (!aborts) calls_.push_back({What::kFreed, transactions_});
    }
    calls_.push_back({random.below(2) == 0 ? What::kClose : What::kKill});
    if (calls_.back().what == What::kClose) calls_.push_back({What::kKill});
  }

  absl::Status run_calls(size_t at, size_t end, const std::string& path) const {
    std::optional<Journal> journal;
    for (; at < end; ++at) {
      if (long_ && calls_[at].what == What::kEvent && calls_[at].id == 0) mark(std::string(kWatchMark));
      mark("begin");
      SCALAI_RETURN_IF_ERROR(run_call(calls_[at], path, journal));
      mark("end");
    }
    ::_exit(0);  // as killed: nothing is closed
  }

  static absl::StatusOr<Contents> read(const Journal& journal) {
    Contents contents{journal.run(), journal.controller_epoch(), {}, {}, {}};
    SCALAI_ASSIGN_OR_RETURN(contents.events, journal.events());
    SCALAI_ASSIGN_OR_RETURN(contents.transactions, journal.transactions());
    for (const Transaction& transaction : contents.transactions) {
      SCALAI_ASSIGN_OR_RETURN(contents.rounds.emplace_back(), journal.rounds_of(transaction.id));
    }
    return contents;
  }

  const bool long_;
  int64_t transactions_ = 0;
  std::vector<Call> calls_;
  std::vector<std::optional<Contents>> after_;  // so many calls
};

}  // namespace

std::unique_ptr<Subject> journal_subject(const SubjectOptions& options) {
  return std::make_unique<JournalSubject>(options);
}

}  // namespace scalai::crash
