#include "vfs/statistics.h"

#include <fmt/format.h>

#include "ptc/base/units.h"

namespace scalai::vfs {

std::string Statistics::str() const {
  return fmt::format("{} look-ups, {} files opened, {} reads of {}, {} errors", lookups.load(), opens.load(),
                     reads.load(), format_bytes(bytes.load()), errors.load());
}

}  // namespace scalai::vfs
