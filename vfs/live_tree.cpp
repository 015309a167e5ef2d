#include "vfs/live_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "ptc/base/status.h"
#include "vfs/checkpoint_tree.h"
#include "vfs/folder.h"

namespace scalai::vfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kInUse_s = 1;  // after its last use a step may be in use
constexpr const char* kCurrent = "step-current";
constexpr const char* kNone = "step-unavailable";  // where the link leads if there is no step: to nothing

// A step that was shown: kept while it is in use.
class Keeping {
 public:
  explicit Keeping(ShownStep shown) : kept_(std::move(shown.kept)), id_(shown.id) {}

  // For an open file: the step is kept as long as the result lives. FailedPrecondition: it is no longer.
  absl::StatusOr<std::shared_ptr<const void>> hold() {
    const std::lock_guard lock(mutex_);
    used_ = Clock::now();
    if (kept_ == nullptr) kept_ = open_.lock();
    if (kept_ == nullptr)
      return absl::FailedPreconditionError("this step is no longer kept: step-current has a newer one");
    open_ = kept_;
    return kept_;
  }
  absl::Status touch() { return hold().status(); }
  // Lets go of it if nothing has used it for so long; files that are open still keep it.
  void rest(double idle_s) {
    std::shared_ptr<const void> gone;  // is freed without the lock
    const std::lock_guard lock(mutex_);
    if (kept_ != nullptr && Clock::now() - used_ > std::chrono::duration<double>(idle_s)) {
      open_ = kept_;
      gone.swap(kept_);
    }
  }
  bool is_kept() {
    const std::lock_guard lock(mutex_);
    return kept_ != nullptr || !open_.expired();
  }
  const void* id() const { return id_; }

 private:
  std::mutex mutex_;
  std::shared_ptr<const void> kept_;
  std::weak_ptr<const void> open_;
  Clock::time_point used_ = Clock::now();
  const void* const id_;
};

class KeptSource final : public ByteSource {
 public:
  KeptSource(ByteSourcePtr source, std::shared_ptr<Keeping> keeping, std::shared_ptr<const void> held)
      : source_(std::move(source)), keeping_(std::move(keeping)), held_(std::move(held)) {}
  const std::string& name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  std::string version() const override { return source_->version(); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_RETURN_IF_ERROR(keeping_->touch());
    return source_->read(offset, dst);
  }

 private:
  const ByteSourcePtr source_;
  const std::shared_ptr<Keeping> keeping_;
  const std::shared_ptr<const void> held_;
};

class KeptFile final : public File {
 public:
  KeptFile(std::shared_ptr<File> file, std::shared_ptr<Keeping> keeping)
      : file_(std::move(file)), keeping_(std::move(keeping)) {}
  absl::StatusOr<int64_t> size() override {
    SCALAI_RETURN_IF_ERROR(keeping_->touch());
    return file_->size();
  }
  absl::StatusOr<ByteSourcePtr> open() override {
    SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const void> held, keeping_->hold());
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, file_->open());
    return ByteSourcePtr(std::make_shared<KeptSource>(std::move(source), keeping_, std::move(held)));
  }

 private:
  const std::shared_ptr<File> file_;
  const std::shared_ptr<Keeping> keeping_;
};

class KeptFolder final : public Directory {
 public:
  KeptFolder(std::shared_ptr<Directory> folder, std::shared_ptr<Keeping> keeping)
      : folder_(std::move(folder)), keeping_(std::move(keeping)) {}
  absl::StatusOr<Node> find(const std::string& name) override {
    SCALAI_RETURN_IF_ERROR(keeping_->touch());
    SCALAI_ASSIGN_OR_RETURN(Node node, folder_->find(name));
    if (const auto* folder = std::get_if<std::shared_ptr<Directory>>(&node))
      return Node(std::shared_ptr<Directory>(std::make_shared<KeptFolder>(*folder, keeping_)));
    if (const auto* file = std::get_if<std::shared_ptr<File>>(&node))
      return Node(std::shared_ptr<File>(std::make_shared<KeptFile>(*file, keeping_)));
    return node;
  }
  int64_t entries() override { return folder_->entries(); }
  int64_t listed_from(int64_t index) override { return folder_->listed_from(index); }
  Entry entry(int64_t index) override { return folder_->entry(index); }
  bool fixed() override { return folder_->fixed(); }

 private:
  const std::shared_ptr<Directory> folder_;
  const std::shared_ptr<Keeping> keeping_;
};

// jobs/NAME.
class JobFolder final : public Directory, public std::enable_shared_from_this<JobFolder> {
 public:
  using Complain = std::function<void(const std::string&)>;
  JobFolder(std::string name, NewestStep newest, double fresh_s, Complain complain)
      : name_(std::move(name)), fresh_s_(fresh_s), newest_(std::move(newest)), complain_(std::move(complain)) {}

  absl::StatusOr<Node> find(const std::string& name) override;
  int64_t entries() override {
    const std::lock_guard lock(mutex_);
    return next_;
  }
  int64_t listed_from(int64_t index) override {
    const std::lock_guard lock(mutex_);
    if (index <= 0) return 0;
    const auto at = shown_.lower_bound(index);
    return at == shown_.end() ? next_ : at->first;
  }
  Entry entry(int64_t index) override {
    const std::lock_guard lock(mutex_);
    if (index == 0) return {kCurrent, Kind::kLink};
    const auto at = shown_.find(index);
    return at == shown_.end() ? Entry() : Entry{at->second.name, Kind::kDirectory};
  }
  std::string current();
  bool rest(double idle_s);  // whether a step went
  void close() {
    const std::lock_guard lock(mutex_);
    newest_ = nullptr;
    shown_.clear();
  }

 private:
  struct Shown {
    std::string name;
    std::shared_ptr<Keeping> keeping;
    std::shared_ptr<Directory> folder;
  };
  std::string last_kept();  // the last of them that still is; empty: none. Under mutex_

  const std::string name_;
  const double fresh_s_;
  std::mutex mutex_;
  Clock::time_point followed_ = {};  // the link, to what was the newest step then
  NewestStep newest_;                // empty: the tree is closed
  const Complain complain_;
  std::map<int64_t, Shown> shown_;  // by number in listings, from 1
  int64_t next_ = 1;
  std::map<int64_t, int> times_;  // a step was shown
};

class CurrentLink final : public Link {
 public:
  explicit CurrentLink(std::shared_ptr<JobFolder> job) : job_(std::move(job)) {}
  std::string target() override { return job_->current(); }

 private:
  const std::shared_ptr<JobFolder> job_;
};

absl::StatusOr<Node> JobFolder::find(const std::string& name) {
  if (name == kCurrent) return Node(std::shared_ptr<Link>(std::make_shared<CurrentLink>(shared_from_this())));
  const std::lock_guard lock(mutex_);
  for (const auto& [number, one] : shown_) {
    if (one.name == name) return Node(one.folder);
  }
  return missing("");
}

std::string JobFolder::current() {
  NewestStep newest;
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() - followed_ < std::chrono::duration<double>(fresh_s_)) {
      if (std::string last = last_kept(); !last.empty()) return last;
    }
    newest = newest_;
  }
  if (!newest) return kNone;
  absl::StatusOr<ShownStep> step = newest();
  // A newer step is worth more than one that nobody has open, or has just been led to.
  const auto until = Clock::now() + std::chrono::duration<double>(1.1 * kInUse_s);
  while (absl::IsResourceExhausted(step.status()) && Clock::now() < until) {
    if (rest(kInUse_s)) {
      step = newest();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const std::lock_guard lock(mutex_);
  if (!step.ok()) {
    complain_(fmt::format("jobs/{}/{}: {}", name_, kCurrent, message_of(step.status())));
    const std::string last = last_kept();
    return last.empty() ? kNone : last;
  }
  followed_ = Clock::now();
  for (const auto& [index, one] : shown_) {
    if (one.keeping->id() == step->id && one.keeping->touch().ok()) return one.name;
  }
  const int64_t number = step->checkpoint->info().step;
  const int times = times_[number]++;
  const std::string name = times == 0 ? fmt::format("step-{:08}", number) : fmt::format("step-{:08}.{}", number, times);
  std::vector<std::pair<std::string, Node>> children;
  children.emplace_back("views", views_directory(step->checkpoint));
  const auto keeping = std::make_shared<Keeping>(*std::move(step));
  auto folder = std::make_shared<KeptFolder>(std::make_shared<FixedFolder>(std::move(children)), keeping);
  shown_.emplace(next_++, Shown{name, keeping, std::move(folder)});
  return name;
}

std::string JobFolder::last_kept() {
  for (auto one = shown_.rbegin(); one != shown_.rend(); ++one) {
    if (one->second.keeping->touch().ok()) return one->second.name;
  }
  return "";
}

bool JobFolder::rest(double idle_s) {
  const std::lock_guard lock(mutex_);
  for (const auto& [index, one] : shown_) one.keeping->rest(idle_s);
  return std::erase_if(shown_, [](const auto& entry) { return !entry.second.keeping->is_kept(); }) > 0;
}

}  // namespace

struct LiveTree::State {
  std::vector<std::pair<std::string, std::shared_ptr<JobFolder>>> jobs;
  std::shared_ptr<Directory> directory;
  std::mutex mutex;
  std::condition_variable ending;
  bool over = false;
  std::thread thread;
};

LiveTree::LiveTree(std::vector<std::pair<std::string, NewestStep>> jobs, LiveTimes times,
                   const std::function<void(const std::string&)>& complain)
    : state_(std::make_shared<State>()) {
  std::vector<std::pair<std::string, Node>> children;
  for (auto& job : jobs) {
    const std::string& name = job.first;
    state_->jobs.emplace_back(name, std::make_shared<JobFolder>(name, std::move(job.second), times.fresh_s, complain));
    children.emplace_back(name, std::shared_ptr<Directory>(state_->jobs.back().second));
  }
  state_->directory = std::make_shared<FixedFolder>(std::move(children));
  state_->thread = std::thread([state = state_.get(), times] {
    const std::chrono::duration<double> pause(std::clamp(times.idle_s / 4, 0.005, 1.0));
    std::unique_lock lock(state->mutex);
    while (!state->ending.wait_for(lock, pause, [&] { return state->over; })) {
      for (const auto& [name, job] : state->jobs) job->rest(times.idle_s);
    }
  });
}

LiveTree::~LiveTree() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->ending.notify_all();
  state_->thread.join();
  for (const auto& [name, job] : state_->jobs) job->close();
}

std::shared_ptr<Directory> LiveTree::directory() const { return state_->directory; }

}  // namespace scalai::vfs
