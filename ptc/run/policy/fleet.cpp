#include "ptc/run/policy/fleet.h"

namespace scalai::policy {

int Fleet::gpus(GpuType type) const {
  int sum = 0;
  for (const HostSpec& host : hosts) sum += host.type == type ? host.gpus : 0;
  return sum;
}

int Fleet::gpus() const {
  int sum = 0;
  for (const HostSpec& host : hosts) sum += host.gpus;
  return sum;
}

int Placement::gpus() const {
  int sum = 0;
  for (const HostShare& share : hosts) sum += share.gpus;
  return sum;
}

}  // namespace scalai::policy
