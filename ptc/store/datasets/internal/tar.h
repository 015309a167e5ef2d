#pragma once
// The members of a tar file: ustar, with pax or GNU long names. Reads headers only. Not for several threads.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/internal/scanner.h"

namespace scalai::datasets {

struct TarMember {
  std::string name;
  bool regular = true;  // otherwise a directory
  int64_t begin = 0;    // of its first header, those that hold its long name included
  int64_t end = 0;      // behind its data, which are padded to 512 bytes
  int64_t bytes = 0;    // of its data
};

// In quotes, cut to the width of a message: names come from files.
std::string shown_name(std::string_view name);

class TarScanner {
 public:
  // Scans a whole tar file or, for a look at one member, the part from `begin` on.
  explicit TarScanner(ByteSourcePtr source, int64_t begin = 0);

  void watch(std::function<void(int64_t position)> on_read) { scanner_.watch(std::move(on_read)); }
  // The next member; nullopt at the end, behind which there are only zeros. InvalidArgument names file, byte and, where
  // it is known, the member: not a tar header, cut short, a link, device or sparse file, a name of more than 64 KiB.
  absl::StatusOr<std::optional<TarMember>> next();

 private:
  // What extension headers say of the member that follows.
  struct Extension {
    std::optional<std::string> name;
    std::optional<int64_t> bytes;
  };
  struct Header {
    std::string name;
    char type = '0';
    int64_t bytes = 0;
  };
  absl::Status error(const std::string& what) const;  // at the header under way
  absl::StatusOr<std::optional<Header>> header();     // nullopt: a block of zeros
  absl::StatusOr<std::string> extension_data(int64_t bytes);
  absl::Status read_pax(std::string_view records, bool global, Extension& extension) const;
  absl::StatusOr<bool> read_extension(const Header& header, Extension& extension);
  absl::Status check_only_zeros();

  Scanner scanner_;
  int64_t at_ = 0;  // of the header under way
};

// The key of a WebDataset sample: the path up to the first dot of its last component. nullopt: there is no dot, or
// nothing before it, so the member belongs to no sample. `extension` gets what follows the dot.
std::optional<std::string_view> sample_key(std::string_view path, std::string_view* extension = nullptr);

}  // namespace scalai::datasets
