#include "labs/near/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::near {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // of inputs, as often as they are named: sums of a few stay numbers
static_assert(kMostListed < kMostBytes);

std::string name_of_word(const std::string& word) { return std::filesystem::path(word).lexically_normal().string(); }

// How far a pipeline can be split, and what becomes of the outputs.
struct Split {
  size_t near = 0, merge_stage = 0, local_from = 0;
  Merge merge = Merge::kConcatenate;
  bool counts_sorted = false, after_sort = false, open = true;

  // Adds a command whose outputs merge so; false: it cannot follow.
  bool add(const Use& use, Merge merge_of_stage, size_t stage) {
    if (!open) return false;
    const bool sorted = merge == Merge::kSorted;
    switch (merge_of_stage) {
      case Merge::kConcatenate:
        if (sorted) return false;
        break;
      case Merge::kAgain:
        if (sorted && !use.keeps_first) return false;
        if (!sorted) merge = Merge::kAgain, merge_stage = stage;
        open = false;
        break;
      case Merge::kSorted:
        if (sorted) return false;
        merge = Merge::kSorted, merge_stage = stage, after_sort = use.byte_order;
        break;
      case Merge::kCounted:
        if (sorted && !after_sort) return false;
        counts_sorted = sorted;
        merge = Merge::kCounted, merge_stage = stage, open = false;
        break;
      case Merge::kSum:
      case Merge::kColumns:
        if (sorted) return false;
        merge = merge_of_stage, merge_stage = stage, open = false;
        break;
      case Merge::kNotSplit: return false;
    }
    near = stage + 1;
    local_from = merge == Merge::kAgain ? merge_stage : merge == Merge::kSorted ? merge_stage + 1 : near;
    return true;
  }
};

int64_t guessed_output(const std::vector<Use>& uses, size_t near, int64_t bytes, size_t files) {
  double put_out = static_cast<double>(bytes);
  for (size_t i = 0; i < near; ++i) {
    const double fixed = static_cast<double>(uses[i].bytes_a_file) * static_cast<double>(i == 0 ? files : 0) +
                         static_cast<double>(uses[i].bytes_a_part);
    put_out = uses[i].share * put_out + fixed;
    if (uses[i].share == 0 && uses[i].bytes_a_part > 0) put_out = std::min(put_out, static_cast<double>(bytes));
  }
  return static_cast<int64_t>(std::min(put_out, static_cast<double>(kMostBytes)));
}

class Placer {
 public:
  Placer(const std::vector<Use>& uses, const Source& source, const PlaceOptions& options)
      : uses_(uses), source_(source), options_(options), most_(std::min(options.most_near, uses.size())) {}

  Placement place() {
    Placement best = locally();
    best.why[0] = "no way near moves fewer bytes";
    if (const std::string why = unusable(); !why.empty()) {
      best.why[0] = why;
      return best;
    }
    for (Placement& other : ways()) {
      const auto rank = [this](const Placement& one) {
        return std::tuple(one.moved_bytes, -static_cast<int64_t>(one.near), -std::min(std::ssize(one.parts), jobs()));
      };
      if (rank(other) < rank(best)) best = std::move(other);
    }
    return best;
  }

 private:
  const std::vector<std::string>& inputs() const { return uses_[0].inputs; }
  const FileFacts& facts(const std::string& file) const { return *source_.find(file); }

  // Parts at a time: more of them are no faster.
  int64_t jobs() const { return std::accumulate(source_.jobs.begin(), source_.jobs.end(), int64_t{0}); }

  // Of the inputs that count, as often as they are named; at most kMostBytes.
  int64_t bytes_of_inputs(const std::function<bool(const std::string& file)>& counts = {}) const {
    int64_t bytes = 0;
    for (const std::string& file : inputs()) {
      const FileFacts* found = source_.find(file);
      if (found != nullptr && (!counts || counts(file))) bytes = std::min(kMostBytes, bytes + found->bytes);
    }
    return bytes;
  }

  // Why nothing can run near.
  std::string unusable() const {
    if (most_ == 0) return "kept here: what is near it would not put out the same";
    if (!uses_[0].why_local.empty()) return uses_[0].why_local;
    if (bytes_of_inputs() == kMostBytes) return "its input has 2^60 bytes or more";
    for (const std::string& file : inputs())
      if (source_.find(file) == nullptr) return fmt::format("{} is no file of the source", file);
    return "";
  }

  Placement locally() const {
    Placement placement;
    for (const Use& use : uses_)
      placement.why.push_back(use.why_local.empty() ? "follows one that runs here" : use.why_local);
    if (!uses_[0].why_local.empty()) return placement;
    placement.input_bytes = bytes_of_inputs();
    placement.moved_bytes = bytes_of_inputs([&](const std::string& file) {
      for (size_t host = 0; host < source_.hosts.size(); ++host)
        if (source_.hosts[host].here && source_.has(host, file)) return false;
      return true;
    });
    placement.moved_if_local_bytes = placement.moved_bytes;
    return placement;
  }

  // Splits, and single parts on hosts that have all.
  std::vector<Placement> ways() const {
    std::vector<Placement> found;
    for (const bool ranges : {false, true}) {
      const std::vector<PlacedPart> parts = parts_of(ranges);
      if (parts.size() < 2) continue;
      Split split;
      for (size_t i = 0; i < most_; ++i) {
        if (!uses_[i].why_local.empty()) break;
        const Merge merge = i == 0 && !ranges ? by_file() : uses_[i].by_record;
        if (!split.add(uses_[i], merge, i)) break;
        if (worth_waiting(split, parts)) found.push_back(finished(split, parts));
      }
    }
    for (size_t host = 0; host < source_.hosts.size(); ++host) {
      if (source_.hosts[host].here) continue;  // that is what running locally is
      if (!std::all_of(inputs().begin(), inputs().end(),
                       [&](const std::string& file) { return source_.has(host, file); }))
        continue;
      PlacedPart all{.host = host, .files = inputs(), .ranges = {}, .bytes = 0};
      for (const std::string& file : inputs()) all.bytes += facts(file).bytes;
      for (size_t near = 1; near <= most_ && uses_[near - 1].why_local.empty(); ++near) {
        Split split;
        split.near = split.local_from = near;
        found.push_back(finished(split, {all}));
      }
    }
    return found;
  }

  // Parts that all run here save no bytes over links, and their outputs wait in files: processors beside each other are
  // worth it where little comes out, or what comes out is sorted.
  bool worth_waiting(const Split& split, const std::vector<PlacedPart>& parts) const {
    int64_t read = 0, put_out = 0;
    for (const PlacedPart& part : parts) {
      if (!source_.hosts[part.host].here) return true;
      read += part.bytes;
      put_out = std::min(
          kMostBytes, put_out + guessed_output(uses_, split.near, part.bytes, std::max<size_t>(part.files.size(), 1)));
    }
    return split.merge == Merge::kSorted || put_out <= read / 2;
  }

  Placement finished(const Split& split, const std::vector<PlacedPart>& parts) const {
    Placement placement = locally();
    placement.near = split.near;
    placement.parts = parts;
    placement.merge = split.merge;
    placement.merge_stage = split.merge_stage;
    placement.local_from = split.local_from;
    placement.counts_sorted = split.counts_sorted;
    placement.moved_bytes = 0;
    for (const PlacedPart& part : parts) {
      if (!source_.hosts[part.host].here)
        placement.moved_bytes =
            std::min(kMostBytes, placement.moved_bytes + guessed_output(uses_, split.near, part.bytes,
                                                                        std::max<size_t>(part.files.size(), 1)));
    }
    for (size_t i = 0; i < split.near; ++i) placement.why[i] = "";
    for (size_t i = split.near; i < uses_.size(); ++i) {
      if (uses_[i].why_local.empty())
        placement.why[i] = i == split.near ? "what is put out before it is of parts" : "follows one that runs here";
    }
    return placement;
  }

  // Of the first command, split by file.
  Merge by_file() const {
    const Use& use = uses_[0];
    for (size_t i = 0; i < inputs().size(); ++i) {
      const FileFacts& of = facts(inputs()[i]);
      const bool joins = (i > 0 && of.has_mark) || (i + 1 < inputs().size() && !of.ends_whole);
      if (use.joins_files && joins) return Merge::kNotSplit;
      // wc puts such a name into quotes, which its other lines have not.
      if (use.by_file == Merge::kColumns && inputs()[i].find('\n') != std::string::npos) return Merge::kNotSplit;
    }
    return use.by_file;
  }

  // Whether files may be cut: a part of one goes to standard input.
  bool may_cut() const {
    const Use& use = uses_[0];
    return options_.cuts && use.same_on_stdin && use.by_record != Merge::kNotSplit &&
           (use.by_record == use.by_file || inputs().size() == 1);
  }

  // Whether the file can follow what the part has. On standard input a last line without its end would go on in it.
  bool may_join(const PlacedPart& part, const std::string& file, int64_t target) const {
    if (!source_.has(part.host, file) || part.bytes + facts(file).bytes > target) return false;
    return part.ranges.empty() || facts(part.ranges.back().file).ends_whole;
  }

  // Parts in the order of the input: runs of small files that one host has. With `ranges` large files are cut.
  std::vector<PlacedPart> parts_of(bool ranges) const {
    if (ranges && !may_cut()) return {};
    const int64_t total = bytes_of_inputs();
    const int64_t target = std::max(options_.part_bytes, (total + jobs() - 1) / std::max<int64_t>(jobs(), 1));
    std::vector<int64_t> load(source_.hosts.size(), 0);
    std::vector<PlacedPart> parts;
    for (const std::string& file : inputs()) {
      const int64_t bytes = facts(file).bytes,
                    pieces = ranges ? std::max<int64_t>(1, (bytes + target - 1) / target) : 1;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t begin = bytes / pieces * piece, end = piece + 1 == pieces ? bytes : bytes / pieces * (piece + 1);
        const bool joins = pieces == 1 && !parts.empty() && may_join(parts.back(), file, target);
        if (!joins) parts.push_back({.host = least_loaded(file, load), .files = {}, .ranges = {}, .bytes = 0});
        PlacedPart& part = parts.back();
        if (ranges) {
          part.ranges.push_back({.file = file, .begin = begin, .end = end, .records = true});
        } else {
          part.files.push_back(file);
        }
        part.bytes += end - begin;
        load[part.host] += end - begin;
      }
    }
    return parts;
  }

  size_t least_loaded(const std::string& file, const std::vector<int64_t>& load) const {
    std::optional<size_t> best;
    for (size_t host = 0; host < load.size(); ++host) {
      const auto rank = [&](size_t one) { return std::pair(load[one] / std::max(source_.jobs[one], 1), one); };
      if (source_.has(host, file) && (!best || rank(host) < rank(*best))) best = host;
    }
    SCALAI_CHECK(best.has_value(), file);
    return *best;
  }

  const std::vector<Use>& uses_;
  const Source& source_;
  const PlaceOptions& options_;
  const size_t most_;
};

}  // namespace

const FileFacts* Source::find(const std::string& word) const {
  const auto found = files.find(name_of_word(word));
  return found == files.end() ? nullptr : &found->second;
}

bool Source::has(size_t host, const std::string& word) const { return by_host[host].contains(name_of_word(word)); }

std::vector<std::string> Source::names() const {
  std::vector<std::string> all;
  for (const auto& [name, facts] : files) all.push_back(name);
  return all;
}

absl::Status unite(Source& source) {
  std::map<std::string, size_t> first;  // host
  std::vector<std::string> differ;
  for (size_t host = 0; host < source.hosts.size(); ++host) {
    for (const auto& [name, facts] : source.by_host[host]) {
      const auto [known, fresh] = first.emplace(name, host);
      if (fresh) {
        source.files[name] = facts;
      } else if (const FileFacts& other = source.files[name]; !(other == facts)) {
        differ.push_back(fmt::format("{}: {} bytes on {}, {} on {}", name, other.bytes,
                                     source.hosts[known->second].name, facts.bytes, source.hosts[host].name));
      }
    }
  }
  if (differ.empty()) return absl::OkStatus();
  constexpr size_t kMostNamed = 10;
  const size_t more = differ.size() - std::min(differ.size(), kMostNamed);
  differ.resize(differ.size() - more);
  return invalid(
      fmt::format("hosts have files of one name that are not the same:\n  {}{}\nhint: files of a source have one "
                  "content wherever they lie; --host=NAME=PATH says where",
                  fmt::join(differ, "\n  "), more > 0 ? fmt::format("\n  and {} more", more) : ""));
}

Placement place(const std::vector<Use>& uses, const Source& source, const PlaceOptions& options) {
  SCALAI_CHECK(!uses.empty());
  return Placer(uses, source, options).place();
}

}  // namespace scalai::near
