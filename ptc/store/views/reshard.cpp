#include "ptc/store/views/reshard.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/box_chunks.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/internal/reshard_places.h"
#include "ptc/store/views/internal/reshard_writer.h"

namespace scalai::store {
namespace {

namespace fs = std::filesystem;
using internal::checksum_of_manifest;
using internal::is_there;
using internal::Journal;
using internal::ReshardPlaces;

constexpr int64_t kCompareBytes = int64_t{1} << 20;

// What is written, so that nothing is gone on with that is something else.
std::string job_of(const View& view, const ReshardPlan& plan, const std::vector<Damage>& damage) {
  const CheckpointInfo& info = view.checkpoint().info();
  Hasher hasher;
  hasher.add(view.checkpoint().identity())
      .add(info.job)
      .add(info.step)
      .add(info.epoch)
      .add(info.hf_prefix.value_or(""));
  for (const Damage& one : damage) hasher.add(one.what);
  hasher.add(view.name()).add(view.spec().naming).add(plan.content);
  for (const PlannedFile& file : plan.files) hasher.add(file.name).add(file.bytes);
  return hasher.hex();
}

// Before anything is written: what this run still needs against what the disk has.
absl::Status check_room(const ReshardPlaces& places, const ReshardPlan& plan) {
  struct statvfs disk {};
  if (::statvfs(places.partial.c_str(), &disk) != 0) return absl::OkStatus();
  int64_t needed = plan.bytes_total;
  for (const PlannedFile& file : plan.files) {
    struct stat status {};
    if (::stat((places.partial + "/" + file.name).c_str(), &status) == 0) needed -= int64_t{status.st_blocks} * 512;
  }
  const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (needed <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: needs {} more, the disk has {} free", places.partial, format_bytes(needed), format_bytes(free)));
}

absl::Status difference(const std::string& target, const LogicalState& state, const tensor::Box& box) {
  return invalid(
      fmt::format("{}: tensor \"{}\" box {}: is not what the source has", target, clipped(state.name, 120), box.str()));
}

// Reads the folder as anybody else would, all of it, and compares every state with the source's.
absl::Status verify_folder(const View& view, const ReshardPlan& plan, const ReshardOptions& options,
                           const std::string& folder) {
  SCALAI_ASSIGN_OR_RETURN(const auto written, Checkpoint::open(folder, {.families = options.families}));
  std::mutex mutex;
  absl::Status first;
  int64_t read = 0, total = 0, compared = 0;
  const auto report = [&] {
    if (options.progress) options.progress({"verifying", read + compared, total, read + compared});
  };
  for (const size_t tensor : view.tensors()) {
    const LogicalState& state = view.checkpoint().tensors()[tensor];
    total += state.shape.elements() * tensor::size_of(state.dtype);
  }
  const int64_t state_bytes = total;
  SCALAI_RETURN_IF_ERROR(written->verify({.threads = plan.threads, .progress = [&](int64_t done, int64_t all) {
                                            read = done;
                                            total = state_bytes + all;
                                            report();
                                          }}));
  const auto compare = [&](size_t work) {
    const size_t tensor = view.tensors()[work];
    const LogicalState& state = view.checkpoint().tensors()[tensor];
    const std::optional<size_t> other = written->find(state.name);
    if (!other || written->tensors()[*other] != state)
      return difference(folder, state, tensor::Box::whole(state.shape));
    const int64_t size = tensor::size_of(state.dtype);
    std::vector<std::byte> a, b;
    return tensor::for_each_chunk(tensor::Box::whole(state.shape), kCompareBytes / size, [&](const tensor::Box& box) {
      a.resize(static_cast<size_t>(box.volume() * size));
      b.resize(a.size());
      SCALAI_RETURN_IF_ERROR(view.checkpoint().read(tensor, box, a));
      SCALAI_RETURN_IF_ERROR(written->read(*other, box, b));
      if (a != b) return difference(folder, state, box);
      const std::lock_guard lock(mutex);
      compared += static_cast<int64_t>(a.size());
      report();
      return first;  // another thread's ends this one, too
    });
  };
  parallel_for(plan.threads, view.tensors().size(), [&](size_t work) {
    const absl::Status status = compare(work);
    const std::lock_guard lock(mutex);
    if (first.ok()) first = status;
  });
  return first;
}

class Run {
 public:
  Run(const View& view, const ReshardPlan& plan, const ReshardOptions& options)
      : view_(view), plan_(plan), options_(options), places_(internal::places_of(options.target)) {}

  absl::StatusOr<ReshardResult> run() {
    result_.files = static_cast<int64_t>(plan_.files.size());
    result_.bytes_total = plan_.bytes_total;
    if (view_.checkpoint().accepts_damage()) SCALAI_RETURN_IF_ERROR(find_damage());
    SCALAI_RETURN_IF_ERROR(internal::check_apart(places_, view_.checkpoint()));
    // Without a journal nobody has begun here, and nobody else may while this one is open.
    if (!is_there(places_.journal)) SCALAI_RETURN_IF_ERROR(check_target());
    // Nothing tells whether what an earlier run wrote is of what is read now.
    const bool restart = options_.restart || (!options_.trust_source && !view_.checkpoint().has_versions());
    SCALAI_ASSIGN_OR_RETURN(journal_, Journal::open(places_.journal, job_of(view_, plan_, result_.damage), restart));
    if (journal_->publishing()) {
      SCALAI_ASSIGN_OR_RETURN(const bool complete, finish_publishing());
      if (complete) return result_;
    }
    const absl::Status prepared = prepare();
    if (!prepared.ok()) {
      tidy_up();
      return prepared;
    }
    internal::ReshardWriter writer(view_, plan_, options_, places_.partial, *journal_);
    const absl::Status status = writer.run();
    result_.bytes_written = writer.bytes_written();
    if (!status.ok()) return is_for_good(status) ? given_up(status) : resumable(status);
    const absl::Status published = publish(writer);
    if (!published.ok()) return absl::IsInvalidArgument(published) ? published : resumable(published);
    return result_;
  }

 private:
  absl::Status check_target() const { return internal::check_target(places_, options_.force); }
  bool begun() const { return !journal_->done().empty() || !journal_->begun().empty(); }

  absl::Status prepare() {
    SCALAI_RETURN_IF_ERROR(check_target());
    if (is_there(places_.partial)) SCALAI_RETURN_IF_ERROR(take_over());
    SCALAI_RETURN_IF_ERROR(verify_source());
    SCALAI_RETURN_IF_ERROR(make_synced_folders(places_.partial));
    SCALAI_RETURN_IF_ERROR(check_room(places_, plan_));
    return journal_->begin();
  }

  // DST.partial is gone on with, or is an earlier run's and is removed, or is somebody else's.
  absl::Status take_over() const {
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(places_.partial, error))) {
      return invalid(fmt::format("{}: is there and not a folder; move it away", places_.partial));
    }
    const std::optional<std::string> foreign = internal::foreign_entry(places_.partial, [&](const std::string& name) {
      if (name.ends_with('/')) return view_.has_folder(name);
      return name == kManifestName || view_.find(name).has_value();
    });
    if (begun()) {
      if (!foreign) return absl::OkStatus();
      return invalid(
          fmt::format("{}: has \"{}\", which is not of what is written there; move it away, or --restart "
                      "removes all of it",
                      places_.partial, clipped(*foreign, 120)));
    }
    // A run that was killed before its first sync point leaves a journal that says nothing, and files of the view.
    const bool ours = journal_->was_there() ? options_.restart || !foreign : options_.restart && !foreign;
    if (ours || internal::is_empty_folder(places_.partial)) {
      remove_folder(places_.partial);
      return absl::OkStatus();
    }
    if (!foreign) {
      return invalid(
          fmt::format("{}: is there, and no journal says what it is; --restart removes it", places_.partial));
    }
    return invalid(fmt::format("{}: is there with \"{}\", and no journal describes it; move it away", places_.partial,
                               clipped(*foreign, 120)));
  }

  void tidy_up() const {
    if (begun()) return;
    std::error_code ignored;
    if (internal::is_empty_folder(places_.partial)) fs::remove(places_.partial, ignored);
    if (!journal_->was_there() || !is_there(places_.partial)) (void)journal_->remove();
  }

  absl::Status find_damage() {
    return view_.checkpoint().verify(
        {.threads = plan_.threads, .sums = true, .replicas = false, .damage = &result_.damage, .progress = checking()});
  }

  std::function<void(int64_t, int64_t)> checking() const {
    return [this](int64_t done, int64_t all) {
      if (options_.progress) options_.progress({"checking", done, all, done});
    };
  }

  // A source that is damaged or has changed stays so; a function that fails, for one, may be mended.
  bool is_for_good(const absl::Status& status) const {
    return absl::IsInvalidArgument(status) && (view_.checkpoint().has_damage() || !view_.checkpoint().confirm().ok());
  }

  // The source was changed or is damaged: another run would not read the same.
  absl::Status given_up(absl::Status status) {
    if (view_.checkpoint().has_damage()) {
      const absl::Status all =
          view_.checkpoint().verify({.threads = plan_.threads, .replicas = false, .progress = checking()});
      if (absl::IsInvalidArgument(all)) status = all;
      status = invalid(message_of(status) +
                       "\nThe source is damaged, and nothing is written; --accept-damage copies it "
                       "all the same, and the manifest says what is damaged");
    }
    remove_folder(places_.partial);
    (void)journal_->remove();
    return status;
  }

  // What is damaged already would be compared with itself afterwards; of replicas that differ one would be chosen.
  absl::Status verify_source() const {
    if (!options_.verify && !options_.compare_replicas) return absl::OkStatus();
    const absl::Status status =
        view_.checkpoint().verify({.threads = plan_.threads,
                                   .sums = options_.verify && !view_.checkpoint().accepts_damage(),
                                   .replicas = options_.compare_replicas,
                                   .part = view_.spec().part,
                                   .parts = view_.spec().parts,
                                   .progress = checking()});
    if (!absl::IsInvalidArgument(status)) return status;
    return invalid(fmt::format(
        "{}\n{}", message_of(status),
        view_.checkpoint().has_damage() ? "The source is damaged" : "hint: --replicas=first takes the first of each"));
  }

  absl::Status resumable(const absl::Status& status) const {
    return absl::Status(status.code(),
                        fmt::format("{}\nWhat is written stays in {}; the same command goes on from there",
                                    message_of(status), places_.partial));
  }

  // What is written, read again: as a checkpoint, or, of a part, which is none, as files.
  absl::Status read_back(internal::ReshardWriter& writer) const {
    if (!options_.verify) return absl::OkStatus();
    return view_.spec().parts > 1 ? writer.read_back() : verify_folder(view_, plan_, options_, places_.partial);
  }

  absl::Status publish(internal::ReshardWriter& writer) {
    SCALAI_ASSIGN_OR_RETURN(const std::string manifest, view_.manifest(writer.sums(), result_.damage));
    SCALAI_RETURN_IF_ERROR(write_synced(places_.partial + "/" + kManifestName, manifest));
    SCALAI_RETURN_IF_ERROR(sync_folders());
    const absl::Status same = read_back(writer);
    const absl::Status confirmed = view_.checkpoint().confirm();
    if (absl::IsInvalidArgument(confirmed)) return given_up(confirmed);
    if (absl::IsInvalidArgument(same) && view_.checkpoint().has_damage()) return given_up(same);
    if (absl::IsInvalidArgument(same)) {
      // Without --verify the same command must not find it done.
      SCALAI_RETURN_IF_ERROR(journal_->forget());
      return invalid(fmt::format("{}\nWhat was written is damaged; the same command writes it anew", message_of(same)));
    }
    SCALAI_RETURN_IF_ERROR(same);
    SCALAI_RETURN_IF_ERROR(confirmed);
    SCALAI_RETURN_IF_ERROR(check_target());
    SCALAI_RETURN_IF_ERROR(journal_->publish(Checksum().add(bytes_of(manifest)).hex()));
    const Existing existing = options_.force ? Existing::kReplaced : Existing::kRefused;
    SCALAI_RETURN_IF_ERROR(publish_folder(places_.partial, places_.target, existing));
    return journal_->remove();
  }

  // Those of the files, and their own.
  absl::Status sync_folders() const {
    std::set<std::string> folders = {places_.partial};
    for (const PlannedFile& file : plan_.files) folders.insert(parent_of(places_.partial + "/" + file.name));
    for (const std::string& folder : folders) SCALAI_RETURN_IF_ERROR(sync_folder(folder));
    return absl::OkStatus();
  }

  // A run was killed around the rename. Which folder has the manifest that was to be published tells whether it
  // happened: if DST.partial still has it, no; if only DST has it, yes, and DST.partial is what DST was before.
  absl::StatusOr<bool> finish_publishing() {
    const std::string published = *journal_->publishing();
    if (checksum_of_manifest(places_.partial) == published) {
      SCALAI_RETURN_IF_ERROR(journal_->withdraw());
      return false;
    }
    if (checksum_of_manifest(places_.target) != published) {
      if (is_there(places_.partial)) {
        return invalid(
            fmt::format("{}: an earlier run was about to give {} its name, and neither is what it wrote; "
                        "--restart removes the former and begins anew",
                        places_.partial, places_.target));
      }
      SCALAI_RETURN_IF_ERROR(journal_->forget());
      return false;
    }
    if (options_.verify && view_.spec().parts == 1) {
      const absl::Status same = verify_folder(view_, plan_, options_, places_.target);
      if (absl::IsInvalidArgument(same)) {
        return invalid(
            fmt::format("{}\nAn earlier run had finished it, and it is damaged; --force --restart writes it "
                        "anew",
                        message_of(same)));
      }
      SCALAI_RETURN_IF_ERROR(same);
    }
    remove_folder(places_.partial);
    SCALAI_RETURN_IF_ERROR(journal_->remove());
    result_.was_complete = true;
    return true;
  }

  const View& view_;
  const ReshardPlan& plan_;
  const ReshardOptions& options_;
  const ReshardPlaces places_;
  std::unique_ptr<Journal> journal_;
  ReshardResult result_;
};

}  // namespace

absl::StatusOr<ReshardResult> reshard(const View& view, const ReshardPlan& plan, const ReshardOptions& options) {
  SCALAI_CHECK(plan.files.size() == view.files(), view.name());
  return Run(view, plan, options).run();
}

}  // namespace scalai::store
