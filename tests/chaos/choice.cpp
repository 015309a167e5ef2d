#include "tests/chaos/choice.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "ptc/base/random.h"

namespace scalai::chaos {

std::string_view name_of(Fault fault) {
  constexpr std::array<std::string_view, kFaults> kNames = {
      "worker killed", "controller killed", "both killed", "one stopped",    "one stopped for long",
      "one slow",      "interruptions",     "disk full",   "no descriptors", "no addresses",
      "no memory",     "date jumps",        "strangers",   "readers killed", "host cut off",
      "networks part", "packets lost"};
  return kNames.at(static_cast<size_t>(fault));
}

std::vector<std::string_view> Choice::kinds() const {
  constexpr std::array<std::string_view, 4> kWays = {"segments", "UCX", "NCCL stand-in", "UCX between networks"};
  std::vector<std::string_view> list = {kWays.at(static_cast<size_t>(way))};
  const auto add = [&](bool is, std::string_view name) {
    if (is) list.push_back(name);
  };
  add(capped, "memory cap");
  add(redundant, "redundancy");
  add(reads, "dataset");
  add(stateful, "real state");
  add(planned && !program, "policy");
  add(program, "policy program");
  add(tls, "TLS");
  add(doubled, "second controller");
  add(elsewhere, "resumed elsewhere");
  add(trains, "real training");
  add(again, "next run in the folder");
  return list;
}

std::string Choice::str() const {
  std::string text = fmt::format("{} {:.3f} s after the {}", name_of(fault), delay_s, early ? "start" : "first events");
  for (const std::string_view kind : kinds()) text += fmt::format(", {}", kind);
  return text;
}

namespace {

int64_t pause_ms(Fault fault) {
  switch (fault) {
    case Fault::kCut:
    case Fault::kPart: return 20'000;
    case Fault::kStop:
    case Fault::kSlow:
    case Fault::kInterrupts:
    case Fault::kStrangers:
    case Fault::kReaders: return 4000;
    case Fault::kDescriptors:
    case Fault::kAddresses:
    case Fault::kMemory: return 2000;
    default: return 1000;
  }
}

}  // namespace

Choice choose(uint64_t seed, const Allowed& allowed) {
  Random random(seed);
  const auto half = [&] { return random.below(2) == 0; };
  const auto one_in = [&](int64_t n) { return random.below(n) == 0; };
  const auto seconds = [&](int64_t most_ms) { return 0.001 * static_cast<double>(random.below(most_ms)); };
  Choice choice;
  choice.way = allowed.ways[static_cast<size_t>(random.below(std::ssize(allowed.ways)))];
  choice.capped = half();
  choice.redundant = half();
  choice.reads = half();
  choice.planned = one_in(4);
  choice.program = half() && choice.planned;
  choice.stateful = one_in(4) && allowed.state && !choice.planned;
  choice.tls = one_in(4) && allowed.tls;
  choice.doubled = one_in(4);
  choice.elsewhere = half();
  // Some take as long as several other runs.
  const auto slow = [&] {
    return choice.fault == Fault::kLongStop || choice.fault == Fault::kCut || choice.fault == Fault::kPart;
  };
  do {
    choice.fault = allowed.faults[static_cast<size_t>(random.below(std::ssize(allowed.faults)))];
  } while (slow() && allowed.faults.size() > 2 && !one_in(4));
  if (choice.fault == Fault::kCut || choice.fault == Fault::kPart || choice.fault == Fault::kLoss) {
    choice.way = Way::kNetwork;
    choice.tls = false;  // the certificate is that of 127.0.0.1
  }
  choice.trains = one_in(20) && allowed.training && choice.way != Way::kNetwork && choice.fault != Fault::kFullDisk;
  if (choice.trains) {
    choice.capped = choice.redundant = choice.reads = choice.planned = choice.program = choice.stateful = false;
    choice.way = Way::kSegments;
  }
  choice.again = one_in(5);
  choice.early = one_in(6);
  choice.delay_s = seconds(static_cast<int64_t>(allowed.within_ms * (choice.trains ? 4 : 1)));
  choice.pause_s = choice.fault == Fault::kLongStop ? 5 + seconds(15'000) : seconds(pause_ms(choice.fault));
  choice.jump_s = random.between(-86'400, 86'400);
  if (choice.tls) choice.jump_s = std::abs(choice.jump_s);  // before its first day no certificate counts
  choice.victim = random.next();
  return choice;
}

}  // namespace scalai::chaos
