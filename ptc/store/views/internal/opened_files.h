#pragma once
// The steps that all kinds of checkpoints share while they are opened (opened.h): files and their tensors, the model,
// the names of its tensors, and the pieces that these give.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// A safetensors file or one of torch.save with its tensors, none of which has pieces yet. `found` gets the same for the
// naming; nullptr: nobody asks.
absl::StatusOr<OpenedFile> open_tensors(const Folder& folder, const std::string& name, FoundFile* found);

// Several. All that is wrong with their headers at once; NotFound when files are missing and nothing else is wrong.
// weight_map: who says that there are such files; may be empty.
absl::Status open_all(const Folder& folder, const std::vector<std::string>& names, const WeightMap& weight_map,
                      Opened& opened, std::vector<FoundFile>& found);

// The rows of a rank's part of the vocabulary, in files under Megatron's names; 0: there is none.
int64_t vocabulary_rows(const std::vector<FoundFile>& files);
// What is said where a vocabulary has more rows than the model words: nobody can tell padding from words that
// config.json does not count.
std::string note_of_padding(int64_t rows, int64_t words);
// Whether names are those of Transformer Engine's modules (RankArranger).
bool has_fused_names(const Opened& opened);

// The model that folder and options name, and the text of config.json.
absl::Status take_model(const Folder& folder, Opened& opened);
// InvalidArgument: the model is unknown, or its family has no such names.
absl::StatusOr<Naming> naming_of(const Folder& folder, const Opened& opened, const std::string& name);

// Gives the tensors of the opened files the pieces that a naming found. What has none is the caller's (left_out.h).
void take_pieces(FoundState&& state, Opened& opened);

}  // namespace scalai::store::internal
