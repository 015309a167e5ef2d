#define FUSE_USE_VERSION 35
#include "vfs/internal/operations.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "vfs/control.h"
#include "vfs/errors.h"
#include "vfs/internal/file_system.h"

namespace scalai::vfs {
namespace {

constexpr double kForever_s = 365.0 * 24 * 3600;
constexpr off_t kDots = 2;  // "." and ".." come before the entries of a listing

FileSystem& system_of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

// Counts and logs what failed, and tells the kernel.
void refuse(fuse_req_t request, const std::string& path, const absl::Status& status, int error,
            LogRate rate = LogRate::kAll) {
  FileSystem& system = system_of(request);
  std::string why = message_of(status);
  if (!why.empty()) {
    ++system.statistics.errors;
    for (size_t end = why.find('\n'); end != std::string::npos; end = why.find('\n', end)) why.replace(end, 1, "; ");
    system.log.line(fmt::format("{}: {}", path, why), rate);
  }
  fuse_reply_err(request, error);
}

// --- attributes ------------------------------------------------------------------------------------------------------

mode_t mode_of(Kind kind) {
  switch (kind) {
    case Kind::kDirectory: return S_IFDIR | 0555;
    case Kind::kFile: return S_IFREG | 0444;
    case Kind::kLink: return S_IFLNK | 0777;
  }
  return 0;
}

absl::StatusOr<int64_t> size_of(const Node& node) {
  if (const auto* file = std::get_if<std::shared_ptr<File>>(&node)) return (*file)->size();
  if (const auto* link = std::get_if<std::shared_ptr<Link>>(&node))
    return static_cast<int64_t>((*link)->target().size());
  return 4096;
}

absl::StatusOr<struct stat> attributes_of(const FileSystem& system, const KnownNode& known) {
  SCALAI_ASSIGN_OR_RETURN(const int64_t size, size_of(known.node));
  struct stat attributes = {};
  attributes.st_ino = known.inode;
  attributes.st_mode = mode_of(kind_of(known.node));
  attributes.st_nlink = 1;
  attributes.st_uid = system.uid;
  attributes.st_gid = system.gid;
  attributes.st_size = size;
  attributes.st_blksize = static_cast<blksize_t>(FileSystem::kBufferBytes);
  attributes.st_blocks = (size + 511) / 512;
  attributes.st_atim = attributes.st_mtim = attributes.st_ctim = system.mounted_at;
  return attributes;
}

// What is shown never changes, but for the target of a link.
double attribute_timeout(const Node& node) { return kind_of(node) == Kind::kLink ? 0 : kForever_s; }

// A node that is counted in the table; errors uncount it.
absl::StatusOr<fuse_entry_param> entry_of(FileSystem& system, const KnownNode& known) {
  const auto attributes = attributes_of(system, known);
  if (!attributes.ok()) {
    system.nodes.forget(known.id, 1);
    return attributes.status();
  }
  fuse_entry_param entry = {};
  entry.ino = known.id;
  entry.attr = *attributes;
  entry.entry_timeout = kForever_s;
  entry.attr_timeout = attribute_timeout(known.node);
  return entry;
}

// Nullptr, and the request is answered, when the kernel names what is no directory.
std::shared_ptr<Directory> directory_of(fuse_req_t request, const KnownNodePtr& known) {
  if (known == nullptr) {
    fuse_reply_err(request, ENOENT);
    return nullptr;
  }
  const auto* directory = std::get_if<std::shared_ptr<Directory>>(&known->node);
  if (directory != nullptr) return *directory;
  fuse_reply_err(request, ENOTDIR);
  return nullptr;
}

absl::StatusOr<KnownNodePtr> find_child(FileSystem& system, const KnownNode& parent, Directory& directory,
                                        const std::string& name) {
  if (KnownNodePtr known = system.nodes.look_up(parent, name)) return known;
  SCALAI_ASSIGN_OR_RETURN(Node node, directory.find(name));
  return system.nodes.look_up(parent, name, std::move(node));
}

// --- names and attributes --------------------------------------------------------------------------------------------

void look_up(fuse_req_t request, fuse_ino_t parent_id, const char* name) {
  FileSystem& system = system_of(request);
  ++system.statistics.lookups;
  const KnownNodePtr parent = system.nodes.get(parent_id);
  const auto directory = directory_of(request, parent);
  if (directory == nullptr) return;
  const std::string path = path_of(parent->path, name);
  const auto known = find_child(system, *parent, *directory, name);
  if (!known.ok()) return refuse(request, path, known.status(), errno_of_find(known.status()), LogRate::kLimited);
  const auto entry = entry_of(system, **known);
  if (!entry.ok()) return refuse(request, path, entry.status(), errno_of_read(entry.status()));
  if (fuse_reply_entry(request, &*entry) != 0) system.nodes.forget((*known)->id, 1);  // whoever asked is gone
}

void forget(fuse_req_t request, fuse_ino_t id, uint64_t count) {
  system_of(request).nodes.forget(id, count);
  fuse_reply_none(request);
}

void forget_many(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  for (size_t i = 0; i < count; ++i) system_of(request).nodes.forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

void get_attributes(fuse_req_t request, fuse_ino_t id, fuse_file_info*) {
  FileSystem& system = system_of(request);
  const KnownNodePtr known = system.nodes.get(id);
  if (known == nullptr) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const auto attributes = attributes_of(system, *known);
  if (!attributes.ok()) return refuse(request, known->path, attributes.status(), errno_of_read(attributes.status()));
  fuse_reply_attr(request, &*attributes, attribute_timeout(known->node));
}

void read_link(fuse_req_t request, fuse_ino_t id) {
  const KnownNodePtr known = system_of(request).nodes.get(id);
  const auto* link = known == nullptr ? nullptr : std::get_if<std::shared_ptr<Link>>(&known->node);
  if (link == nullptr) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  fuse_reply_readlink(request, (*link)->target().c_str());
}

void stat_file_system(fuse_req_t request, fuse_ino_t) {
  struct statvfs facts = {};
  facts.f_bsize = facts.f_frsize = FileSystem::kBufferBytes;
  facts.f_namemax = 255;
  facts.f_flag = ST_RDONLY;
  fuse_reply_statfs(request, &facts);
}

// --- listings --------------------------------------------------------------------------------------------------------

void open_directory(fuse_req_t request, fuse_ino_t id, fuse_file_info* info) {
  const auto directory = directory_of(request, system_of(request).nodes.get(id));
  if (directory == nullptr) return;
  info->cache_readdir = directory->fixed() ? 1 : 0;
  info->keep_cache = directory->fixed() ? 1 : 0;
  fuse_reply_open(request, info);
}

// Fills one reply of a listing.
class Listing {
 public:
  Listing(fuse_req_t request, const KnownNode& parent, Directory& directory, size_t bytes, bool plus)
      : request_(request), parent_(parent), directory_(directory), buffer_(bytes), plus_(plus) {}

  void fill(off_t from) {
    const off_t end = directory_.entries() + kDots;
    for (off_t at = std::max<off_t>(from, 0); at < end; ++at) {
      if (at >= kDots) at = directory_.listed_from(at - kDots) + kDots;
      if (at >= end || !(at < kDots ? add_dots(at) : add_entry(at))) break;
    }
    fuse_reply_buf(request_, buffer_.data(), used_);
  }

 private:
  bool add_dots(off_t at) { return add(at == 0 ? "." : "..", named(parent_.inode, Kind::kDirectory), at); }

  bool add_entry(off_t at) {
    const Entry shown = directory_.entry(at - kDots);
    if (shown.name.empty()) return true;  // went meanwhile
    fuse_entry_param entry = named(inode_of(path_of(parent_.path, shown.name)), shown.kind);
    if (plus_ && directory_.quick()) {
      // What cannot be looked at is listed all the same, and says why when it is asked for itself.
      FileSystem& system = system_of(request_);
      const auto known = find_child(system, parent_, directory_, shown.name);
      const auto whole = known.ok() ? entry_of(system, **known) : absl::StatusOr<fuse_entry_param>(known.status());
      if (whole.ok()) entry = *whole;
    }
    if (add(shown.name, entry, at)) return true;
    if (entry.ino != 0) system_of(request_).nodes.forget(entry.ino, 1);  // it goes into the next reply
    return false;
  }

  // Without the number of a node, which tells the kernel that attributes are not here.
  static fuse_entry_param named(uint64_t inode, Kind kind) {
    fuse_entry_param entry = {};
    entry.attr.st_ino = inode;
    entry.attr.st_mode = mode_of(kind);
    return entry;
  }

  // False: there is no room left.
  bool add(const std::string& name, const fuse_entry_param& entry, off_t at) {
    char* const where = buffer_.data() + used_;
    const size_t room = buffer_.size() - used_;
    const size_t needed = plus_ ? fuse_add_direntry_plus(request_, where, room, name.c_str(), &entry, at + 1)
                                : fuse_add_direntry(request_, where, room, name.c_str(), &entry.attr, at + 1);
    if (needed > room) return false;
    used_ += needed;
    return true;
  }

  fuse_req_t request_;
  const KnownNode& parent_;
  Directory& directory_;
  std::vector<char> buffer_;
  size_t used_ = 0;
  bool plus_;
};

void list(fuse_req_t request, fuse_ino_t id, size_t bytes, off_t from, bool plus) {
  const KnownNodePtr known = system_of(request).nodes.get(id);
  const auto directory = directory_of(request, known);
  if (directory == nullptr) return;
  Listing(request, *known, *directory, bytes, plus).fill(from);
}

void read_directory(fuse_req_t request, fuse_ino_t id, size_t bytes, off_t from, fuse_file_info*) {
  list(request, id, bytes, from, /*plus=*/false);
}

void read_directory_plus(fuse_req_t request, fuse_ino_t id, size_t bytes, off_t from, fuse_file_info*) {
  list(request, id, bytes, from, /*plus=*/true);
}

// --- reading ---------------------------------------------------------------------------------------------------------

void open_file(fuse_req_t request, fuse_ino_t id, fuse_file_info* info) {
  FileSystem& system = system_of(request);
  ++system.statistics.opens;
  const KnownNodePtr known = system.nodes.get(id);
  const auto* file = known == nullptr ? nullptr : std::get_if<std::shared_ptr<File>>(&known->node);
  if (file == nullptr || (info->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, file == nullptr ? ENOENT : EROFS);
    return;
  }
  auto source = (*file)->open();
  if (!source.ok()) return refuse(request, known->path, source.status(), errno_of_read(source.status()));
  const OpenFile* const open = system.open.add({known->path, *std::move(source)});
  info->fh = reinterpret_cast<uint64_t>(open);
  info->direct_io = system.direct ? 1 : 0;
  info->keep_cache = 1;
  info->noflush = 1;
  if (fuse_reply_open(request, info) != 0) system.open.remove(open);  // whoever asked is gone
}

void release_file(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  system_of(request).open.remove(reinterpret_cast<const OpenFile*>(info->fh));
  fuse_reply_err(request, 0);
}

// The source puts the bytes into memory of ours and checks itself afterwards, so what goes out is never of a file that
// was changed meanwhile; memory mapped from it could change, or end in SIGBUS, until the last byte is out.
void read_file(fuse_req_t request, fuse_ino_t, size_t bytes, off_t offset, fuse_file_info* info) {
  FileSystem& system = system_of(request);
  const auto& open = *reinterpret_cast<const OpenFile*>(info->fh);
  ++system.statistics.reads;
  const int64_t left = std::max<int64_t>(open.source->size() - offset, 0);
  const size_t wanted = std::min({bytes, static_cast<size_t>(left), FileSystem::kBufferBytes});
  if (wanted < bytes && static_cast<int64_t>(wanted) < left) {  // fewer bytes would mean that the file ends here
    return refuse(request, open.path, failed(fmt::format("the kernel reads {} bytes at once", bytes)), EIO);
  }
  const BufferPool::Buffer buffer = system.buffers.take();
  const absl::Status read = wanted > 0 ? open.source->read(offset, {buffer.data(), wanted}) : absl::OkStatus();
  if (!read.ok()) {
    const int error = errno_of_read(read);  // EACCES: of a source opened only now
    return refuse(request, open.path, read, error == ENOENT ? EIO : error);
  }
  system.statistics.bytes += static_cast<int64_t>(wanted);
  fuse_reply_buf(request, reinterpret_cast<const char*>(buffer.data()), wanted);
}

// --- control ---------------------------------------------------------------------------------------------------------

absl::StatusOr<std::string> answer(FileSystem& system, const ControlMessage& message) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, text_of(message));
  return system.control(text);
}

void control(fuse_req_t request, fuse_ino_t id, unsigned command, void*, fuse_file_info*, unsigned, const void* input,
             size_t input_bytes, size_t output_bytes) {
  FileSystem& system = system_of(request);
  ControlMessage message;
  if (id != NodeTable::kRoot || command != control_command() || input_bytes != sizeof(message) ||
      output_bytes != sizeof(message)) {
    fuse_reply_err(request, ENOTTY);
    return;
  }
  if (fuse_req_ctx(request)->uid != system.uid) {
    fuse_reply_err(request, EACCES);
    return;
  }
  std::memcpy(static_cast<void*>(&message), input, sizeof(message));
  message = message_of_answer(answer(system, message));
  fuse_reply_ioctl(request, 0, &message, sizeof(message));
}

void negotiate(void*, fuse_conn_info* connection) {
  // Nothing goes through pipes: replies are memory of ours. What is shown does not change, so nothing is to be noticed.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                                             FUSE_CAP_AUTO_INVAL_DATA);
  connection->max_background = 64;
  connection->congestion_threshold = 48;
}

// An operation that throws, as where memory runs out, refuses its request; the server lives on. All of them answer as
// the last thing. Exceptions must not come to libfuse, which is C.
template <auto kOperation>
struct Guarded;
template <typename... Rest, void (*kOperation)(fuse_req_t, Rest...)>
struct Guarded<kOperation> {
  static void run(fuse_req_t request, Rest... rest) {
    try {
      kOperation(request, rest...);
    } catch (const std::bad_alloc&) {
      fuse_reply_err(request, ENOMEM);
    } catch (const std::exception&) {  // of the standard library, below a tree: no thread, a name that is too long
      fuse_reply_err(request, EIO);
    }
  }
};

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops all = [] {
    fuse_lowlevel_ops made = {};
    made.init = negotiate;
    made.lookup = Guarded<look_up>::run;
    made.forget = forget;
    made.forget_multi = forget_many;
    made.getattr = Guarded<get_attributes>::run;
    made.readlink = Guarded<read_link>::run;
    made.statfs = Guarded<stat_file_system>::run;
    made.opendir = Guarded<open_directory>::run;
    made.readdir = Guarded<read_directory>::run;
    made.readdirplus = Guarded<read_directory_plus>::run;
    made.open = Guarded<open_file>::run;
    made.read = Guarded<read_file>::run;
    made.release = release_file;
    made.ioctl = Guarded<control>::run;
    return made;
  }();
  return all;
}

}  // namespace scalai::vfs
