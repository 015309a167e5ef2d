#include "executor/controller/run_log.h"

#include "executor/journal/journal.h"
#include "ptc/base/status.h"
#include "ptc/run/control/event_text.h"

namespace scalai::executor::controller {

using journal::JobRecord;

namespace {

class JournalLog : public RunLog {
 public:
  explicit JournalLog(journal::Journal& journal) : journal_(journal) {}

  absl::Status event(const control::Event& event) override {
    return journal_.append_event(control::event_line(event)).status();
  }

  absl::Status execute(const control::Execute& execute) override {
    SCALAI_RETURN_IF_ERROR(abort(execute.job));  // the same, of an earlier controller
    return journal_.begin_transaction({execute.job, execute.epoch, execute.plan->digest()}).status();
  }

  absl::Status round(int job, int round) override {
    SCALAI_ASSIGN_OR_RETURN(const int last, last_round(job));
    if (last >= round) return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(const JobRecord record, journal_.job(job));
    return journal_.record_round({record.prepared->id, round, "boxes that the plan frees in earlier rounds"});
  }

  absl::StatusOr<int> last_round(int job) const override {
    SCALAI_ASSIGN_OR_RETURN(const JobRecord record, journal_.job(job));
    if (!record.prepared) return 0;
    SCALAI_ASSIGN_OR_RETURN(const std::vector<journal::Round> rounds, journal_.rounds_of(record.prepared->id));
    return rounds.empty() ? 0 : rounds.back().round;
  }

  absl::Status abort(int job) override {
    SCALAI_ASSIGN_OR_RETURN(const JobRecord record, journal_.job(job));
    return record.prepared ? journal_.abort(record.prepared->id) : absl::OkStatus();
  }

  absl::Status commit(const control::Commit& commit) override {
    SCALAI_ASSIGN_OR_RETURN(const JobRecord record, journal_.job(commit.job));
    if (record.committed && record.committed->epoch == commit.epoch) return absl::OkStatus();
    SCALAI_CHECK(record.prepared && record.prepared->epoch == commit.epoch);
    return journal_.commit(record.prepared->id);
  }

  absl::Status freed(int job) override {
    SCALAI_ASSIGN_OR_RETURN(const JobRecord record, journal_.job(job));
    const bool open = record.committed && record.committed->state == journal::TransactionState::kCommitted;
    return open ? journal_.freed(record.committed->id) : absl::OkStatus();
  }

 private:
  journal::Journal& journal_;
};

}  // namespace

std::unique_ptr<RunLog> log_to(journal::Journal& journal) { return std::make_unique<JournalLog>(journal); }

}  // namespace scalai::executor::controller
