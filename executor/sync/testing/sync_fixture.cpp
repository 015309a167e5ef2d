#include "executor/sync/testing/sync_fixture.h"

#include <atomic>
#include <thread>

#include "executor/controller/shown_state.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::sync {

using state::StateVersion;

using proto::CommandBody;

Shown::Shown(proto::LiveState state, Collection side) : state_(std::make_unique<proto::LiveState>(std::move(state))) {
  stamp_ = {state_->name(), state_->step()};
  checkpoint_ = store::Checkpoint::of_held({.place = "the run",
                                            .collection = std::move(side),
                                            .tensors = {},
                                            .stamp = stamp_,
                                            .id = "1",
                                            .read = [](TensorId, const tensor::Box&, int64_t,
                                                       std::span<std::byte>) { return absl::OkStatus(); }})
                    .value();
}

Shown::~Shown() = default;

void SyncTest::begin(Collection from, Collection to, Setup setup) {
  setup_ = setup;
  from_ = std::move(from);
  std::vector<int> gpus(static_cast<size_t>(setup.receivers), to.ranks() / setup.receivers);
  proto::LiveState shape;
  for (int host = 0; host < kHosts; ++host) shape.add_gpus_of_host(kGpus);
  cluster_ = joint_cluster(shape, gpus);
  training_cluster_ = joint_cluster(shape, {});
  trainers_.emplace(Fleet::Options{.hosts = kHosts, .network = setup.network});
  training_.emplace(training_cluster_, trainers_->controller(), trainers_->pool_options());
  ASSERT_TRUE(training_->start().ok());
  receivers_.emplace(Fleet::Options{.hosts = kHosts + setup.receivers,
                                    .first_host = kHosts,
                                    .deaths = std::move(setup.deaths),
                                    .network = setup.network,
                                    .backend = setup.backend,
                                    .loopback = &trainers_->loopback()});
  pool_.emplace(cluster_, receivers_->controller(), receivers_->pool_options());
  ASSERT_TRUE(pool_->start().ok());
  SyncTarget target;
  target.layout.collection = std::move(to);
  target.gpus_of_host = std::move(gpus);
  target.transforms = setup.transforms;
  target.dtype = setup.dtype;
  target.folder = folder_;
  sync_.emplace(cluster_, receivers_->controller(), *pool_,
                Sync::Options{.place = "the run", .target = std::move(target), .first_host = kHosts});
  CommandBody body;
  CommandBody::Create& create = *body.mutable_create();
  create.set_job(kTrained);
  create.set_name("a");
  create.set_version(StateVersion::epoch(from_.epoch).wire());
  create.set_step(1);
  create.set_collection(collection::collection_text(from_, {}));
  ASSERT_TRUE(training_->call("create", training_->living(), body).ok());
}

void SyncTest::train(int64_t step, const std::set<HostId>& hosts) {
  CommandBody body;
  body.mutable_advance()->set_job(kTrained);
  body.mutable_advance()->set_version(StateVersion::epoch(from_.epoch).wire());
  body.mutable_advance()->set_step(step);
  ASSERT_TRUE(training_->call("advance", hosts, body).ok());
  step_ = step;
}

Shown SyncTest::shown() {
  const controller::ShownState what{.job = kTrained,
                                    .name = "a",
                                    .step = step_,
                                    .gpus_of_host = std::vector<int>(kHosts, kGpus),
                                    .collection = &from_};
  return Shown(controller::show_state(*training_, training_->living(), what, StateVersion::live(next_++),
                                      {.digest_bytes = setup_.digest_bytes})
                   .value(),
               from_);
}

void SyncTest::end() {
  sync_.reset();
  pool_.reset();
  receivers_.reset();
  training_.reset();
  trainers_.reset();
  step_ = 1;
  next_ = 0;
}

proto::LiveState SyncTest::ask(bool wants, std::vector<int64_t> keeps) {
  std::atomic<bool> done = false;
  absl::StatusOr<std::string> text = "";
  std::thread reader([&] {
    proto::CtlRequest request;
    proto::CtlLive& live = *request.mutable_live();
    live.set_reader(7);
    *live.mutable_keeps() = {keeps.begin(), keeps.end()};
    live.set_wants(wants);
    text = sync_->answer(request);
    done = true;
  });
  while (!done) sync_->rest(0.01);
  reader.join();
  proto::LiveState state;
  SCALAI_CHECK(text.ok() && state.ParseFromString(*text));
  return state;
}

std::unique_ptr<worker::Places> SyncTest::reader_places() {
  static const std::unique_ptr<device::Backend> kBackend = device::make_host_backend();
  std::vector<int> gpus;
  for (const cluster::Host& host : cluster_.hosts) gpus.push_back(host.gpus);
  gpus.push_back(0);
  auto places = std::make_unique<worker::Places>(worker::Places::Options{
      .host = HostId(std::ssize(gpus) - 1), .segments = {.capacity = 1 << 20}, .backend = kBackend.get()});
  SCALAI_CHECK(places->setup(gpus).ok());
  std::vector<proto::Peer> workers;
  for (const HostId host : pool_->living()) workers.push_back(pool_->peer_of(host));
  SCALAI_CHECK(places->peers(workers, false).ok());
  return places;
}

std::string SyncTest::wrong(int64_t step, int64_t epoch) {
  std::string text;
  for (const HostId host : pool_->living()) text += wrong_on(host, step, epoch);
  return text;
}

std::string SyncTest::wrong_on(HostId host, int64_t step, int64_t epoch) {
  CommandBody body;
  body.mutable_verify()->set_job(0);
  body.mutable_verify()->set_version(StateVersion::epoch(epoch).wire());
  body.mutable_verify()->set_step(step);
  const auto replies = pool_->call("verify", {host}, body);
  if (!replies.ok()) return std::string(replies.status().message());
  int64_t bytes = 0;
  std::string text;
  for (const proto::ReplyBody& reply : *replies) {
    bytes += reply.bytes();
    for (const std::string& line : reply.mismatches()) text += line + "\n";
  }
  if (bytes == 0) text += "nothing was looked at\n";
  return text;
}

std::map<int32_t, uint64_t> SyncTest::sums(controller::WorkerPool& pool, int32_t job, int64_t epoch) {
  CommandBody body;
  body.mutable_digest()->set_job(job);
  body.mutable_digest()->set_version(StateVersion::epoch(epoch).wire());
  std::map<std::pair<int32_t, std::string>, uint64_t> boxes;
  const std::vector<proto::ReplyBody> replies = pool.call("digest", pool.living(), body).value();
  for (const proto::ReplyBody& reply : replies) {
    for (const proto::PieceSum& one : reply.sums())
      boxes[{one.box().tensor(), worker::box_of(one.box())->str()}] = one.sum();
  }
  std::map<int32_t, uint64_t> all;
  for (const auto& [box, sum] : boxes) all[box.first] += sum;
  return all;
}

}  // namespace scalai::executor::sync
