#include "labs/near/work.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "labs/near/internal/write.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/proto/near.pb.h"

namespace scalai::near {
namespace {

constexpr size_t kHead = 8;                          // mark and length
constexpr std::string_view kMark = "snr1";           // of a frame: what a login script prints is none
constexpr uint32_t kMostWork = uint32_t{256} << 20;  // bytes of a message; scripts travel in it
constexpr uint32_t kMostAnswer = uint32_t{8} << 20;  // a message takes a multiple of its bytes when it is read
constexpr size_t kArriving = size_t{1} << 20;        // no memory for bytes that are only announced

absl::Status send_message(int fd, uint32_t most, const google::protobuf::Message& message) {
  const std::string body = message.SerializeAsString();
  if (body.size() > most) return invalid(fmt::format("gets a message of {} bytes, which is too large", body.size()));
  const auto length = static_cast<uint32_t>(body.size());
  std::string frame(kMark);
  for (int i = 0; i < 4; ++i) frame += static_cast<char>((length >> (8 * i)) & 0xff);
  return internal::write_all(fd, frame + body);
}

// Fills `bytes`; returns how many came before the end of the stream.
absl::StatusOr<size_t> read_some(int fd, char* bytes, size_t wanted, double patience_s) {
  size_t got = 0;
  while (got < wanted) {
    if (patience_s > 0) {
      pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&one, 1, static_cast<int>(std::min(patience_s, 1e6) * 1000));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return absl::DeadlineExceededError(fmt::format("has said nothing for {:.3g} s", patience_s));
    }
    const ssize_t n = ::read(fd, bytes + got, wanted - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(fmt::format("cannot read: {}", std::strerror(errno)));
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

// What is there already, for a message.
std::string what_follows(int fd) {
  std::array<char, 200> more{};
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  const ssize_t n = ::poll(&one, 1, 200) > 0 ? ::read(fd, more.data(), more.size()) : 0;
  return {more.data(), static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

absl::Status receive_message(int fd, double patience_s, uint32_t most, google::protobuf::Message& message) {
  std::array<char, kHead> head{};
  SCALAI_ASSIGN_OR_RETURN(const size_t got, read_some(fd, head.data(), head.size(), patience_s));
  if (got == 0) return absl::OutOfRangeError("is gone");
  if (std::string_view(head.data(), std::min(got, kMark.size())) != kMark.substr(0, got)) {
    return invalid(fmt::format("says \"{}\" where a worker would greet; does a login script print it?",
                               clipped(std::string(head.data(), got) + what_follows(fd), 60)));
  }
  if (got < kHead) return absl::OutOfRangeError("is gone");
  uint32_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= static_cast<uint32_t>(static_cast<unsigned char>(head[4 + i])) << (8 * i);
  if (length > most) return invalid(fmt::format("sends a message of {} bytes", length));
  std::string body;
  while (body.size() < length) {
    const size_t begin = body.size(), wanted = std::min(kArriving, length - begin);
    body.resize(begin + wanted);
    SCALAI_ASSIGN_OR_RETURN(const size_t came, read_some(fd, body.data() + begin, wanted, patience_s));
    if (came < wanted) return absl::OutOfRangeError("is gone");
  }
  if (!message.ParseFromString(body)) return invalid("sends a message that cannot be read");
  return absl::OkStatus();
}

void fill(const RunView& run, proto::NearRun& message) {
  message.set_job(run.job);
  message.set_view(run.view);
  message.set_step(run.step);
}
RunView run_of(const proto::NearRun& message) {
  return {.job = message.job(), .view = message.view(), .step = message.step()};
}

void fill(const ListWork& work, proto::NearRequest& message) {
  message.mutable_list()->set_folder(work.folder);
  if (work.run) fill(*work.run, *message.mutable_list()->mutable_run());
}
void fill(const PartWork& work, proto::NearRequest& message) {
  proto::NearPart& part = *message.mutable_part();
  part.set_folder(work.folder);
  if (work.run) fill(*work.run, *part.mutable_run());
  for (const StageWork& stage : work.stages) {
    proto::NearStage& one = *part.add_stages();
    for (const std::string& word : stage.words) one.add_words(word);
    one.set_script(static_cast<int>(stage.script));
    one.set_script_text(stage.script_text);
  }
  for (const Range& range : work.ranges) {
    proto::NearRange& one = *part.add_ranges();
    one.set_file(range.file);
    one.set_begin(range.begin);
    one.set_end(range.end);
    one.set_records(range.records);
  }
  for (const Variable& variable : work.environment) {
    proto::NearVariable& one = *part.add_environment();
    one.set_name(variable.name);
    one.set_value(variable.value);
    one.set_set(variable.set);
  }
}

PartWork part_of(const proto::NearPart& part) {
  PartWork work{.folder = part.folder(), .stages = {}, .ranges = {}, .environment = {}};
  if (part.has_run()) work.run = run_of(part.run());
  for (const proto::NearStage& stage : part.stages())
    work.stages.push_back({.words = {stage.words().begin(), stage.words().end()},
                           .script = static_cast<size_t>(std::max(stage.script(), 0)),
                           .script_text = stage.script_text()});
  for (const proto::NearRange& range : part.ranges())
    work.ranges.push_back({range.file(), range.begin(), range.end(), range.records()});
  for (const proto::NearVariable& variable : part.environment())
    work.environment.push_back({variable.name(), variable.value(), variable.set()});
  return work;
}

void fill(const Hello& hello, proto::NearReply& message) {
  message.mutable_hello()->set_version(hello.version);
  message.mutable_hello()->set_threads(hello.threads);
}
void fill(const Listed& listed, proto::NearReply& message) {
  proto::NearListed& all = *message.mutable_listed();
  all.set_problem(listed.problem);
  all.set_more(listed.more);
  for (const ListedFile& file : listed.files) {
    proto::NearFile& one = *all.add_files();
    one.set_name(file.name);
    one.set_bytes(file.bytes);
    one.set_ends_whole(file.ends_whole);
    one.set_has_mark(file.has_mark);
  }
}
void fill(const Output& output, proto::NearReply& message) { message.set_output(output.bytes); }
void fill(const Alive&, proto::NearReply& message) { message.set_alive(true); }
void fill(const PartEnd& end, proto::NearReply& message) {
  proto::NearEnded& all = *message.mutable_ended();
  all.set_errors(end.errors);
  all.set_problem(end.problem);
  all.set_output_bytes(end.output_bytes);
  for (const StageEnd& stage : end.stages) {
    proto::NearStageEnd& one = *all.add_stages();
    one.set_status(stage.status);
    one.set_signal(stage.signal);
    one.set_nul(stage.nul);
    one.set_whole(stage.whole);
  }
}

Listed listed_of(const proto::NearListed& message) {
  Listed listed{.files = {}, .problem = message.problem(), .more = message.more()};
  for (const proto::NearFile& file : message.files())
    listed.files.push_back({file.name(), file.bytes(), file.ends_whole(), file.has_mark()});
  return listed;
}

PartEnd end_of(const proto::NearEnded& message) {
  PartEnd end{
      .stages = {}, .errors = message.errors(), .problem = message.problem(), .output_bytes = message.output_bytes()};
  for (const proto::NearStageEnd& stage : message.stages())
    end.stages.push_back({stage.status(), stage.signal(), stage.nul(), stage.whole()});
  return end;
}

}  // namespace

absl::Status send(int fd, const Work& work) {
  proto::NearRequest message;
  std::visit([&](const auto& one) { fill(one, message); }, work);
  return send_message(fd, kMostWork, message);
}

absl::Status send(int fd, const Answer& answer) {
  proto::NearReply message;
  std::visit([&](const auto& one) { fill(one, message); }, answer);
  return send_message(fd, kMostAnswer, message);
}

absl::StatusOr<Work> receive_work(int fd) {
  proto::NearRequest message;
  SCALAI_RETURN_IF_ERROR(receive_message(fd, 0, kMostWork, message));
  if (message.has_list()) {
    ListWork work{.folder = message.list().folder()};
    if (message.list().has_run()) work.run = run_of(message.list().run());
    return Work(std::move(work));
  }
  if (message.has_part()) return Work(part_of(message.part()));
  return invalid("asks for nothing that is known here");
}

absl::StatusOr<Answer> receive_answer(int fd, double patience_s) {
  proto::NearReply message;
  SCALAI_RETURN_IF_ERROR(receive_message(fd, patience_s, kMostAnswer, message));
  switch (message.what_case()) {
    case proto::NearReply::kHello: return Answer(Hello{message.hello().version(), message.hello().threads()});
    case proto::NearReply::kListed: return Answer(listed_of(message.listed()));
    case proto::NearReply::kOutput: return Answer(Output{std::move(*message.mutable_output())});
    case proto::NearReply::kAlive: return Answer(Alive{});
    case proto::NearReply::kEnded: return Answer(end_of(message.ended()));
    default: return invalid("answers with nothing that is known here");
  }
}

}  // namespace scalai::near
