#pragma once
// What a collection file says about one tensor, or about all that a repeat makes of it, before numbers are filled in.

#include <optional>
#include <string>
#include <vector>

#include "ptc/state/collection/internal/collection_parts.h"

namespace scalai::proto {
class TensorDescription;
class TensorRepeat;
}  // namespace scalai::proto

namespace scalai::collection::internal {

// A repeat around a tensor, and the repetition it is in.
struct Frame {
  const proto::TensorRepeat* repeat = nullptr;
  std::string path;
  int number = 0;
};
using Frames = std::vector<Frame>;  // outermost first

struct Template {
  LogicalTensor tensor;                  // the name still with "{variable}"
  std::string cuts_path;                 // of the field with the cuts
  bool named = false;                    // the cuts are a named layout's
  std::vector<std::vector<int>> spread;  // by frame: coordinate of each repetition; empty = not spread
};

// Nothing when there is a problem, which then is reported.
std::optional<Template> build_template(Context& context, const proto::TensorDescription& message,
                                       const std::string& path, const Frames& frames);

LogicalTensor filled(const Template& from, const Frames& frames);

// Whether two names such as "tp" and "cp+tp" have an axis in common.
bool share_an_axis(const std::string& a, const std::string& b);

}  // namespace scalai::collection::internal
