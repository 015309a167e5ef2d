// Whatever hosts of `scalai near` answer: messages that parse, with fields changed. It may lose hosts and end with an
// error, but must not crash, hang or take up much memory. The input is frames; a greeting begins those of the next
// host.

#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "labs/near/answer.h"
#include "ptc/base/status.h"
#include "ptc/proto/near.pb.h"
#include "tests/fuzz/data_fuzz_support.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using near::Answer;

constexpr std::array<const char*, 6> kPipelines = {
    "wc -l a b", "cat a b", "sort a b | uniq -c", "grep -c x a b", "grep -h x a b | head -n 2", "sha256sum a b"};
constexpr size_t kHosts = 2;
using Replies = std::vector<proto::NearReply>;

std::string frame_of(const std::string& body) {
  std::string frame = "snr1";
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(body.size() >> (8 * i) & 0xff);
  return frame + body;
}

Replies replies_of(std::string_view frames) {
  Replies replies;
  while (frames.size() >= 8) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= size_t{static_cast<uint8_t>(frames[4 + i])} << (8 * i);
    const std::string_view body = frames.substr(8, length);
    if (!replies.emplace_back().ParseFromArray(body.data(), static_cast<int>(body.size()))) replies.pop_back();
    frames.remove_prefix(8 + body.size());
  }
  return replies;
}

// Of two hosts that answer well. The first greeting chooses the pipeline.
Replies seed(Random& random) {
  Replies replies;
  const auto pipeline = static_cast<size_t>(random.below(std::ssize(kPipelines)));
  const std::array<std::string, 6> outputs = {"1 ?\n", "x\n", "      1 x\n", "?:1\n", "x\n", "00  ?\n"};
  for (const std::string name : {"a", "b"}) {
    proto::NearHello& hello = *replies.emplace_back().mutable_hello();
    hello.set_version(near::kProtocol);
    hello.set_threads(static_cast<int>(pipeline) + 1);
    proto::NearFile& file = *replies.emplace_back().mutable_listed()->add_files();
    file.set_name(name);
    file.set_bytes(name == "a" ? 1'000'000 : 2'000'000);
    file.set_ends_whole(true);
    replies.emplace_back().set_alive(true);
    std::string output = outputs[pipeline];
    std::replace(output.begin(), output.end(), '?', name[0]);
    replies.emplace_back().set_output(output);
    proto::NearEnded& end = *replies.emplace_back().mutable_ended();
    for (int i = 0; i < (pipeline == 2 || pipeline == 4 ? 2 : 1); ++i) end.add_stages()->set_whole(true);
  }
  return replies;
}

// Mostly an end says as many bytes as there are, or no other change would get past that.
void fit_sizes(Replies& replies) {
  int64_t bytes = 0;
  for (proto::NearReply& reply : replies) {
    bytes += std::ssize(reply.output());
    if (reply.has_ended()) reply.mutable_ended()->set_output_bytes(std::exchange(bytes, 0));
  }
}

std::string change(std::string_view input, Random& random) {
  Replies replies = replies_of(input);
  if (replies.empty()) replies = seed(random);
  for (int i = fuzz::changes(random); i > 0 && !replies.empty(); --i) {
    const auto any = [&] { return static_cast<size_t>(random.below(std::ssize(replies))); };
    switch (random.below(8)) {
      case 0: replies.erase(replies.begin() + static_cast<ptrdiff_t>(any())); break;
      case 1: replies.push_back(replies[any()]); break;
      case 2: std::swap(replies[any()], replies[any()]); break;
      default: fuzz::mutate(replies[any()], random);
    }
  }
  if (random.below(4) != 0) fit_sizes(replies);
  std::string frames;
  for (const proto::NearReply& reply : replies) frames += frame_of(reply.SerializeAsString());
  return frames;
}

// What is put out goes nowhere.
class Silence {
 public:
  Silence() : kept_(::dup(STDOUT_FILENO)) {
    const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    SCALAI_CHECK(kept_.get() >= 0 && ::dup2(null.get(), STDOUT_FILENO) == STDOUT_FILENO);
  }
  ~Silence() { ::dup2(kept_.get(), STDOUT_FILENO); }

 private:
  FileDescriptor kept_;
};

std::unique_ptr<near::Session> session_of(const near::Host& host, const std::string& frames) {
  FileDescriptor out(::memfd_create("frames", MFD_CLOEXEC));
  SCALAI_CHECK(::pwrite(out.get(), frames.data(), frames.size(), 0) == std::ssize(frames));
  auto session =
      near::Session::over(host, 1, FileDescriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)), std::move(out));
  return session.ok() ? *std::move(session) : nullptr;
}

void ask(const std::array<std::string, kHosts>& frames, const std::string& pipeline) {
  static const std::string scratch = [] {
    std::string path = fuzz::scratch("near");
    std::filesystem::create_directory(path);
    static const std::string to_remove = path;
    std::atexit([] { std::filesystem::remove_all(to_remove); });
    return path;
  }();
  std::vector<std::unique_ptr<near::Session>> waiting;
  near::Question question;
  question.scratch = scratch;
  question.waiting = &waiting;
  question.launch = {.words = {"/no/such/launcher"}, .program = "x", .own_program = "/no/such/program"};
  for (size_t i = 0; i < kHosts; ++i) {
    const near::Host host{.name = "h" + std::to_string(i), .folder = "/x"};
    auto session = session_of(host, frames[i]);
    const auto files = session == nullptr
                           ? absl::StatusOr<std::vector<near::ListedFile>>(absl::UnavailableError("gone"))
                           : session->list();
    SCALAI_CHECK(files.ok() || !message_of(files.status()).empty());
    if (!files.ok()) return;
    question.source.hosts.push_back(host);
    question.source.jobs.push_back(1);
    question.source.by_host.emplace_back();
    for (const near::ListedFile& file : *files)
      question.source.by_host.back()[file.name] = {file.bytes, file.ends_whole, file.has_mark};
    waiting.push_back(std::move(session));
  }
  if (!near::unite(question.source).ok()) return;
  question.pipeline = near::parse_pipeline(pipeline, question.source.names()).value();
  for (size_t i = 0; i < question.pipeline.size(); ++i)
    question.uses.push_back(
        near::Annotations::built_in().use_of(question.pipeline[i], {.first = i == 0, .byte_locale = true}));
  const Silence silence;
  const auto answered = near::answer(question, {});
  SCALAI_CHECK(!answered.ok() || (answered->status >= 0 && answered->status <= 255), "a status that none has");
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, change);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;
  const Replies replies = replies_of({reinterpret_cast<const char*>(data), size});
  std::array<std::string, kHosts> frames;
  size_t host = 0, pipeline = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].has_hello() && i > 0) host = std::min(host + 1, kHosts - 1);
    if (replies[i].has_hello() && host == 0) pipeline = static_cast<uint32_t>(replies[i].hello().threads()) - 1U;
    frames[host] += frame_of(replies[i].SerializeAsString());
  }
  ask(frames, kPipelines[pipeline % kPipelines.size()]);
  return 0;
}
