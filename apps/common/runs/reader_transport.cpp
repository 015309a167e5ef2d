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

absl::StatusOr<std::unique_ptr<ex::transport::PeerTransport>> reader_transport(
    const HowRun& how, [[maybe_unused]] const ex::rpc::CtlTarget& target,
    [[maybe_unused]] ex::transport::AnswerHandler answer) {
  if (how.state.transport == "shared-memory") return std::unique_ptr<ex::transport::PeerTransport>();
#ifdef SCALAI_WITH_UCX
  std::string devices;
  if (std::getenv("UCX_NET_DEVICES") == nullptr) {
    SCALAI_ASSIGN_OR_RETURN(const ex::rpc::Interface network, ex::rpc::interface_to(target.address));
    devices = ex::transport::ucx_devices_on(network.name, network.loopback);
  }
  if (!answer)
    answer = [](std::string_view) -> absl::StatusOr<ex::transport::Payload> {
      return missing("a reader has no state");
    };
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ex::transport::UcxTransport> made,
      ex::transport::UcxTransport::create(
          std::move(answer), {.devices = std::move(devices), .key = ex::secret::key_for(target.token, "transport")}));
  return std::unique_ptr<ex::transport::PeerTransport>(std::move(made));
#else
  return std::unique_ptr<ex::transport::PeerTransport>();
#endif
}

}  // namespace scalai::apps
