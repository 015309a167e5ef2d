#pragma once
// The .idx of a Megatron shard, version 1: "MMIDIDX\0\0", u64 version, u8 dtype, u64 sequences, u64 entries of doc_idx,
// i32 lengths in tokens, i64 where each sequence begins in the .bin, i64 doc_idx; all little-endian. Computed on each
// read from the table and the index, so that documents of many sequences need no memory. Immutable; safe from several
// threads.

#include "ptc/store/datasets/views/internal/shard_image.h"

namespace scalai::datasets::internal {

ByteSourcePtr make_idx_image(ShardParts parts);  // parts.files is not used

// Its size for so many sequences and documents.
int64_t idx_bytes(int64_t sequences, int64_t documents);

}  // namespace scalai::datasets::internal
