// A program of the tests: reads a file at an address through a cache on disk, again and again, and says when it has it
// all and right for the first time. It is there to be killed.
//
//     scalai_remote_reader URL CACHE_FOLDER CACHE_BYTES BLOCK_BYTES XXH3 [once]

#include <cstdlib>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "vfs/remote/remote_source.h"

int main(int argc, char** argv) {
  using namespace scalai;
  using namespace scalai::vfs;
  if (argc < 6) return 2;
  RemoteOptions options;
  options.cache_folder = argv[2];
  options.cache_bytes = std::atoll(argv[3]);
  options.block_bytes = std::atoll(argv[4]);
  options.most_request_bytes = 4 * options.block_bytes;
  options.memory_bytes = 0;
  options.retry.first_wait_s = 0.01;
  const bool once = argc > 6;
  do {
    const absl::StatusOr<ByteSourcePtr> source = open_remote_source(argv[1], options);
    const absl::Status status = source.ok() ? verify_xxh3_128(**source, argv[5]) : source.status();
    if (!status.ok()) {
      say("{}\n", message_of(status));
      return exit_code_of(status);
    }
  } while (!once);
  return 0;
}
