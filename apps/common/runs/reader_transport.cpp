#include "apps/common/runs/reader_transport.h"

#include <cstdlib>
#include <utility>

#include "ptc/base/status.h"
#ifdef SCALAI_WITH_UCX
#include "executor/rpc/network.h"
#include "executor/secret/secret.h"
#include "executor/transport/ucx_info.h"
#include "executor/transport/ucx_transport.h"
#endif

namespace scalai::apps {

namespace ex = scalai::executor;

absl::StatusOr<std::unique_ptr<ex::PeerTransport>> reader_transport(const HowRun& how,
                                                                    [[maybe_unused]] const ex::CtlTarget& target,
                                                                    [[maybe_unused]] ex::AnswerHandler answer) {
  if (how.state.transport == "shared-memory") return std::unique_ptr<ex::PeerTransport>();
#ifdef SCALAI_WITH_UCX
  std::string devices;
  if (std::getenv("UCX_NET_DEVICES") == nullptr) {
    SCALAI_ASSIGN_OR_RETURN(const ex::Interface network, ex::interface_to(target.address));
    devices = ex::ucx_devices_on(network.name, network.loopback);
  }
  if (!answer)
    answer = [](std::string_view) -> absl::StatusOr<ex::Payload> { return missing("a reader has no state"); };
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ex::UcxTransport> made,
                          ex::UcxTransport::create(std::move(answer), {.devices = std::move(devices),
                                                                       .key = ex::key_for(target.token, "transport")}));
  return std::unique_ptr<ex::PeerTransport>(std::move(made));
#else
  return std::unique_ptr<ex::PeerTransport>();
#endif
}

}  // namespace scalai::apps
