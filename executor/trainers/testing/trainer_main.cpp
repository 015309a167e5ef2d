// The stand-in for a training program: one element-wise step a step, so that any element of any step can be computed.
// Its word and its messages are those of python/scalai/_job.py.
//
// An element of the tensor is an integer of its size: row-major index · 7 + step, modulo 2^(8 · size).
// All ranks rewrite a step or none: they meet in a file, which rank 0 makes for each layout.
//
//   trainer                 in the working directory: barrier-N
//   $SCALAI_TEST_DEATHS     g1:before:7 g2:amid:9 g0:start:0 …  once each: the process kills itself before it says that
//                           it has come to step 7, or amid rewriting on the way to step 9, or before it attaches
//   $SCALAI_TEST_FAILS      a step that no process can do
//   $SCALAI_TEST_ASKS       what the process of g0 asks for in its first answer to "train": {"gpus": 4}
//   $SCALAI_TEST_READS      any text: all ranks are one share, and say that they read one sample a step, whose sums are
//                           0
//   $SCALAI_TEST_CANNOT_MAP why it cannot map memory that comes by parts
//   $SCALAI_TEST_LEAVES     exit code of a process that is told to leave

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ptc/base/file_descriptor.h"
#include "ptc/base/json.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::executor::trainers {
namespace {

using nlohmann::json;

constexpr double kBarrier_s = 3;
constexpr size_t kSteps = 65536;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void* mapped(int fd, size_t bytes, off_t offset) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  SCALAI_CHECK(memory != MAP_FAILED, std::to_string(fd));
  return memory;
}

struct Element {
  std::byte* data;
  int64_t size;
  uint64_t value;  // at step 0
  void write(int64_t step) const {
    const uint64_t now = value + static_cast<uint64_t>(step);
    std::memcpy(data, &now, static_cast<size_t>(size));
  }
  bool is(int64_t step) const {
    const uint64_t now = value + static_cast<uint64_t>(step);
    return std::memcmp(data, &now, static_cast<size_t>(size)) == 0;
  }
};

class Trainer {
 public:
  Trainer() : device_(variable("SCALAI_DEVICE")) {
    die("start", 0);
    socket_ = std::atoi(variable("SCALAI_WORKER").c_str());  // "3:INODE"
    SCALAI_CHECK(::fcntl(socket_, F_SETFD, FD_CLOEXEC) == 0);
    say({{"device", std::stoi(device_)}, {"pid", ::getpid()}});
    scalai::say("begun\n");
  }

  int run() {
    for (;;) {
      const json order = receive();
      const std::string what = order.at("do");
      if (what == "leave") return std::atoi(variable("SCALAI_TEST_LEAVES").c_str());
      if (what == "meet") meet();
      if (what == "map") map_parts(order);
      if (what == "layout") take_up(order);
      if (what == "rest") {
        elements_.clear();
        word_ = nullptr;
        scalai::say("rests\n");
        say({{"done", "rest"}});
      }
      if (what == "train") train(order.at("until"), order.value("ask", false));
    }
  }

 private:
  void say(const json& message) const {
    const std::string line = json_text(message) + "\n";
    SCALAI_CHECK(::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()));
  }
  json receive() {
    while (received_.find('\n') == std::string::npos) {
      std::array<char, 65536> buffer{};
      alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(253 * sizeof(int))> control{};
      iovec into{.iov_base = buffer.data(), .iov_len = buffer.size()};
      msghdr message{};
      message.msg_iov = &into;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t got = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) std::_Exit(75);  // the worker is gone
      received_.append(buffer.data(), static_cast<size_t>(got));
      if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
        const auto* const sent = reinterpret_cast<const int*>(CMSG_DATA(header));
        descriptors_.insert(descriptors_.end(), sent, sent + (header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      }
    }
    const size_t end = received_.find('\n');
    json order = read_json(std::string_view(received_).substr(0, end)).value();
    received_.erase(0, end + 1);
    return order;
  }
  // Once in the life of the working directory.
  void die(const std::string& when, int64_t step) const {
    const std::string death = fmt::format("g{}:{}:{}", device_, when, step);
    const std::string deaths = " " + variable("SCALAI_TEST_DEATHS") + " ";
    if (deaths.find(" " + death + " ") == std::string::npos || ::mkdir(("died-" + death).c_str(), 0700) != 0) return;
    if (arrivals_ != nullptr) arrivals_[0] = 1;
    ::kill(::getpid(), SIGKILL);
  }
  void meet() {
    int number = 1;
    std::string name;
    int fd = -1;
    for (; fd < 0; ++number) {
      name = fmt::format("barrier-{}", number);
      fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    SCALAI_CHECK(::ftruncate(fd, kSteps * sizeof(uint32_t)) == 0, name);
    ::close(fd);
    say({{"done", "meet"}, {"port", number - 1}});
  }
  // Memory of a device like a GPU's: parts of files in host memory.
  void map_parts(const json& order) {
    if (order.at("first")) {
      const uint64_t begin = order.at("range").at(0), end = order.at("range").at(1);
      void* const base = ::mmap(nullptr, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      SCALAI_CHECK(base != MAP_FAILED);
      parts_ = static_cast<std::byte*>(base) - begin;
    }
    SCALAI_CHECK(descriptors_.size() == order.at("parts").size(), "each part has a descriptor");
    size_t number = 0;
    for (const json& part : order.at("parts")) {
      const int fd = descriptors_[number++];
      void* const place = parts_ + part.at(0).get<uint64_t>();
      SCALAI_CHECK(::mmap(place, part.at(1), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == place);
      ::close(fd);
    }
    descriptors_.clear();
    say({{"done", "map"}, {"problem", variable("SCALAI_TEST_CANNOT_MAP")}});
  }
  void take_up(const json& order) {
    const std::string address = order.at("address");
    const FileDescriptor barrier(
        ::open(("barrier-" + address.substr(address.rfind(':') + 1)).c_str(), O_RDWR | O_CLOEXEC));
    arrivals_ = static_cast<std::atomic<uint32_t>*>(mapped(barrier.get(), kSteps * sizeof(uint32_t), 0));
    ranks_ = 1;
    for (const json& axis : order.at("axes")) ranks_ *= axis.at(1).get<uint32_t>();
    step_ = first_ = order.at("step");
    const FileDescriptor words(descriptors_.at(0)), memory(descriptors_.size() > 1 ? descriptors_[1] : -1);
    descriptors_.clear();
    const size_t offset = order.at("word");
    auto* const page = static_cast<std::byte*>(mapped(words.get(), 4096, static_cast<off_t>(offset / 4096 * 4096)));
    word_ = reinterpret_cast<std::atomic<uint64_t>*>(page + offset % 4096);
    elements_.clear();
    for (const json& one : order.at("tensors")) map_tensor(memory.get(), one);
    parts_ = nullptr;  // of the next layout they come anew
    std::string problem;
    for (const Element& element : elements_) {
      if (order.at("fresh")) element.write(0);
      if (!element.is(step_)) problem = fmt::format("an element is not that of step {}", step_);
    }
    say({{"done", "layout"}, {"problem", problem}, {"build_s", 0.25}, {"group_s", 0.125}});
  }
  void map_tensor(int memory, const json& one) {
    tensor::Box box;
    std::vector<int64_t> extents;
    for (const json& extent : one.at("shape")) extents.push_back(extent);
    for (const json& range : one.at("box")) {
      box.lo[static_cast<size_t>(box.rank)] = range.at(0);
      box.hi[static_cast<size_t>(box.rank++)] = range.at(1);
    }
    const int64_t size = tensor::size_of(tensor::parse_dtype(one.at("dtype").get<std::string>()).value());
    const auto strides = tensor::Shape(extents).strides();
    const uint64_t offset = one.at("offset");
    const auto bytes = static_cast<size_t>(box.volume() * size);
    auto* data =
        memory < 0 ? parts_ + offset : static_cast<std::byte*>(mapped(memory, bytes, static_cast<off_t>(offset)));
    for (int64_t i = 0; i < box.volume(); ++i, data += size) {
      int64_t rest = i, index = 0;
      for (int dim = box.rank; dim-- > 0; rest /= box.extent(dim))
        index += (box.lo[static_cast<size_t>(dim)] + rest % box.extent(dim)) * strides[static_cast<size_t>(dim)];
      elements_.push_back({data, size, static_cast<uint64_t>(index) * 7});
    }
  }
  // Whether all have come: who came last may have gone on, and died, before this process looks.
  bool barrier() {
    std::atomic<uint32_t>& here = arrivals_[1 + static_cast<size_t>(step_ - first_)];
    ++here;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kBarrier_s);
    while (here < ranks_) {
      char next = 0;
      const bool told = ::recv(socket_, &next, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
      if (told || arrivals_[0] != 0 || std::chrono::steady_clock::now() > until) return here >= ranks_;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }
  void train(int64_t until, bool ask) {
    std::string problem = word_ == nullptr ? "it has no layout" : "";
    while (problem.empty() && step_ < until) {
      die("before", step_ + 1);
      if (variable("SCALAI_TEST_FAILS") == std::to_string(step_ + 1)) problem = "it cannot do this step";
      if (!problem.empty()) break;
      if (!barrier()) {
        problem = fmt::format("step {}: another process is gone", step_ + 1);
        break;
      }
      if (std::exchange(ask, false)) {
        say({{"done", "rewriting"}});
        SCALAI_CHECK(receive().at("do") == "rewrite");
      }
      if (!variable("SCALAI_TEST_READS").empty()) say({{"read", {step_, 1, 0, 0}}, {"share", {0, 1}}});
      word_->store(static_cast<uint64_t>(2 * step_ + 1));
      for (size_t i = 0; i < elements_.size(); ++i) {
        elements_[i].write(step_ + 1);
        if (i == elements_.size() / 2) die("amid", step_ + 1);
      }
      word_->store(static_cast<uint64_t>(2 * ++step_));
    }
    json said = {{"done", "train"}, {"step", step_}, {"problem", problem}};
    if (!std::exchange(asked_, true) && device_ == "0")
      said["asked"] = read_json(variable("SCALAI_TEST_ASKS")).value_or(json());
    say(said);
  }

  const std::string device_;
  int socket_ = -1;
  std::string received_;
  std::vector<int> descriptors_;               // came with it, and are not used yet
  std::byte* parts_ = nullptr;                 // where offset 0 of memory that comes by parts would be
  std::atomic<uint32_t>* arrivals_ = nullptr;  // [0]: somebody died; [1 + k]: at step first_ + k
  uint32_t ranks_ = 1;
  int64_t step_ = 0, first_ = 0;
  bool asked_ = false;
  std::atomic<uint64_t>* word_ = nullptr;
  std::vector<Element> elements_;
};

}  // namespace
}  // namespace scalai::executor::trainers

int main() { return scalai::executor::trainers::Trainer().run(); }
