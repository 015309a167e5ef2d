#include "vfs/remote/remote_source.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "vfs/remote/block_cache.h"
#include "vfs/remote/block_table.h"
#include "vfs/remote/range_reader.h"

namespace scalai::vfs {
namespace {

// Blocks [first, last), and whoever of them we have claimed.
struct Run {
  int64_t first = 0;
  std::vector<BlockTable::Claim> claims;
  int64_t last() const { return first + static_cast<int64_t>(claims.size()); }
};

bool has_version(const RemoteVersion& version) { return !version.etag.empty() || !version.last_modified.empty(); }

class RemoteImpl final : public Remote {
 public:
  RemoteImpl(RemoteOptions options, std::unique_ptr<BlockCache> cache)
      : options_(std::move(options)),
        context_(std::make_shared<RequestContext>(options_.http, options_.retry)),
        table_(options_.memory_bytes),
        cache_(std::move(cache)) {}

  absl::StatusOr<ByteSourcePtr> open(const std::string& url) const override;
  RemoteStatistics statistics() const override;

  const RemoteOptions& options() const { return options_; }
  BlockTable& table() const { return table_; }
  BlockCache* cache() const { return cache_.get(); }
  int64_t count_unversioned() const { return ++unversioned_; }

 private:
  const RemoteOptions options_;
  const std::shared_ptr<const RequestContext> context_;
  mutable BlockTable table_;
  const std::unique_ptr<BlockCache> cache_;
  mutable std::atomic<int64_t> unversioned_ = 0;
};

class RemoteSource final : public ByteSource {
 public:
  RemoteSource(std::shared_ptr<const RemoteImpl> remote, RangeReader reader)
      : remote_(std::move(remote)), reader_(std::move(reader)) {
    const RemoteVersion& version = reader_.version();
    Hasher hasher;
    hasher.add(without_user(reader_.url())).add(version.bytes).add(version.etag).add(version.last_modified);
    // Without either nobody can tell whether it is still the same file: what is kept is kept for this source alone.
    const bool unversioned = !has_version(version);
    if (!unversioned) version_ = Hasher().add(version.etag).add(version.last_modified).hex();
    if (unversioned) hasher.add(remote_->count_unversioned());
    cache_ = unversioned ? nullptr : remote_->cache();
    file_ = hasher.add(remote_->options().block_bytes).hex();
  }

  const std::string& name() const override { return reader_.name(); }
  int64_t size() const override { return reader_.version().bytes; }
  std::string version() const override { return version_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;
  absl::Status confirm() const override;

 private:
  int64_t block_bytes() const { return remote_->options().block_bytes; }
  int64_t blocks() const { return (size() + block_bytes() - 1) / block_bytes(); }
  int64_t bytes_of(int64_t block) const { return std::min(block_bytes(), size() - block * block_bytes()); }
  BlockKey key_of(int64_t block) const { return {file_, block}; }

  absl::Status read_window(int64_t offset, std::span<std::byte> dst) const;
  bool from_disk(int64_t block, const BlockTable::Claim& claim) const;
  void fetch_missing(int64_t first, const std::vector<BlockTable::Claim>& claims) const;
  int64_t blocks_ahead(int64_t first, int64_t last) const;
  void read_ahead(Run& run, int64_t most) const;
  absl::Status fetch(const Run& run, const Deadline& deadline) const;
  absl::Status compare_with_first(int64_t first, std::span<const std::byte> bytes) const;
  absl::StatusOr<int64_t> read_again(int64_t first) const;

  const std::shared_ptr<const RemoteImpl> remote_;
  const RangeReader reader_;
  std::string version_;
  std::string file_;             // names this version in memory and on disk
  BlockCache* cache_ = nullptr;  // of remote_; null: not on disk
  mutable std::mutex mutex_;
  mutable int64_t next_ = 0;   // the block after the last one fetched
  mutable int64_t ahead_ = 0;  // blocks fetched ahead the last time
  // Of a file without a version: checksums of the blocks' first bytes, by block. Under mutex_.
  mutable std::map<int64_t, XXH128_hash_t> first_;
};

absl::Status RemoteSource::read(int64_t offset, std::span<std::byte> dst) const {
  SCALAI_CHECK(offset >= 0 && offset <= size(), name());
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) <= size() - offset, name());
  // Windows bound what is in memory at a time.
  const int64_t window = std::max(remote_->options().most_request_bytes / block_bytes(), int64_t{1}) * block_bytes();
  while (!dst.empty()) {
    const int64_t end = (offset / block_bytes()) * block_bytes() + window;
    const auto part = static_cast<size_t>(std::min(end - offset, static_cast<int64_t>(dst.size())));
    SCALAI_RETURN_IF_ERROR(read_window(offset, dst.first(part)));
    dst = dst.subspan(part);
    offset += static_cast<int64_t>(part);
  }
  return absl::OkStatus();
}

absl::Status RemoteSource::read_window(int64_t offset, std::span<std::byte> dst) const {
  const int64_t first = offset / block_bytes();
  const int64_t end = offset + static_cast<int64_t>(dst.size());
  std::vector<BlockTable::Claim> claims;
  for (int64_t block = first; block * block_bytes() < end; ++block) {
    claims.push_back(remote_->table().claim(key_of(block)));
  }
  fetch_missing(first, claims);  // completes all of ours, so that nobody waits for somebody who waits
  for (size_t i = 0; i < claims.size(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(const Block block, remote_->table().wait(claims[i]));
    const int64_t begin = (first + static_cast<int64_t>(i)) * block_bytes();
    const int64_t from = std::max(offset, begin), to = std::min(end, begin + static_cast<int64_t>(block->size()));
    std::memcpy(dst.data() + (from - offset), block->data() + (from - begin), static_cast<size_t>(to - from));
  }
  return absl::OkStatus();
}

bool RemoteSource::from_disk(int64_t block, const BlockTable::Claim& claim) const {
  if (cache_ == nullptr) return false;
  std::optional<std::vector<std::byte>> found = cache_->get(key_of(block), bytes_of(block));
  if (!found) return false;
  remote_->table().complete(claim, std::make_shared<const std::vector<std::byte>>(std::move(*found)));
  return true;
}

void RemoteSource::fetch_missing(int64_t first, const std::vector<BlockTable::Claim>& claims) const {
  std::vector<Run> runs;
  for (size_t i = 0; i < claims.size(); ++i) {
    const int64_t block = first + static_cast<int64_t>(i);
    if (!claims[i].ours || from_disk(block, claims[i])) continue;
    if (runs.empty() || runs.back().last() != block) runs.push_back({block, {}});
    runs.back().claims.push_back(claims[i]);
  }
  if (runs.empty()) return;
  const int64_t last = first + static_cast<int64_t>(claims.size());
  const int64_t ahead = blocks_ahead(runs.front().first, last);
  if (runs.back().last() == last) read_ahead(runs.back(), ahead);
  const Deadline deadline = reader_.deadline();  // of all of them together
  absl::Status status;
  for (const Run& run : runs) {
    if (status.ok()) {
      status = fetch(run, deadline);
    } else {
      for (const BlockTable::Claim& claim : run.claims) remote_->table().complete(claim, status);
    }
  }
}

// How far to read ahead: twice as far each time that a reader goes on where the last fetch ended.
int64_t RemoteSource::blocks_ahead(int64_t first, int64_t last) const {
  const int64_t most = remote_->options().read_ahead_bytes / block_bytes();
  const std::lock_guard lock(mutex_);
  ahead_ = first == next_ && first > 0 ? std::min(std::max(2 * ahead_, int64_t{1}), most) : 0;
  next_ = std::min(last + ahead_, blocks());
  return ahead_;
}

void RemoteSource::read_ahead(Run& run, int64_t most) const {
  for (int64_t i = 0; i < most && run.last() < blocks(); ++i) {
    const BlockTable::Claim claim = remote_->table().claim_if_absent(key_of(run.last()));
    if (claim.slot == nullptr || from_disk(run.last(), claim)) return;
    run.claims.push_back(claim);
  }
}

absl::Status RemoteSource::fetch(const Run& run, const Deadline& deadline) const {
  const int64_t begin = run.first * block_bytes();
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(run.last() * block_bytes(), size()) - begin));
  absl::Status status = reader_.read(begin, bytes, deadline);
  if (status.ok() && version_.empty()) status = compare_with_first(run.first, bytes);
  for (size_t i = 0; i < run.claims.size(); ++i) {
    if (!status.ok()) {
      remote_->table().complete(run.claims[i], status);
      continue;
    }
    const int64_t block = run.first + static_cast<int64_t>(i);
    const auto* data = bytes.data() + (block * block_bytes() - begin);
    auto copy = std::make_shared<const std::vector<std::byte>>(data, data + bytes_of(block));
    remote_->table().complete(run.claims[i], copy);
    if (cache_ != nullptr) cache_->put(key_of(block), *copy);
  }
  return status;
}

// Bytes of whole blocks from `first` on: those that were read before must be what they were.
absl::Status RemoteSource::compare_with_first(int64_t first, std::span<const std::byte> bytes) const {
  int64_t block = first;
  for (size_t at = 0; at < bytes.size(); ++block) {
    const auto part = bytes.subspan(at, static_cast<size_t>(bytes_of(block)));
    const XXH128_hash_t sum = XXH3_128bits(part.data(), part.size());
    at += part.size();
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = first_.emplace(block, sum);
    if (fresh || XXH128_isEqual(known->second, sum) != 0) continue;
    return invalid(
        fmt::format("{}: was changed while in use: bytes {} to {} were others before; the server tells no version, "
                    "neither ETag nor Last-Modified",
                    name(), block * block_bytes(), block * block_bytes() + std::ssize(part) - 1));
  }
  return absl::OkStatus();
}

// The blocks of one request, from `first` on, that were read before; the first one behind them.
absl::StatusOr<int64_t> RemoteSource::read_again(int64_t first) const {
  const int64_t most = std::max(remote_->options().most_request_bytes / block_bytes(), int64_t{1});
  int64_t last = first;
  {
    const std::lock_guard lock(mutex_);
    while (last - first < most && first_.contains(last)) ++last;
  }
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(last * block_bytes(), size()) - first * block_bytes()));
  SCALAI_RETURN_IF_ERROR(reader_.read(first * block_bytes(), bytes));
  SCALAI_RETURN_IF_ERROR(compare_with_first(first, bytes));
  return last;
}

absl::Status RemoteSource::confirm() const {
  if (!version_.empty() || remote_->options().trust_source) return absl::OkStatus();
  for (int64_t block = 0;;) {
    {
      const std::lock_guard lock(mutex_);
      const auto next = first_.lower_bound(block);
      if (next == first_.end()) return absl::OkStatus();
      block = next->first;
    }
    SCALAI_ASSIGN_OR_RETURN(block, read_again(block));
  }
}

absl::StatusOr<ByteSourcePtr> RemoteImpl::open(const std::string& url) const {
  if (!is_remote(url)) return invalid(fmt::format("{}: not an http://, https:// or s3:// address", display_name(url)));
  SCALAI_ASSIGN_OR_RETURN(RangeReader reader, RangeReader::open(context_, url));
  if (options_.require_version && !options_.trust_source && !has_version(reader.version()))
    return invalid(fmt::format(
        "{}: the server tells no version, neither ETag nor Last-Modified, so a change would not be noticed; "
        "--trust-source takes it for unchanged",
        reader.name()));
  auto self = std::static_pointer_cast<const RemoteImpl>(shared_from_this());
  return std::make_shared<const RemoteSource>(std::move(self), std::move(reader));
}

RemoteStatistics RemoteImpl::statistics() const {
  RemoteStatistics all = {.requests = context_->counts.requests,
                          .retries = context_->counts.retries,
                          .bytes_fetched = context_->counts.bytes,
                          .unversioned = unversioned_};
  if (cache_ != nullptr) {
    const CacheCounts& counts = cache_->counts();
    all.disk_hits = counts.hits;
    all.disk_damaged = counts.damaged;
    all.disk_stored = counts.stored;
    all.disk_not_stored = counts.not_stored;
    all.disk_evicted = counts.evicted;
  }
  return all;
}

absl::Status check(const RemoteOptions& options) {
  if (options.block_bytes < 4096 || options.block_bytes > (int64_t{64} << 20)) {
    return invalid(
        fmt::format("blocks of remote files have 4 KiB to 64 MiB, not {}", format_bytes(options.block_bytes)));
  }
  if (options.memory_bytes < 0 || options.cache_bytes < 0 || options.most_request_bytes < 0 ||
      options.read_ahead_bytes < 0 || options.retry.attempts < 1 || options.retry.total_s < 0) {
    return invalid("remote files: sizes and times are at least 0, attempts at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Remote>> Remote::make(RemoteOptions options) {
  SCALAI_RETURN_IF_ERROR(check(options));
  std::unique_ptr<BlockCache> cache;
  if (!options.cache_folder.empty()) {
    SCALAI_ASSIGN_OR_RETURN(cache, BlockCache::open(options.cache_folder, options.cache_bytes, options.block_bytes));
  }
  return std::make_shared<RemoteImpl>(std::move(options), std::move(cache));
}

absl::StatusOr<ByteSourcePtr> open_remote_source(const std::string& url, RemoteOptions options) {
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<Remote> remote, Remote::make(std::move(options)));
  return remote->open(url);
}

absl::StatusOr<SourceOpener> make_opener(RemoteOptions options) {
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<Remote> remote, Remote::make(std::move(options)));
  return SourceOpener([remote](const std::string& location) {
    return is_remote(location) ? remote->open(location) : open_file_source(location);
  });
}

absl::Status verify_xxh3_128(const ByteSource& source, const std::string& hex) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  SCALAI_CHECK(state != nullptr);
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(source.size(), int64_t{8} << 20)));
  for (int64_t at = 0; at < source.size(); at += static_cast<int64_t>(buffer.size())) {
    const auto part = std::min(static_cast<int64_t>(buffer.size()), source.size() - at);
    SCALAI_RETURN_IF_ERROR(source.read(at, std::span(buffer).first(static_cast<size_t>(part))));
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<size_t>(part));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  const std::string found = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  if (found == hex) return absl::OkStatus();
  return invalid(fmt::format("{}: its checksum is {}, expected {}", source.name(), found, hex));
}

}  // namespace scalai::vfs
