#pragma once
// A thread that runs tasks in the order they were given.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace scalai::executor::transport::internal {

class TaskThread {
 public:
  using Task = std::function<void()>;

  TaskThread() : thread_([this] { run(); }) {}
  // Ends after the task that runs now; tasks that wait are dropped.
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void add(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || !tasks_.empty(); });
      if (stopped_) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace scalai::executor::transport::internal
