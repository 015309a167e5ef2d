#include "apps/common/runs/reader_step.h"

#include <utility>

#include "apps/common/runs/reader_transport.h"
#include "apps/common/runs/run_folder.h"
#include "ptc/base/status.h"

namespace scalai::apps {

namespace ex = scalai::executor;

ReaderStep::ReaderStep(std::unique_ptr<ex::transport::PeerTransport> transport, ex::live::LiveOptions options)
    : transport_(std::move(transport)), run_([&] {
        options.transport = transport_.get();
        return std::move(options);
      }()) {}

absl::StatusOr<std::unique_ptr<ReaderStep>> ReaderStep::open(const std::string& run, const std::string& job,
                                                             ex::live::LiveOptions options) {
  const RunFolder folder(run);
  SCALAI_ASSIGN_OR_RETURN(options.target, folder.target());
  SCALAI_ASSIGN_OR_RETURN(const HowRun how, folder.how());
  options.place = folder.path();
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ex::transport::PeerTransport> transport,
                          reader_transport(how, options.target));
  std::unique_ptr<ReaderStep> made(new ReaderStep(std::move(transport), std::move(options)));
  SCALAI_ASSIGN_OR_RETURN(made->step_, made->run_.newest(job));
  return made;
}

}  // namespace scalai::apps
