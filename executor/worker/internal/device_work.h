#pragma once
// DeviceWork: the commands on what devices hold: it is made, trained, summed and checked. It owns nothing.
//
// Thread rules: the thread that handles commands; work spreads over threads and is awaited.

#include "executor/worker/internal/holdings.h"
#include "executor/worker/internal/host_copies.h"

namespace scalai::executor::worker {

class DeviceWork {
 public:
  // Both outlive this object.
  DeviceWork(Holdings& holdings, HostCopies& copies)
      : holdings_(holdings), copies_(copies), places_(holdings.places()) {}

  absl::Status create(const CommandBody& body);
  absl::Status stand_by(const CommandBody& body);
  absl::Status begin(const CommandBody& body, ReplyBody& reply);
  absl::Status advance(const CommandBody& body, ReplyBody& reply);
  absl::Status digest(const CommandBody& body, ReplyBody& reply);
  absl::Status verify(const CommandBody& body, ReplyBody& reply);

 private:
  absl::Status gather(const Holdings::Held& held, ReplyBody& reply);

  Holdings& holdings_;
  HostCopies& copies_;
  Places& places_;
};

}  // namespace scalai::executor::worker
