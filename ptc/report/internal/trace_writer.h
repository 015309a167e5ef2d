#pragma once
// Writes a Perfetto trace: groups of tracks with slices, instants, counters, and arrows between slices. Equal calls
// give equal bytes. One thread; knows nothing of runs.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace scalai::report {

uint64_t nanoseconds(double seconds);  // of scenario time; nothing is before 0

// What a viewer shows beside a slice. Names and texts outlive the call that gives them.
struct Note {
  const char* name;
  std::variant<int64_t, std::string_view> value;
};

struct Slice {
  uint64_t begin = 0, end = 0;
  std::string name;
  int64_t about = -1;  // asked for notes by this number; −1: it has none
  // An arrow leads from the slice that sends to the one that receives, if both have the same number (`about`).
  enum class Arrow : uint8_t { kNone, kSends, kReceives };
  Arrow arrow = Arrow::kNone;
};

class TraceWriter {
 public:
  TraceWriter();
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // A group of tracks, shown in the order they are added.
  uint64_t group(const std::string& name);
  uint64_t track(uint64_t parent, const std::string& name);
  uint64_t counter(uint64_t parent, const std::string& name, const std::string& unit);
  uint64_t byte_counter(uint64_t parent, const std::string& name);

  using Notes = std::function<std::vector<Note>(int64_t about)>;
  // On a track of their own. Slices that overlap cannot share a track unless they nest: they go to "name 2", "name 3",
  // …
  void slices(uint64_t parent, const std::string& name, std::vector<Slice> slices, const Notes& notes = nullptr);
  // On one track in order of time.
  void instants(uint64_t track, std::vector<std::pair<uint64_t, std::string>> instants);
  void value(uint64_t track, double at_s, double value);
  void value(uint64_t track, double at_s, int64_t value);

  // The file: descriptors, then all events in order of time.
  std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Keeps the `most` largest of `count` things, the earlier of equal ones. Returns which are kept, by index.
std::vector<bool> largest(size_t count, size_t most, const std::function<double(size_t)>& size);

}  // namespace scalai::report
