// Racks and switches in events: sets of hosts and of links.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::scenario {
namespace events_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::job_text;
using testing::scenario_of;

// Five hosts of two GPUs, two hosts a rack: racks 0 to 2, the last of one host.
inline std::string racked(const std::string& events, const std::string& racks = "rack_hosts: 2") {
  return "schema_version: 1 name: \"test\" seed: 1 until: \"100s\"\n"
         "cluster { hosts { count: 5 gpus: 2 gpu: \"a6000-48g\" nic: \"1GB/s\" } " +
         racks + " }\n" + job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }") + events;
}
const std::string kLeaves = "fabric { kind: LEAF_SPINE leaf_hosts: 2 }";

inline std::string resolved(const std::string& text) {
  const auto scenario = scenario_of(text);
  return scenario.ok() ? scenario->resolved_text : message_of(scenario.status());
}
inline std::string problems(const std::string& text) {
  const auto scenario = scenario_of(text);
  return scenario.ok() ? "none" : message_of(scenario.status());
}

// So both runtimes, all network back ends and replays see hosts and links, as if these had been written.
TEST(RacksInEvents, AreTheirHosts) {
  const std::string at = "events { at: \"10s\" ", back = "events { at: \"20s\" ";
  for (const std::string& cluster : {std::string("rack_hosts: 2"), kLeaves}) {
    EXPECT_EQ(resolved(racked(at + "fail { racks: [1] } }" + back + "repair { racks: 1 } }", cluster)),
              resolved(racked(at + "fail { hosts: [2, 3] } }" + back + "repair { hosts: [2, 3] } }", cluster)));
    EXPECT_EQ(resolved(racked(at + "preempt { racks: [0, 2] notice: \"5s\" } }", cluster)),
              resolved(racked(at + "preempt { hosts: [0, 1, 4] notice: \"5s\" } }", cluster)));
  }
  EXPECT_EQ(resolved(racked(at + "fail { racks: 2 hosts: 0 devices: 3 } }")),
            resolved(racked(at + "fail { devices: [8, 9, 0, 1, 3] } }")));
}

TEST(RacksInEvents, OfARepairedRackOnlyWhatItLostCounts) {
  const std::string fail = "events { at: \"10s\" fail { hosts: 2 } }";
  EXPECT_EQ(resolved(racked(fail + "events { at: \"20s\" repair { racks: 1 } }")),
            resolved(racked(fail + "events { at: \"20s\" repair { hosts: 2 } }")));
  EXPECT_THAT(problems(racked(fail + "events { at: \"20s\" repair { racks: [0, 1] } }")),
              HasSubstr("rack 0 is repaired but never failed"));
}

TEST(RacksInEvents, WrongOnesAreNamed) {
  const auto problem = [](const std::string& what, const std::string& racks = "rack_hosts: 2") {
    return problems(racked("events { at: \"10s\" " + what + " }", racks));
  };
  EXPECT_THAT(problem("fail { racks: [1, 3] }"), HasSubstr("there is no rack 3"));
  EXPECT_THAT(problem("fail { racks: [1, 3] }"), HasSubstr("racks are numbered 0 to 2"));
  EXPECT_THAT(problem("fail { racks: -1 }"), HasSubstr("there is no rack -1"));
  EXPECT_THAT(problem("fail { racks: 1 }", "rack_hosts: 8"), HasSubstr("the only rack is 0"));
  EXPECT_THAT(problem("fail { racks: [1, 1] }"), HasSubstr("rack 1 is listed twice"));
  EXPECT_THAT(problem("fail { racks: 1 hosts: [0, 3] }"), HasSubstr("host 3 is in rack 1, which is listed, too"));
  EXPECT_THAT(problem("fail { racks: 1 devices: 4 }"), HasSubstr("device 4 is named twice here"));
  for (const std::string event : {"fail { racks: 0 }", "preempt { racks: 0 notice: \"5s\" }"}) {
    EXPECT_THAT(problem(event, ""), HasSubstr("the cluster has no racks"));
    EXPECT_THAT(problem(event, ""), HasSubstr("give it rack_hosts"));
  }
  EXPECT_THAT(problem("fail { }"), HasSubstr("give devices, hosts, racks, links or switches"));
}

TEST(SwitchesInEvents, AreTheirLinks) {
  const std::string at = "events { at: \"10s\" ", back = "events { at: \"20s\" ";
  EXPECT_EQ(
      resolved(racked(at + "fail { switches: \"leaf2\" } }" + back + "repair { switches: \"leaf2\" } }", kLeaves)),
      resolved(racked(at + "fail { links: [\"h4.nic0.up\", \"h4.nic0.down\", \"leaf2.up\", \"leaf2.down\"] } }" + back +
                          "repair { links: [\"h4.nic0.up\", \"h4.nic0.down\", \"leaf2.up\", \"leaf2.down\"] } }",
                      kLeaves)));
  // Leaf 2 and the spine share a link: it fails once.
  EXPECT_EQ(resolved(racked(at + "fail { switches: [\"leaf2\", \"spine\"] } }", kLeaves)),
            resolved(racked(at + "fail { links: [\"h4.nic0.up\", \"h4.nic0.down\", \"leaf2.up\", \"leaf2.down\", "
                                 "\"leaf0.up\", \"leaf0.down\", \"leaf1.up\", \"leaf1.down\"] } }",
                            kLeaves)));
}

TEST(SwitchesInEvents, JobsMayLeaveWhatTheyCutOff) {
  const std::string at = "events { at: \"10s\" fail { switches: \"leaf2\" ";
  EXPECT_THAT(resolved(racked(at + "leave: true expected: \"20min\" } }", kLeaves)),
              ContainsRegex("leave: true\n +expected: \"1200s\""));
  EXPECT_THAT(problems(racked("events { at: \"10s\" fail { hosts: 1 leave: true } }", kLeaves)),
              HasSubstr("jobs leave what links cut off, and none is named"));
  EXPECT_THAT(resolved(racked(at + "} }", kLeaves)), HasSubstr("leave: true"));
  EXPECT_THAT(resolved(racked("policy { name: \"fifo\" } " + at + "} }", kLeaves)), HasSubstr("leave: false"));
  EXPECT_THAT(problems(racked(at + "leave: false expected: \"20min\" } }", kLeaves)),
              HasSubstr("hint: leave out leave: false"));
  EXPECT_THAT(problems(racked(at + "leave: true expected: \"0s\" } }", kLeaves)), HasSubstr("lasts longer than 0 s"));
  EXPECT_THAT(problems(racked("policy { name: \"fifo\" } " + at + "leave: true } }", kLeaves)),
              HasSubstr("the policy's to decide"));
}

TEST(SwitchesInEvents, WrongOnesAreNamed) {
  const auto problem = [](const std::string& what, const std::string& cluster) {
    return problems(racked("events { at: \"10s\" " + what + " }", cluster));
  };
  EXPECT_THAT(problem("fail { switches: \"leaf3\" }", kLeaves), HasSubstr("unknown switch \"leaf3\""));
  EXPECT_THAT(problem("fail { switches: [\"leaf1\", \"leaf1\"] }", kLeaves),
              HasSubstr("switch \"leaf1\" is named twice here"));
  EXPECT_THAT(problem("fail { switches: \"leaf0\" links: \"h1.nic0.up\" }", kLeaves),
              HasSubstr("link \"h1.nic0.up\" belongs to a switch that is named, too"));
  EXPECT_THAT(problem("repair { switches: \"leaf0\" }", kLeaves),
              HasSubstr("switch \"leaf0\" is repaired but never failed"));
  EXPECT_THAT(problem("fail { switches: \"leaf0\" }", ""), HasSubstr("unknown switch \"leaf0\""));
  EXPECT_EQ(problem("fail { switches: \"fabric\" }", ""), "none") << "the switch of a star";
}

}  // namespace events_test
}  // namespace scalai::scenario
