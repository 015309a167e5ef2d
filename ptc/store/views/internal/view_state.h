#pragma once
// What a View consists of, for its .cpp files.

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ptc/store/naming/arrange.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/internal/file_image.h"
#include "ptc/store/views/view.h"

namespace scalai::store {

struct ViewFile {
  std::string name;
  std::optional<std::string> text;  // of a small file
  size_t part = 0;                  // else: the rank, or the number among `whole`
  bool along = false;               // else: the source's file of this name goes along as it is
};

struct View::State {
  std::shared_ptr<const Checkpoint> checkpoint;
  ViewSpec spec;
  std::string name;
  std::vector<ViewFile> files;                       // by name
  std::vector<ArrangedFile> whole;                   // without a layout
  std::optional<collection::Collection> collection;  // with one
  std::optional<RankArranger> arranger;              // of the collection; not for "job"
  std::vector<std::vector<OwnedBox>> owned;          // "job": by rank
  Manifest stamp;                                    // "job": without files
  std::vector<std::string> notes;
  std::vector<size_t> tensors;

  mutable std::mutex mutex;
  mutable std::vector<int64_t> sizes;  // by file; -1: not known yet
  mutable std::vector<std::weak_ptr<const internal::FileImage>> images;

  absl::Status lay_out();
  absl::Status lay_out_whole(const Naming& naming);
  absl::Status lay_out_ranks();
  absl::Status arrange_ranks();
  absl::Status lay_out_torch();
  absl::Status lay_out_vllm();
  void lay_out_chunks();
  // Whether the files hold states of this kind, and the specification does not leave them out.
  bool has_place(model::StateKind kind) const;
  // Fills `tensors` with those that are chosen, and notes how many are not.
  void take_states(const std::function<bool(const LogicalState&)>& chosen);
  void as_torch(const std::string& path, ArrangedFile& file) const;
  absl::Status lay_out_job();
  absl::StatusOr<Naming> naming() const;
  std::string layout_name() const;
  void describe();  // adds the small files
  void take_along();
  absl::StatusOr<ArrangedFile> arrange(size_t file) const;
  ArrangedFile arrange_job(size_t rank) const;
};

}  // namespace scalai::store
