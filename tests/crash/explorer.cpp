#include "tests/crash/explorer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "tests/crash/states.h"

namespace scalai::crash {
namespace {

namespace fs = std::filesystem;

void write_whole(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  SCALAI_CHECK(fd >= 0, path);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    SCALAI_CHECK(n > 0, path);
    at += static_cast<size_t>(n);
  }
  ::close(fd);
}

// Whether the operations give the folder, byte for byte.
absl::Status compare(const std::vector<Operation>& operations, const Subject& subject, const std::string& root) {
  Disk disk;
  for (const Operation& operation : operations) SCALAI_RETURN_IF_ERROR(disk.apply(operation));
  const Tree tree = disk.seen();
  size_t there = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = entry.path().lexically_relative(root);
    if (subject.ignores(path)) continue;
    ++there;
    const auto found = tree.entries.find(path);
    if (found == tree.entries.end()) return failed(fmt::format("{}: made by an operation that was not seen", path));
    if (found->second.kind != Kind::kMakeFile) continue;
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes, read_file(entry.path()));
    if (bytes != found->second.content->bytes)
      return failed(fmt::format("{}: written by an operation that was not seen", path));
  }
  for (const auto& [path, entry] : tree.entries) {
    if (!fs::exists(fs::symlink_status(root + "/" + path)))
      return failed(fmt::format("{}: removed by an operation that was not seen", path));
  }
  SCALAI_CHECK(there <= tree.entries.size());
  return absl::OkStatus();
}

// Of the moment after it: changes of names have more to say than flushes and promises, these more than a write.
constexpr double kNameWeight = 12;
double weight_of(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kWrite:
    case Kind::kResize: return 1;
    case Kind::kMark:
    case Kind::kSync:
    case Kind::kSyncAll: return 3;
    default: return kNameWeight;
  }
}

// A lock's file names its owner for people; no reader opens it, so its content is no reason for further states.
bool is_lock(const Operation& operation) {
  return (operation.kind == Kind::kWrite || operation.kind == Kind::kResize) && operation.path.ends_with(".lock");
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  operations += other.operations;
  moments += other.moments;
  states += other.states;
  checks += other.checks;
  found_old += other.found_old;
  found_new += other.found_new;
  failed += other.failed;
  return *this;
}

absl::StatusOr<std::vector<Operation>> record(const Recorder& recorder, Subject& subject, const std::string& folder) {
  const std::string root = folder + "/root", log = folder + "/log";
  fs::create_directories(root);
  std::vector<std::string> words = recorder.words;
  words.insert(words.begin(), recorder.program);
  words.push_back("--root=" + root);
  SCALAI_ASSIGN_OR_RETURN(
      const pid_t child,
      spawn({.program = recorder.program,
             .words = std::move(words),
             .environment = {{"LD_PRELOAD", recorder.library}, {kRootVariable, root}, {kLogVariable, log}}}));
  if (wait_for(child) != 0) return failed(fmt::format("{}: the work failed", root));
  SCALAI_ASSIGN_OR_RETURN(std::vector<Operation> operations, read_recording(log));
  SCALAI_RETURN_IF_ERROR(compare(operations, subject, root));
  fs::remove_all(folder);
  return subject.annotated(std::move(operations));
}

void materialise(const Tree& tree, const std::string& folder) {
  for (const auto& [path, entry] : tree.entries) {
    const std::string place = folder + "/" + path;
    if (entry.kind == Kind::kMakeFolder) {
      SCALAI_CHECK(::mkdir(place.c_str(), 0700) == 0, place);
    } else if (entry.kind == Kind::kSymlink) {
      SCALAI_CHECK(::symlink(entry.content->bytes.c_str(), place.c_str()) == 0, place);
    } else {
      write_whole(place, entry.content->bytes);
    }
  }
}

Explorer::Explorer(const std::vector<Operation>& operations, Subject& subject, std::string folder)
    : operations_(operations), subject_(subject), folder_(std::move(folder)) {
  tally_.operations = std::ssize(operations);
}

std::string Explorer::describe(const std::vector<Dimension>& dimensions, const Choice& choice, size_t moment,
                               const std::string& why) const {
  std::string text = fmt::format("{}: a crash after operation {} of {}: {}\nthe state: {}\n\n", subject_.name(),
                                 moment + 1, operations_.size(), why, folder_ + "/state");
  text += "pending changes, and which of them are there:\n";
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const bool torn = choice.torn == static_cast<int>(i);
    text += fmt::format("  {} of {}  {}{}\n", choice.values[i], dimensions[i].options - 1, dimensions[i].text,
                        torn ? fmt::format(", torn: sectors {:08b}", choice.sectors) : "");
  }
  text += "\noperations until then:\n";
  for (size_t i = 0; i <= moment; ++i)
    text += fmt::format("  {:5} [{}] {}\n", i + 1, operations_[i].process, operations_[i].str());
  return text;
}

bool Explorer::visit(const Disk& disk, const std::vector<Dimension>& dimensions, const Choice& choice, size_t moment) {
  const Tree tree = disk.tree(dimensions, choice);
  const std::string digest = tree.digest();
  if (!checks_.insert(fmt::format("{} {}", digest, marks_.size())).second) return true;
  ++tally_.checks;
  if (states_.insert(digest).second) ++tally_.states;
  const std::string state = folder_ + "/state";
  fs::remove_all(state);
  fs::create_directories(state);
  materialise(tree, state);
  const absl::StatusOr<Found> found = subject_.check(state, marks_);
  if (found.ok()) {
    ++(*found == Found::kOld ? tally_.found_old : tally_.found_new);
    return true;
  }
  ++tally_.failed;
  fs::remove_all(state);  // as it was before the readers came
  fs::create_directories(state);
  materialise(tree, state);
  failure_ = describe(dimensions, choice, moment, message_of(found.status()));
  (void)write_file(folder_ + "/description.txt", failure_);
  return false;
}

absl::StatusOr<bool> Explorer::explore(int64_t states, Random& random) {
  marks_.clear();
  Disk disk;
  size_t first = 0;
  for (size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].kind == Kind::kMark && operations_[i].data == kWatchMark) first = i;
  }
  double left = 0;
  for (size_t i = first; i < operations_.size(); ++i) left += weight_of(operations_[i]);
  const int64_t aim = tally_.states + states;
  for (size_t moment = 0; moment < operations_.size(); ++moment) {
    const Operation& operation = operations_[moment];
    SCALAI_RETURN_IF_ERROR(disk.apply(operation));
    if (is_lock(operation))
      SCALAI_RETURN_IF_ERROR(disk.apply({.kind = Kind::kSync, .path = operation.path, .inode = operation.inode}));
    if (operation.kind == Kind::kMark) marks_.push_back(operation.data);
    if (moment < first) continue;
    // A part of what is left; a change of a name always has its turn.
    const double weight = weight_of(operation);
    const double part = static_cast<double>(aim - tally_.states) * weight / left;
    left -= weight;
    const auto share = static_cast<int64_t>(std::max(weight == kNameWeight ? 6.0 : 2.0, part));
    if (weight < kNameWeight && part < 2 && random.uniform() > part / 2) continue;
    ++tally_.moments;
    const int64_t before = tally_.states;
    const std::vector<Dimension> dimensions = disk.dimensions();
    visit_choices(dimensions, share, random, [&](const Choice& choice) {
      return visit(disk, dimensions, choice, moment) && tally_.states - before < share;
    });
    if (tally_.failed > 0) return false;
  }
  return true;
}

}  // namespace scalai::crash
