#include "labs/near/commands/fetched_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

// A file of another host, read over its worker. One thread.
class FetchedFile final : public ByteSource {
 public:
  using Fetch = std::function<absl::Status(int64_t offset, std::span<std::byte> dst)>;
  FetchedFile(std::string name, int64_t size, Fetch fetch)
      : name_(std::move(name)), size_(size), fetch_(std::move(fetch)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override { return fetch_(offset, dst); }

 private:
  const std::string name_;
  const int64_t size_;
  const Fetch fetch_;
};

}  // namespace

FetchedFiles::FetchedFiles(const std::vector<SpreadFile>& files, size_t hosts, const near::Launch& launch)
    : launch_(launch), sessions_(hosts), gone_(hosts) {
  for (const SpreadFile& file : files) {
    if (file.of->is_whole_here) {  // the checkpoint keeps it open
      sources_.emplace_back(&file.of->checkpoint->source(file.number), [](const ByteSource*) {});
      continue;
    }
    sources_.push_back(std::make_shared<FetchedFile>(
        file.facts().name, file.facts().bytes,
        [this, file](int64_t offset, std::span<std::byte> dst) { return fetch(file, offset, dst); }));
  }
}

absl::Status FetchedFiles::fetch(const SpreadFile& file, int64_t offset, std::span<std::byte> dst) {
  std::string reasons;
  for (size_t host = 0; host < sessions_.size(); ++host) {
    if (!file.is_on(host)) continue;
    const absl::Status fetched = fetch_from(host, file, offset, dst);
    if (fetched.ok()) return fetched;
    reasons += (reasons.empty() ? "" : "; ") + message_of(fetched);
  }
  return failed(fmt::format("{} could not be fetched: {}", file.facts().name, reasons));
}

absl::Status FetchedFiles::fetch_from(size_t host, const SpreadFile& file, int64_t offset, std::span<std::byte> dst) {
  SCALAI_RETURN_IF_ERROR(gone_[host]);
  const near::Host& where = file.of->source.hosts[host];
  if (sessions_[host] == nullptr) {
    auto begun = near::Session::start(where, launch_);
    gone_[host] = begun.status();
    if (!begun.ok()) return begun.status();
    sessions_[host] = *std::move(begun);
  }
  size_t at = 0;
  const auto end = sessions_[host]->run(
      {.folder = where.folder,
       .stages = {},
       .ranges = {{.file = file.facts().name, .begin = offset, .end = offset + std::ssize(dst), .records = false}},
       .environment = {}},
      [&](std::string_view bytes) {
        if (bytes.size() > dst.size() - at) return failed("sends too much");
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                    dst.begin() + static_cast<ptrdiff_t>(at));
        at += bytes.size();
        return absl::OkStatus();
      });
  if (absl::IsUnavailable(end.status())) gone_[host] = end.status();
  SCALAI_RETURN_IF_ERROR(end.status());
  fetched_bytes_ += static_cast<int64_t>(at);
  if (end->problem.empty() && at == dst.size()) return absl::OkStatus();
  return failed(fmt::format("{}: {}", where.name, end->problem.empty() ? "sends too little" : end->problem));
}

}  // namespace scalai::apps
