// Any bytes as commands to a worker of one host with two devices, or as a request for what it holds: it may refuse them but
// must not crash, hang or hand out what it does not hold. The first byte chooses: 'c' commands as text, with lines "--"
// between them, 'C' one command; 'f' a request as text, 'F' its bytes. In texts the collections "a" and "b" and the plan
// "p" stand for real ones.

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/worker/worker.h"
#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/proto/control.pb.h"

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
  if (body.prepare().plan() == "p") body.mutable_prepare()->set_plan(plan_bytes());
}

std::unique_ptr<executor::Worker> make_worker() {
  return std::make_unique<executor::Worker>(executor::Worker::Options{
      .host = HostId(0), .segments = {.capacity = int64_t{1} << 26, .limit = int64_t{1} << 20, .leave_free = 0}});
}

void command(executor::Worker& worker, const CommandBody& body) {
  const executor::Reply reply = worker.handle({.what = "fuzz", .body = body.SerializeAsString()});
  SCALAI_CHECK(reply.status.ok() || !message_of(reply.status).empty());
}

void command_text(executor::Worker& worker, const std::string& text) {
  CommandBody body;
  if (!TextFormat::ParseFromString(text, &body)) return;
  fill_in(body);
  command(worker, body);
}

void command_texts(executor::Worker& worker, const std::string& texts) {
  constexpr size_t kMost = 20;
  size_t begin = 0;
  for (size_t i = 0; i < kMost && begin <= texts.size(); ++i) {
    const size_t end = std::min(texts.find("\n--\n", begin), texts.size());
    command_text(worker, texts.substr(begin, end - begin));
    begin = end + 4;
  }
}

void request(const executor::Worker& worker, const std::string& bytes) {
  const auto payload = worker.places().answer(bytes);
  SCALAI_CHECK(payload.ok() || !message_of(payload.status()).empty());
}

// One that holds epoch 0 of job 0.
const executor::Worker& holder() {
  static const auto* const made = [] {
    executor::Worker* worker = make_worker().release();
    command_text(*worker, "setup { gpus_of_host: 2 threads: 1 }");
    command_text(*worker, "create { name: \"job\" collection: \"a\" step: 3 }");
    request(*worker, "");
    return worker;
  }();
  return *made;
}

}  // namespace

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
    const std::unique_ptr<executor::Worker> worker = make_worker();
    command_text(*worker, "setup { gpus_of_host: 2 threads: 1 }");
    if (data[0] == 'C') {
      const executor::Reply reply = worker->handle({.what = "fuzz", .body = text});
      SCALAI_CHECK(reply.status.ok() || !message_of(reply.status).empty());
    } else {
      command_texts(*worker, text);
    }
  }
  return 0;
}
