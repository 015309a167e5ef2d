#pragma once
// Whole tensors as a folder of torch.distributed.checkpoint: which chunks its files have, and the index of them under
// the keys that are asked for when it is loaded.
//
//   arranged tensors ─► as_chunks: [layer, expert, rows, columns] ─► files ─► chunk_index: ".metadata"
//
// Megatron-Core ("torch_dist") stacks layers and experts where all layers are alike, and asks for what Transformer
// Engine fuses under other names; one chunk is in the index under all of them, so that any of its models finds what it
// looks for. torch ("dcp") has the keys of {"model": model, "optim": optimizer}, as
// torch.distributed.checkpoint.state_dict makes them.

#include <string>
#include <vector>

#include "ptc/store/naming/arrangement.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store::internal {

enum class ChunkKeys : uint8_t { kMegatron, kTorch };

// Turns files of whole tensors into files of chunks, named as torch does, in `folder` ("", "release/").
void as_chunks(std::vector<ArrangedFile>& files, const Checkpoint& checkpoint, ChunkKeys keys,
               const std::string& folder);
// The text of ".metadata" of files from as_chunks, and of objects in others; names in it are relative to `folder`.
std::string chunk_index(const std::vector<ArrangedFile>& files, const Checkpoint& checkpoint, ChunkKeys keys,
                        const std::string& folder, const std::vector<DcpObject>& objects = {});

}  // namespace scalai::store::internal
