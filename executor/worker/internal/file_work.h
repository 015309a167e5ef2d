#pragma once
// FileWork: the commands on files: a checkpoint's, which the worker writes from what its devices hold, and a dataset's,
// whose samples it reads. It owns the writing in the background and the open datasets.
//
// Thread rules: the thread that handles commands.

#include "executor/worker/background_write.h"
#include "executor/worker/internal/holdings.h"
#include "executor/worker/sample_reading.h"

namespace scalai::executor::worker {

class FileWork {
 public:
  // Outlives this object.
  explicit FileWork(Holdings& holdings) : holdings_(holdings) {}

  absl::Status write(const CommandBody& body, ReplyBody& reply);
  absl::Status written(const CommandBody& body, ReplyBody& reply);
  absl::Status read(const CommandBody& body, ReplyBody& reply);

 private:
  struct Writing {
    std::string folder;
    int64_t tag = 0;
    std::unique_ptr<BackgroundWrite> files;
    template <class Command>
    bool is(const Command& command) const {
      return files != nullptr && folder == command.folder() && tag == command.tag();
    }
  };

  Holdings& holdings_;
  std::map<int32_t, Writing> writing_;      // by job: the last one in the background
  std::map<int32_t, OpenSamples> samples_;  // by job
};

}  // namespace scalai::executor::worker
