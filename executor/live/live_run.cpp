#include "executor/live/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "executor/live/reading.h"
#include "executor/live/sharing.h"
#include "executor/rpc/process.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::live {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t random_number() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

class Step final : public LiveStep {
 public:
  Step(std::shared_ptr<Reading> reading, store::Stamp stamp, std::shared_ptr<const store::Checkpoint> whole)
      : reading_(std::move(reading)), stamp_(std::move(stamp)), checkpoint_(std::move(whole)) {}
  ~Step() override { reading_->end("nobody here keeps it"); }
  const store::Stamp& stamp() const override { return stamp_; }
  bool is_kept() const override { return !reading_->has_ended(); }
  const std::shared_ptr<const store::Checkpoint>& checkpoint() const override { return checkpoint_; }
  const proto::LiveState& state() const override { return reading_->live(); }
  int64_t version() const { return reading_->live().version(); }
  void end(const std::string& why) const { reading_->end(why); }

 private:
  const std::shared_ptr<Reading> reading_;
  const store::Stamp stamp_;
  const std::shared_ptr<const store::Checkpoint> checkpoint_;
};

}  // namespace

// Words to the controller go one at a time, so that what it knows of the steps that are kept is never older than its
// copies.
struct LiveRun::State {
  explicit State(LiveOptions given);

  absl::StatusOr<proto::LiveState> ask(const std::string& job, bool wants, int64_t after_step);
  absl::StatusOr<std::shared_ptr<const LiveStep>> take(proto::LiveState&& live);
  std::shared_ptr<const Step> known(int64_t version) const;
  void keep_word();

  const LiveOptions options;
  const uint64_t reader = random_number();
  const std::shared_ptr<ReadBytes> bytes = std::make_shared<ReadBytes>();
  std::shared_ptr<OtherReaders> others;  // null: nothing is shared
  std::mutex asking;                     // held during a call
  mutable std::mutex mutex;              // guards what follows
  std::condition_variable ending;
  bool over = false;
  std::map<std::string, std::vector<std::weak_ptr<const Step>>> steps;  // by job
  std::thread thread;
};

LiveRun::State::State(LiveOptions given) : options(std::move(given)) {
  if (options.transport == nullptr || options.served == nullptr) return;
  others =
      std::make_shared<OtherReaders>(OtherReaders::Options{.reader = reader,
                                                           .ask = options.ask ? options.ask : line_to(options.target),
                                                           .transport = options.transport,
                                                           .patience_s = options.wait_s});
}

std::shared_ptr<const Step> LiveRun::State::known(int64_t version) const {
  const std::lock_guard lock(mutex);
  for (const auto& [job, of_job] : steps) {
    for (const auto& one : of_job) {
      if (const auto step = one.lock(); step && step->version() == version && step->is_kept()) return step;
    }
  }
  return nullptr;
}

absl::StatusOr<proto::LiveState> LiveRun::State::ask(const std::string& job, bool wants, int64_t after_step) {
  proto::CtlRequest request;
  proto::CtlLive& asked = *request.mutable_live();
  asked.set_job(job);
  asked.set_reader(reader);
  asked.set_wants(wants);
  asked.set_optimizer(options.optimizer);
  asked.set_fleeting(options.fleeting);
  asked.set_after_step(after_step);
  asked.set_digest_bytes(options.digest_bytes);
  asked.set_stats(options.stats);
  if (wants) asked.set_version(options.version);
  asked.set_host_name(rpc::machine_name());
  if (others != nullptr) asked.set_transport_address(options.transport->address());
  std::vector<std::shared_ptr<const Step>> held;
  {
    const std::lock_guard lock(mutex);
    for (auto& [name, of_job] : steps) {
      std::erase_if(of_job, [](const auto& one) { return one.expired(); });
      for (const auto& one : of_job) {
        if (auto step = one.lock(); step != nullptr) held.push_back(std::move(step));
      }
    }
  }
  for (const auto& step : held) asked.add_keeps(step->version());
  SCALAI_ASSIGN_OR_RETURN(const std::string text,
                          options.ask ? options.ask(request) : rpc::ask_controller(options.target, request));
  proto::LiveState live;
  if (!live.ParseFromString(text)) return failed("the controller's answer is no state of a job");
  for (const int64_t gone : live.gone()) {
    for (const auto& step : held) {
      if (step->version() == gone) step->end("the controller has not heard of this reader for too long, or is another");
    }
  }
  return live;
}

absl::StatusOr<std::shared_ptr<const LiveStep>> LiveRun::State::take(proto::LiveState&& live) {
  if (std::shared_ptr<const Step> step = known(live.version())) return std::shared_ptr<const LiveStep>(std::move(step));
  const std::string place = fmt::format("{}: job {}, step {}", options.place, live.name(), live.step());
  const store::Stamp stamp{live.name(), live.step()};
  const std::string model = live.model(), id = fmt::format("live-{:x}", live.version());
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<Reading> reading,
                          Reading::open(std::move(live), {.place = options.place,
                                                          .reader = reader,
                                                          .kept_bytes = options.kept_bytes,
                                                          .transport = options.transport,
                                                          .served = options.served,
                                                          .others = others,
                                                          .bytes = bytes}));
  SCALAI_ASSIGN_OR_RETURN(auto whole,
                          store::Checkpoint::of_held({.place = place,
                                                      .collection = reading->collection(),
                                                      .tensors = reading->tensors(),
                                                      .stamp = stamp,
                                                      .model = model,
                                                      .id = id,
                                                      .read = [reading](TensorId tensor, const tensor::Box& owned,
                                                                        int64_t offset, std::span<std::byte> dst) {
                                                        return reading->read(tensor, owned, offset, dst);
                                                      }}));
  const auto step = std::make_shared<const Step>(reading, stamp, std::move(whole));
  const std::lock_guard lock(mutex);
  steps[stamp.job].push_back(step);
  return std::shared_ptr<const LiveStep>(step);
}

void LiveRun::State::keep_word() {
  std::unique_lock lock(mutex);
  bool kept = false;  // at the last word
  while (!ending.wait_for(lock, std::chrono::duration<double>(options.word_s), [&] { return over; })) {
    std::string job;  // any will do: a word is of all steps
    bool any = false;
    for (const auto& [name, of_job] : steps) {
      job = name;
      any = any || std::any_of(of_job.begin(), of_job.end(), [](const auto& one) { return !one.expired(); });
    }
    if (!std::exchange(kept, any) && !any) continue;  // else a last one, that nothing is kept
    lock.unlock();
    {
      const std::lock_guard alone(asking);
      (void)ask(job, false, -1);  // a controller that is gone is told by reads
    }
    lock.lock();
  }
}

LiveRun::LiveRun(LiveOptions options) : state_(std::make_shared<State>(std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->keep_word(); });
}

LiveRun::~LiveRun() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->ending.notify_all();
  state_->thread.join();
  const std::lock_guard alone(state_->asking);
  for (const auto& [job, of_job] : state_->steps) {
    for (const auto& one : of_job) {
      if (const auto step = one.lock()) step->end("its LiveRun is gone");
    }
  }
  if (state_->steps.empty()) return;
  const std::string job = state_->steps.begin()->first;
  state_->steps.clear();
  (void)state_->ask(job, false, -1);  // which keeps nothing from now on
}

LiveBytes LiveRun::bytes() const {
  return {.from_memory = state_->bytes->from_memory,
          .from_workers = state_->bytes->from_workers,
          .from_readers = state_->others == nullptr ? 0 : state_->others->bytes_read(),
          .to_readers = state_->options.served == nullptr ? 0 : state_->options.served->bytes_given(),
          .questions = state_->others == nullptr ? 0 : state_->others->questions()};
}

absl::StatusOr<std::shared_ptr<const LiveStep>> LiveRun::newest(const std::string& job, int64_t after_step) {
  const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(state_->options.patience_s));
  const std::lock_guard alone(state_->asking);
  for (;;) {
    SCALAI_ASSIGN_OR_RETURN(proto::LiveState live, state_->ask(job, true, after_step));
    if (live.ready()) {
      const int64_t wanted = state_->options.version;
      const bool other = wanted != 0 ? live.version() != wanted : live.step() <= after_step;
      if (other || (!job.empty() && live.name() != job))
        return invalid(fmt::format("{}: the controller answers with step {} of job {}, which was not asked for",
                                   state_->options.place, live.step(), live.name()));
      return state_->take(std::move(live));
    }
    if (Clock::now() >= until)
      return absl::DeadlineExceededError(
          fmt::format("{}: the job was at no step{} for {} s: it changes, waits for GPUs, or its steps take longer",
                      state_->options.place, after_step < 0 ? "" : fmt::format(" after {}", after_step),
                      state_->options.patience_s));
  }
}

}  // namespace scalai::executor::live
