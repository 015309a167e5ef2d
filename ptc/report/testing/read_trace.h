#pragma once
// Reads a trace as a viewer does, and checks that it is sound on the way: no event without a track, no track goes back
// in time, slices nest, names are unique, each arrow begins before it ends.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace scalai::report::testing {

struct ReadSlice {
  uint64_t begin = 0, end = 0;
  std::string name;
  std::map<std::string, std::string> notes;
};

// From a slice to another, by their tracks.
struct ReadArrow {
  std::string from, to;
  ReadSlice sent, received;  // without their ends
};

struct ReadTrack {
  std::string group, name, unit;
  bool counter = false;
  std::vector<ReadSlice> slices;  // in order of end
  std::vector<std::pair<uint64_t, double>> values;
  std::vector<std::pair<uint64_t, std::string>> instants;
  std::vector<ReadSlice> open;
  uint64_t last = 0;
};

class ReadTrace {
 public:
  explicit ReadTrace(const std::string& bytes);

  // The first of this name; a failure if there is none.
  const ReadTrack& track(const std::string& name) const;
  const std::map<uint64_t, ReadTrack>& tracks() const { return tracks_; }  // by uuid
  const std::vector<ReadArrow>& arrows() const { return arrows_; }

 private:
  struct Reader;
  std::map<uint64_t, ReadTrack> tracks_;
  std::vector<ReadArrow> arrows_;
};

// "train 0-10", times in seconds.
std::vector<std::string> slice_texts(const ReadTrack& track);

}  // namespace scalai::report::testing
