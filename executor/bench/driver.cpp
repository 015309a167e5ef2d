#include "executor/bench/driver.h"

#include <algorithm>
#include <chrono>

#include "executor/state/state_version.h"
#include "ptc/base/status.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::bench {

using state::StateVersion;

namespace {

using proto::CommandBody;
using proto::ReplyBody;

constexpr int kJob = 0;
constexpr int64_t kStep = 1000;
constexpr const char* kName = "bench";

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

class CaseRun {
 public:
  CaseRun(controller::WorkerPool& pool, const Case& one, const plan::Plan& plan)
      : pool_(pool), case_(one), plan_(plan) {}

  absl::Status create() {
    CommandBody body;
    CommandBody::Create& create = *body.mutable_create();
    create.set_job(kJob);
    create.set_name(kName);
    create.set_version(StateVersion::epoch(case_.from.epoch).wire());
    create.set_step(kStep);
    create.set_collection(collection::collection_text(case_.from, {}));
    return pool_.call("create", pool_.living_hosts_of(case_.from.device_of_rank), body).status();
  }

  absl::Status prepare() {
    CommandBody body;
    CommandBody::Prepare& prepare = *body.mutable_prepare();
    prepare.set_job(kJob);
    prepare.set_name(kName);
    prepare.set_to_version(StateVersion::epoch(case_.to.epoch).wire());
    prepare.set_device_version(StateVersion::epoch(case_.from.epoch).wire());
    prepare.set_step(kStep);
    prepare.set_plan(plan::serialize(plan_));
    prepare.set_to_collection(collection::collection_text(case_.to, {}));
    std::vector<DeviceId> devices = plan_.dst_devices();
    devices.insert(devices.end(), plan_.src_devices().begin(), plan_.src_devices().end());
    return pool_.call("prepare", pool_.living_hosts_of(devices), body).status();
  }

  absl::Status transfer() {
    for (int round = 0; round < plan_.rounds(); ++round) {
      for (int hop = 0; hop <= std::max(0, plan::last_hop(plan_, round)); ++hop) {
        CommandBody body;
        body.mutable_round()->set_job(kJob);
        body.mutable_round()->set_to_version(StateVersion::epoch(case_.to.epoch).wire());
        body.mutable_round()->set_round(round);
        body.mutable_round()->set_hop(hop);
        SCALAI_RETURN_IF_ERROR(pool_.call("round", pool_.living_hosts_of(plan_.dst_devices()), body).status());
      }
    }
    return absl::OkStatus();
  }

  absl::Status verify(Runs& runs) {
    CommandBody body;
    CommandBody::Verify& verify = *body.mutable_verify();
    verify.set_job(kJob);
    verify.set_version(StateVersion::epoch(case_.to.epoch).wire());
    verify.set_step(kStep);
    verify.set_mode(proto::VERIFY_FULL);
    SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                            pool_.call("verify", pool_.living_hosts_of(plan_.dst_devices()), body));
    for (const ReplyBody& reply : replies) {
      runs.errors += reply.mismatch_count();
      if (runs.first_error.empty() && reply.mismatches_size() > 0) runs.first_error = reply.mismatches(0);
    }
    return absl::OkStatus();
  }

  absl::Status commit() {
    CommandBody body;
    body.mutable_commit()->set_job(kJob);
    body.mutable_commit()->set_version(StateVersion::epoch(case_.to.epoch).wire());
    return pool_.tell("commit", pool_.living(), body);
  }

  // One time; `counts`: it is not the first one, in which mappings are new.
  absl::Status once(Runs& runs, bool counts) {
    auto began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(prepare());
    const double prepare_s = seconds_since(began);
    began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(transfer());
    const double transfer_s = seconds_since(began);
    began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(verify(runs));
    if (!counts) {
      runs.first_s = transfer_s;
      return absl::OkStatus();
    }
    runs.verify_s.push_back(seconds_since(began));
    runs.transfer_s.push_back(transfer_s);
    runs.prepare_s.push_back(prepare_s);
    return absl::OkStatus();
  }

  absl::Status forget(StateVersion version) {
    CommandBody body;
    body.mutable_forget()->set_job(kJob);
    body.mutable_forget()->set_version(version.wire());
    return pool_.tell("forget", pool_.living(), body);
  }

 private:
  controller::WorkerPool& pool_;
  const Case& case_;
  const plan::Plan& plan_;
};

}  // namespace

absl::StatusOr<Runs> run_case(controller::WorkerPool& pool, const Case& one, const plan::Plan& plan, int repetitions) {
  SCALAI_CHECK(repetitions >= 1);
  Runs runs;
  CaseRun run(pool, one, plan);
  SCALAI_RETURN_IF_ERROR(run.create());
  for (int i = 0; i <= repetitions; ++i) {
    SCALAI_RETURN_IF_ERROR(run.once(runs, i > 0));
    SCALAI_RETURN_IF_ERROR(run.forget(StateVersion::epoch(one.to.epoch)));
  }
  SCALAI_RETURN_IF_ERROR(run.forget(StateVersion::epoch(one.from.epoch)));
  return runs;
}

absl::StatusOr<std::pair<Runs, Runs>> run_there_and_back(controller::WorkerPool& pool, const Case& there,
                                                         const plan::Plan& plan_there, const Case& back,
                                                         const plan::Plan& plan_back, int repetitions) {
  SCALAI_CHECK(repetitions >= 1 && there.to.epoch == back.from.epoch && back.to.epoch == there.from.epoch);
  std::pair<Runs, Runs> runs;
  CaseRun out(pool, there, plan_there), home(pool, back, plan_back);
  SCALAI_RETURN_IF_ERROR(out.create());
  for (int i = 0; i <= repetitions; ++i) {
    SCALAI_RETURN_IF_ERROR(out.once(runs.first, i > 0));
    SCALAI_RETURN_IF_ERROR(out.commit());
    SCALAI_RETURN_IF_ERROR(home.once(runs.second, i > 0));
    SCALAI_RETURN_IF_ERROR(home.commit());
  }
  SCALAI_RETURN_IF_ERROR(home.forget(StateVersion::epoch(back.to.epoch)));
  return runs;
}

}  // namespace scalai::executor::bench
