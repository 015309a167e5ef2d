// Checkpoints of a job, as the controller writes and forgets them: new steps, a step written again, a killed writer.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/testing/test_job.h"
#include "tests/crash/subject.h"

namespace scalai::crash {
namespace {

namespace fs = std::filesystem;
using namespace store;

// A step with its contents; 0 = none.
struct Version {
  int64_t step = 0;
  int salt = 0;
  friend bool operator==(const Version&, const Version&) = default;
};

struct Act {
  enum class What : uint8_t { kWrite, kRemove, kKilled } what = What::kWrite;
  Version version;
};
using What = Act::What;

// Tensors of several blocks, by two ranks.
collection::Collection large_collection() {
  const absl::StatusOr<collection::CollectionFile> file =
      collection::parse_collection(R"(
    schema_version: 1 name: "large" epoch: 5
    meshes { name: "dense" axes { name: "tp" size: 2 } }
    devices: "0-1"
    tensors { name: "w" dtype: "F32" shape: [96, 70] cuts { axis: "tp" dim: 0 } }
    tensors { name: "v" dtype: "BF16" shape: [33, 129] cuts { axis: "tp" dim: 1 rule: BALANCED } }
    tensors { name: "step" dtype: "I64" kind: SCALAR })",
                                   "large", collection::FileRole::kPlanned);
  SCALAI_CHECK(file.ok(), message_of(file.status()));
  return file->collection;
}

std::vector<std::byte> salted(const collection::Collection& collection, TensorId id, const tensor::Box& box, int salt) {
  std::vector<std::byte> bytes = content_of(collection.tensors[static_cast<size_t>(id.value)], id, box);
  for (std::byte& byte : bytes) byte ^= static_cast<std::byte>(salt * 37);
  return bytes;
}

class CheckpointSubject : public Subject {
 public:
  explicit CheckpointSubject(const SubjectOptions& options)
      : collection_(options.variant % 2 == 0 ? sample_collection() : large_collection()) {
    Random random(options.seed * 1000 + static_cast<uint64_t>(options.variant));
    acts_.push_back({What::kWrite, {100, 1}});
    Version last{100, 1};
    int salt = 1;
    for (int64_t i = 0, count = random.between(3, 5); i < count; ++i) {
      const int64_t kind = random.below(4);
      if (kind == 0) acts_.push_back({What::kKilled, {last.step + 100, ++salt}});
      const Version next{kind == 1 ? last.step : last.step + 100, ++salt};  // kind 1: rolled back, and there again
      acts_.push_back({What::kWrite, next});
      if (next.step != last.step) acts_.push_back({What::kRemove, last});
      last = next;
    }
    Version newest;
    latest_.push_back(newest);
    for (const Act& act : acts_) {
      if (act.what == What::kWrite) newest = act.version;
      latest_.push_back(newest);
    }
  }
  std::string name() const override { return "checkpoint"; }

  absl::Status play(const std::string& root) override {
    const std::string folder = root + "/checkpoints/job";
    for (const Act& act : acts_) {
      mark("begin");
      SCALAI_RETURN_IF_ERROR(in_process([&] { return run(act, folder); }));
      mark("end");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) override {
    const std::string folder = root + "/checkpoints/job";
    const Progress progress = progress_of(marks);
    const Version before = latest_.at(static_cast<size_t>(progress.ended));
    const Version after = latest_.at(static_cast<size_t>(progress.begun));
    SCALAI_ASSIGN_OR_RETURN(const Version found, newest(folder));
    if (found != before && found != after)
      return failed(fmt::format("found step {} with contents {}; step {} ({}) was complete, step {} ({}) under way",
                                found.step, found.salt, before.step, before.salt, after.step, after.salt));
    // Whatever has a final name is whole.
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename();
      if (name.find('.') == std::string::npos) SCALAI_RETURN_IF_ERROR(version_of(entry.path()).status());
    }
    const absl::StatusOr<std::vector<std::string>> cleaned = clean(folder);
    SCALAI_RETURN_IF_ERROR(cleaned.status());
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename();
      if (name.find('.') != std::string::npos) return failed(fmt::format("{} is not cleared up", name));
    }
    SCALAI_ASSIGN_OR_RETURN(const Version again, newest(folder));
    if (again != found) return failed("clearing up takes a checkpoint away");
    return found == after ? Found::kNew : Found::kOld;
  }

 private:
  absl::Status run(const Act& act, const std::string& folder) const {
    const std::string path = step_folder(folder, act.version.step);
    if (act.what == What::kRemove) {
      remove_checkpoint(path);
      return absl::OkStatus();
    }
    (void)clean(folder);
    const Stamp stamp{"job", act.version.step};
    SCALAI_ASSIGN_OR_RETURN(Writer writer, Writer::begin(path, collection_, stamp));
    SCALAI_RETURN_IF_ERROR(writer.add_file("model.textproto", fmt::format("salt: {}\n", act.version.salt)));
    SCALAI_ASSIGN_OR_RETURN(const Writer worker, Writer::join(writer.temporary(), collection_, stamp));
    std::vector<std::byte> keep;
    std::vector<std::string> parts;
    for (int rank = 0; rank < collection_.ranks(); ++rank) {
      if (act.what == What::kKilled && rank == 1) ::_exit(0);
      SCALAI_ASSIGN_OR_RETURN(std::string part,
                              worker.write_rank(LogicalRank(rank), [&](TensorId id, const tensor::Box& box) {
                                keep = salted(collection_, id, box, act.version.salt);
                                return absl::StatusOr<std::span<const std::byte>>(keep);
                              }));
      parts.push_back(std::move(part));
    }
    return writer.finish(parts);
  }

  // As a resumed run searches.
  absl::StatusOr<Version> newest(const std::string& folder) const {
    const std::optional<FoundCheckpoint> found = latest(folder);
    return found ? version_of(found->path) : Version{};
  }

  // Reads every byte, and compares it with what was written.
  absl::StatusOr<Version> version_of(const std::string& folder) const {
    SCALAI_ASSIGN_OR_RETURN(const Reader reader, Reader::open(folder));
    SCALAI_RETURN_IF_ERROR(reader.verify());
    Version version{reader.stamp().step, 0};
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(folder + "/model.textproto"));
    if (std::sscanf(text.c_str(), "salt: %d", &version.salt) != 1) return failed(folder + ": another model.textproto");
    for (size_t i = 0; i < collection_.tensors.size(); ++i) {
      const TensorId id(static_cast<int64_t>(i));
      const tensor::Box box = tensor::Box::whole(collection_.tensors[i].shape);
      const std::vector<std::byte> wanted = salted(collection_, id, box, version.salt);
      std::vector<std::byte> read(wanted.size());
      SCALAI_RETURN_IF_ERROR(reader.read(id, box, read));
      if (read != wanted) return failed(fmt::format("{}: other bytes in {}", folder, collection_.tensors[i].name));
    }
    return version;
  }

  const collection::Collection collection_;
  std::vector<Act> acts_;
  std::vector<Version> latest_;  // after so many acts
};

}  // namespace

std::unique_ptr<Subject> checkpoint_subject(const SubjectOptions& options) {
  return std::make_unique<CheckpointSubject>(options);
}

}  // namespace scalai::crash
