#include "ptc/run/control/event_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <sstream>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::control {
namespace event_text_test {

using ::testing::HasSubstr;
using ::testing::Not;

class EventText : public ::testing::Test {
 protected:
  std::vector<Event> events_ = {{0, Started{}},
                                {10, StepReached{0, 10}},
                                {15, ExecutionDone{0, {.stop = 1, .restart = 3, .transfer = 1}}},
                                {65, DevicesLost{{DeviceId(2), DeviceId(3)}, 50}}};
};

double random_double(Random& random) {
  while (true) {
    const auto value = std::bit_cast<double>(random.next());
    if (std::isfinite(value)) return value;
  }
}

std::vector<DeviceId> random_devices(Random& random) {
  std::vector<DeviceId> devices;
  for (int64_t n = random.below(5); n > 0; --n) devices.emplace_back(random.below(1 << 20));
  return devices;
}

PhaseSeconds random_phases(Random& random) {
  PhaseSeconds phases;
  for (double* seconds : {&phases.detect, &phases.stop, &phases.plan, &phases.restart, &phases.prepare,
                          &phases.transfer, &phases.verify, &phases.resume, &phases.aborted}) {
    *seconds = random_double(random);
  }
  return phases;
}

SamplesRead random_reading(Random& random) {
  SamplesRead read{.job = static_cast<int>(random.below(1000)),
                   .from_step = static_cast<int64_t>(random.next()),
                   .step = static_cast<int64_t>(random.next()),
                   .bytes = static_cast<int64_t>(random.next()),
                   .assumed = static_cast<int64_t>(random.next())};
  for (int64_t n = random.below(5); n > 0; --n) {
    datasets::SampleAccount& account = read.accounts.emplace_back();
    account.samples = static_cast<int64_t>(random.next());
    account.sum_low = random.next() >> random.below(64);
    account.sum_high = random.next() >> random.below(64);
  }
  return read;
}

// Any bytes, or nothing.
std::string random_cause(Random& random) {
  std::string text(static_cast<size_t>(random.below(2) * random.below(40)), ' ');
  for (char& c : text) c = static_cast<char>(random.below(256));
  return as_cell(text);
}

EventBody random_body(Random& random) {
  const auto small = [&] { return static_cast<int>(random.below(1000)); };
  const auto any = [&] { return static_cast<int64_t>(random.next()); };
  switch (random.below(13)) {
    case 0: return Started{};
    case 1: return StepReached{small(), any()};
    case 2: return RoundDone{small(), small()};
    case 3: return ExecutionDone{small(), random_phases(random)};
    case 4: return BackgroundDone{small(), any()};
    case 5: return TimerFired{any()};
    case 6:
      return DevicesLost{random_devices(random), random_double(random), random.below(2) == 1, random_cause(random)};
    case 7: return UserDrain{random_devices(random)};
    case 8: return UserStop{};
    case 10: return CopyLost{small(), any()};
    case 11: return UserSave{small()};
    case 9: return random_reading(random);
    default: return UserResize{small(), small()};
  }
}

bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool same(const PhaseSeconds& a, const PhaseSeconds& b) {
  return same(a.detect, b.detect) && same(a.stop, b.stop) && same(a.plan, b.plan) && same(a.restart, b.restart) &&
         same(a.prepare, b.prepare) && same(a.transfer, b.transfer) && same(a.verify, b.verify) &&
         same(a.resume, b.resume) && same(a.aborted, b.aborted);
}

struct SameBody {
  bool operator()(const Started&, const Started&) const { return true; }
  bool operator()(const StepReached& a, const StepReached& b) const { return a.job == b.job && a.step == b.step; }
  bool operator()(const RoundDone& a, const RoundDone& b) const { return a.job == b.job && a.round == b.round; }
  bool operator()(const ExecutionDone& a, const ExecutionDone& b) const {
    return a.job == b.job && same(a.phases, b.phases);
  }
  bool operator()(const BackgroundDone& a, const BackgroundDone& b) const { return a.job == b.job && a.tag == b.tag; }
  bool operator()(const CopyLost& a, const CopyLost& b) const { return a.job == b.job && a.tag == b.tag; }
  bool operator()(const TimerFired& a, const TimerFired& b) const { return a.timer == b.timer; }
  bool operator()(const DevicesLost& a, const DevicesLost& b) const {
    return a.devices == b.devices && same(a.failed_at_s, b.failed_at_s) && a.usable == b.usable && a.cause == b.cause;
  }
  bool operator()(const UserResize& a, const UserResize& b) const { return a.job == b.job && a.gpus == b.gpus; }
  bool operator()(const UserDrain& a, const UserDrain& b) const { return a.devices == b.devices; }
  bool operator()(const UserStop&, const UserStop&) const { return true; }
  bool operator()(const UserSave& a, const UserSave& b) const { return a.job == b.job; }
  bool operator()(const SamplesRead& a, const SamplesRead& b) const {
    return a.job == b.job && a.from_step == b.from_step && a.step == b.step && a.accounts == b.accounts &&
           a.bytes == b.bytes && a.assumed == b.assumed;
  }
  template <class A, class B>
  bool operator()(const A&, const B&) const {
    return false;
  }
};

TEST_F(EventText, EventsRoundTripExactly) {
  constexpr uint64_t kSeed = 20240817;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    events_.clear();
    for (int64_t n = random.below(20); n > 0; --n) {
      events_.push_back({random_double(random), random_body(random)});
    }
    const std::string csv = events_csv(events_);
    const auto parsed = parse_events(csv);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << csv;
    ASSERT_EQ(parsed->size(), events_.size());
    for (size_t i = 0; i < parsed->size(); ++i) {
      EXPECT_TRUE(same((*parsed)[i].at_s, events_[i].at_s)) << csv;
      EXPECT_TRUE(std::visit(SameBody{}, (*parsed)[i].body, events_[i].body)) << "event " << i << " of\n" << csv;
    }
    events_ = *parsed;
    EXPECT_EQ(events_csv(events_), csv);
  }
}

TEST_F(EventText, EventsThatAreNotOursAreRefusedWithTheirPlace) {
  const std::string good = events_csv(events_);
  const auto message = [](const std::string& csv) { return message_of(parse_events(csv).status()); };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string csv = good;
    const size_t at = csv.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return csv.replace(at, from.size(), to);
  };
  EXPECT_THAT(message(""), HasSubstr("columns"));
  EXPECT_THAT(message(good.substr(0, good.size() - 3)), HasSubstr("cut off"));
  EXPECT_THAT(message(with("at_s", "at")), HasSubstr("columns"));
  EXPECT_THAT(message(with("step_reached", "step_leapt")), HasSubstr("line 3, column event: \"step_leapt\""));
  EXPECT_THAT(message(with("10,step_reached", "10,started")), HasSubstr("line 3, column job: \"0\" has no meaning"));
  EXPECT_THAT(message(with("10,step_reached", "soon,step_reached")), HasSubstr("column at_s: \"soon\""));
  EXPECT_THAT(message(with("10,step_reached", "inf,step_reached")), HasSubstr("column at_s: \"inf\""));
  EXPECT_THAT(message(with("g2 g3", "g2 h3")), HasSubstr("line 5, column devices: \"g2 h3\""));
  EXPECT_THAT(message(with("g2 g3", "g2,g3")), HasSubstr("cells"));
  EXPECT_THAT(message(with("step_reached,0", "step_reached,99999999999")), HasSubstr("column job"));
}

TEST_F(EventText, AccountsThatAreNotOursAreRefused) {
  const datasets::SampleAccount one{.samples = 3, .sum_low = 4, .sum_high = 5};
  events_ = {{1, SamplesRead{.job = 0, .from_step = 2, .step = 6, .accounts = {one, one}, .bytes = 7, .assumed = 1}}};
  const std::string good = events_csv(events_);
  const std::string sum = "00000000000000050000000000000004";
  EXPECT_THAT(good, HasSubstr(",2,3 3," + sum + " " + sum + ",7,,1,,,\n"));
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string csv = good;
    EXPECT_FALSE(parse_events(csv.replace(csv.rfind(from), from.size(), to)).ok()) << csv;
  };
  refused(sum, sum + " " + sum);
  refused(" " + sum, "");
  refused(sum, sum.substr(1));
  refused(sum, "g" + sum.substr(1));
  refused("3 3", "3 x");
}

// So that the log of a simulated run is what it was before causes were known.
TEST_F(EventText, OptionalColumnsAreThereWhereTheyAreFilled) {
  const std::string plain = events_csv(events_);
  EXPECT_THAT(plain, HasSubstr(",decision\n"));
  events_.push_back({9, DevicesLost{{DeviceId(1)}, 8, true}});
  EXPECT_THAT(events_csv(events_), HasSubstr(",yes,,\n"));
  EXPECT_EQ(events_csv(parse_events(events_csv(events_)).value()), events_csv(events_));
  events_.back().body = DevicesLost{{DeviceId(1)}, 8, false, as_cell("the worker of h1: killed, \"by\" a\nsignal")};
  const std::string csv = events_csv(events_);
  EXPECT_THAT(csv, HasSubstr(",decision,assumed,usable,cause,notice_s\n"));
  EXPECT_THAT(csv, HasSubstr(",the worker of h1: killed; 'by' a?signal,\n"));
  EXPECT_EQ(events_csv(parse_events(csv).value()), csv);
  EXPECT_EQ(parse_event_lines({event_line(events_.front())})->size(), 1U) << "a line of a journal has all columns";
}

TEST_F(EventText, RequestsMayHaveANotice) {
  const std::string before = events_csv(events_);
  events_.push_back({9, UserDrain{{DeviceId(1)}}});
  events_.push_back({9, UserDrain{{DeviceId(1)}, 30}});
  events_.push_back({9, UserStop{0.5}});
  const std::string csv = events_csv(events_);
  EXPECT_THAT(csv, HasSubstr(",30\n"));
  const std::vector<Event> read = parse_events(csv).value();
  EXPECT_EQ(events_csv(read), csv);
  EXPECT_EQ(std::get<UserStop>(read.back().body).notice_s, 0.5);
  EXPECT_FALSE(std::get<UserDrain>(read[read.size() - 3].body).notice_s);
}

// Logs from before jobs had datasets, from before there were policies, and those without what only executed runs know.
TEST_F(EventText, EventsOfEarlierVersionsAreRead) {
  for (const auto& [columns, last] :
       {std::pair(5, "aborted_s\n"), std::pair(1, "bytes\n"), std::pair(0, "decision\n")}) {
    std::string old;
    std::istringstream lines(events_csv(events_));
    for (std::string line; std::getline(lines, line);) {
      for (int column = 0; column < columns; ++column) line.resize(line.rfind(','));
      old += line + "\n";
    }
    EXPECT_THAT(old, HasSubstr(last));
    EXPECT_EQ(parse_events(old).value_or(std::vector<Event>()).size(), events_.size());
  }
}

// A damaged log is refused or read, never a crash or a hang.
TEST_F(EventText, DamagedEventsNeverCrash) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::string good = events_csv(events_);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string csv = good;
    csv[static_cast<size_t>(random.below(static_cast<int64_t>(csv.size())))] = static_cast<char>(random.below(256));
    refused += parse_events(csv).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace event_text_test
}  // namespace scalai::control
