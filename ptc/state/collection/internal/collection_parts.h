#pragma once
// A collection file while it is read. Each part is checked and built by one function, which reports to `source` and
// builds what it can, so that the parts after it find problems of their own.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ptc/proto/source.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::proto {
class CollectionFile;
class CutDescription;
}  // namespace scalai::proto

namespace scalai::collection::internal {

constexpr int kMaxRanks = 1 << 17;
constexpr int64_t kMaxTensors = int64_t{1} << 18;
constexpr int64_t kMaxElements = int64_t{1} << 56;  // of a tensor or a bucket; sums and bytes stay in 64 bits

struct NamedLayout {
  tensor::Layout layout;
  std::string path;   // of the field with the cuts
  bool good = false;  // all its cuts are
};

struct Context {
  const proto::CollectionFile& message;
  proto::Source& source;
  Collection collection;
  Residency residency;
  std::map<std::string, int> meshes;           // good ones by name
  std::map<std::string, NamedLayout> layouts;  // by name
};

void build_layouts(Context& context);
// One cut, as far as it can be judged without mesh and tensor; nothing when it has a problem.
std::optional<tensor::Cut> build_cut(const proto::CutDescription& message, const std::string& path,
                                     proto::Source& source);
// Tensors and repeats. Meshes, devices and layouts are there.
void build_tensors(Context& context);

// The numbers of a list at `path`; nothing when it has a problem.
std::optional<std::vector<int>> build_ids(const std::string& path, const std::string& text, proto::Source& source);

// One cut as the file writes it: `axis: "tp" dim: 0 rule: CEIL`. Equal cuts, equal texts.
std::string cut_text(const tensor::Cut& cut);

}  // namespace scalai::collection::internal
