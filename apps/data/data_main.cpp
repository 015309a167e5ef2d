#include "apps/data/data_command.h"
#include "ptc/base/byte_source.h"
#ifdef SCALAI_WITH_CURL
#include "vfs/remote/remote_source.h"
#endif

namespace scalai::apps {

absl::StatusOr<SourceOpener> data_opener() {
#ifdef SCALAI_WITH_CURL
  return vfs::make_opener();
#else
  return SourceOpener(open_file_source);
#endif
}

}  // namespace scalai::apps

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-data",
      .summary = "Indexes a dataset, and shows which data-parallel rank reads what.",
      .commands = {scalai::apps::data_index_command(), scalai::apps::data_show_command()},
  };
  return scalai::run_program(program, argc, argv);
}
