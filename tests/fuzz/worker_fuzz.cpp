// Any bytes or changed commands as commands to a worker of one host with two devices, or as a request for what it
// holds: it may refuse them but must not crash, hang or hand out what it does not hold. The first byte chooses: 'c'
// commands as text, with lines "--" between them, 'C' one command; 'f' a request as text, 'F' its bytes. In texts the
// collections "a" and "b" and the plan "p" stand for real ones.

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/worker/worker.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using google::protobuf::TextFormat;
using proto::CommandBody;

const std::string kTwoDevices =
    "schema_version: 1 meshes { axes { name: \"tp\" size: 2 } } devices: \"0-1\" "
    "tensors { name: \"w\" dtype: \"F32\" shape: [8, 4] cuts { axis: \"tp\" dim: 0 } }";
const std::string kOneDevice =
    "schema_version: 1 epoch: 1 meshes { axes { name: \"tp\" size: 1 } } devices: \"1\" "
    "tensors { name: \"w\" dtype: \"F32\" shape: [8, 4] }";

const std::string& plan_bytes() {
  static const std::string bytes = [] {
    const auto from = collection::parse_collection(kTwoDevices, "a").value().collection;
    const auto to = collection::parse_collection(kOneDevice, "b").value().collection;
    cluster::Cluster cluster;
    cluster.hosts.resize(1);
    cluster.hosts[0].gpus = 2;
    return plan::serialize(plan::make_plan({.from = from, .to = to, .cluster = cluster, .residency = {}}).value());
  }();
  return bytes;
}

// Names to what they stand for.
void fill_in(CommandBody& body) {
  const auto collection = [](std::string& text) { text = text == "a" ? kTwoDevices : text == "b" ? kOneDevice : text; };
  if (body.has_create()) collection(*body.mutable_create()->mutable_collection());
  if (!body.has_prepare()) return;
  collection(*body.mutable_prepare()->mutable_to_collection());
  if (body.prepare().has_foreign()) collection(*body.mutable_prepare()->mutable_foreign()->mutable_collection());
  if (body.prepare().plan() == "p") body.mutable_prepare()->set_plan(plan_bytes());
}

std::unique_ptr<executor::worker::Worker> make_worker() {
  return std::make_unique<executor::worker::Worker>(executor::worker::Worker::Options{
      .host = HostId(0), .segments = {.capacity = int64_t{1} << 26, .limit = int64_t{1} << 20, .leave_free = 0}});
}

void command(executor::worker::Worker& worker, const CommandBody& body) {
  const executor::rpc::Reply reply = worker.handle({.what = "fuzz", .body = body.SerializeAsString()});
  SCALAI_CHECK(reply.status.ok() || !message_of(reply.status).empty());
}

void command_text(executor::worker::Worker& worker, const std::string& text) {
  CommandBody body;
  if (!TextFormat::ParseFromString(text, &body)) return;
  fill_in(body);
  command(worker, body);
}

void command_texts(executor::worker::Worker& worker, const std::string& texts) {
  constexpr size_t kMost = 20;
  size_t begin = 0;
  for (size_t i = 0; i < kMost && begin <= texts.size(); ++i) {
    const size_t end = std::min(texts.find("\n--\n", begin), texts.size());
    command_text(worker, texts.substr(begin, end - begin));
    begin = end + 4;
  }
}

void request(const executor::worker::Worker& worker, const std::string& bytes) {
  const auto payload = worker.places().answer(bytes);
  SCALAI_CHECK(payload.ok() || !message_of(payload.status()).empty());
}

// One that holds epoch 0 of job 0.
const executor::worker::Worker& holder() {
  static const auto* const made = [] {
    executor::worker::Worker* worker = make_worker().release();
    command_text(*worker, "setup { gpus_of_host: 2 threads: 1 }");
    command_text(*worker, "create { name: \"job\" collection: \"a\" step: 3 }");
    request(*worker, "");
    return worker;
  }();
  return *made;
}

// A job that is made, shown to readers, moved to other devices, receives another run's step, and goes.
constexpr std::array<const char*, 14> kCommands = {
    R"(create { name: "job" collection: "a" step: 3 })",
    R"(peers { peers { host: 0 places { place: "g0" pid: 1 fd: -1 } transport_address: "x" host_name: "y" } })",
    R"(copy { to_version: 1152921504606846976 own_devices: true in_place: true digest_bytes: 4096 tensors: 0 })",
    R"(copy { own_devices: true stats: true })",
    R"(copy { to_version: 1099511627777 own_devices: true
              from { place: "g1" boxes { lo: 4 lo: 0 hi: 8 hi: 4 dtype: 1 } } })",
    R"(prepare { name: "job" to_version: 1 step: 4 plan: "p" to_collection: "b" host_version: -2 })",
    R"(prepare { job: 1 name: "job" to_version: 1 device_version: 0 step: 4 plan: "p" to_collection: "b" host_version: -2
                 foreign { hosts: 1 job: 0 version: 1152921504606846976 tensors: 0 has_changes: true
                           changes { lo: 0 lo: 0 hi: 4 hi: 4 dtype: 1 } } })",
    R"x(prepare { job: 1 name: "job" to_version: 1 step: 4 plan: "p" to_collection: "b" host_version: -2
                  foreign { hosts: 1 tensors: 0 version: 1152921504606846976 transforms: "cast(F32)" collection: "a" } })x",
    R"(round { to_version: 1 })",
    R"(verify { version: 1 step: 4 })",
    R"(commit { version: 1 })",
    R"(advance { version: 1 step: 9 })",
    R"(digest { version: 1 })",
    R"(forget { live_copies: true })"};

// Commands with a line between them: one is changed, comes or goes, or they change places.
std::string change_commands(std::string_view input, Random& random) {
  std::vector<std::string> commands;
  for (size_t begin = 1; begin < input.size() && input[0] == 'c';) {
    const size_t end = std::min(input.find("\n--\n", begin), input.size());
    commands.emplace_back(input.substr(begin, end - begin));
    begin = end + 4;
  }
  if (commands.empty()) commands.assign(kCommands.begin(), kCommands.end());
  const auto any = [&] { return static_cast<size_t>(random.below(std::ssize(commands))); };
  switch (random.below(6)) {
    case 0:
      commands.insert(commands.begin() + static_cast<ptrdiff_t>(any()),
                      kCommands.at(static_cast<size_t>(random.below(14))));
      break;
    case 1: std::swap(commands[any()], commands[any()]); break;
    case 2: commands.erase(commands.begin() + static_cast<ptrdiff_t>(any())); break;
    default: {
      CommandBody body;
      std::string& one = commands[any()];
      one = fuzz::mutate_textproto(one, kCommands[0], body, random);
    }
  }
  std::string text;
  for (const std::string& one : commands) text += (text.empty() ? "c" : "\n--\n") + one;
  return text;
}

std::string change(std::string_view input, Random& random) {
  if (random.below(4) != 0 && (input.empty() || input[0] != 'f')) return change_commands(input, random);
  proto::FetchRequest request;
  return "f" + fuzz::mutate_textproto(input.substr(std::min<size_t>(1, input.size())),
                                      R"(place: "g0" box { lo: 0 lo: 0 hi: 4 hi: 4 dtype: 1 })", request, random);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, change);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 'F') {
    request(holder(), text);
  } else if (data[0] == 'f') {
    proto::FetchRequest message;
    if (TextFormat::ParseFromString(text, &message)) request(holder(), message.SerializeAsString());
  } else {
    const std::unique_ptr<executor::worker::Worker> worker = make_worker();
    command_text(*worker, "setup { gpus_of_host: 2 threads: 1 }");
    if (data[0] == 'C') {
      const executor::rpc::Reply reply = worker->handle({.what = "fuzz", .body = text});
      SCALAI_CHECK(reply.status.ok() || !message_of(reply.status).empty());
    } else {
      command_texts(*worker, text);
    }
  }
  return 0;
}
