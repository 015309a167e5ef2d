// `scalai report`: pages of small runs of each kind hold the numbers of summary.json; errors; a browser finds nothing
// to complain about.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

using Data = std::vector<std::pair<std::string, double>>;  // data-s, data-v

// The data of the first wide picture after a heading.
Data data_after(const std::string& html, const std::string& heading) {
  const size_t at = html.find(">" + heading + "</");
  EXPECT_NE(at, std::string::npos) << heading;
  const size_t from = html.find("<div class=\"wide\">", at), to = html.find("</div>", from);
  const std::string part = html.substr(from, to - from);
  static const std::regex shape("data-s=\"([^\"]*)\" data-v=\"([^\"]*)\"");
  Data data;
  for (std::sregex_iterator it(part.begin(), part.end(), shape), end; it != end; ++it)
    data.emplace_back((*it)[1].str(), std::stod((*it)[2].str()));
  return data;
}

const char* const kPhases[] = {"detect",   "stop",   "plan",   "restart", "prepare",
                               "transfer", "verify", "resume", "aborted"};

// Of one job: what the figure of pauses has to hold, from summary.json.
Data pauses_in(const Json& summary) {
  Data data;
  for (const Json& change : summary.at("jobs").at(0).at("reconfigurations")) {
    for (const char* phase : kPhases) {
      const double seconds = change.at("phases_s").at(phase);
      if (seconds > 0) data.emplace_back(phase, seconds);
    }
  }
  return data;
}

class ReportCommand : public SchedEndToEnd {
 protected:
  // The page of these folders and files of the test's folder.
  std::string page(const std::string& words) {
    const Outcome outcome = shell(
        fmt::format("cd '{}' && '{}/scalai' report {} --out=page.html", folder_.string(), kPrograms.string(), words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "page.html\n");
    EXPECT_EQ(outcome.err, "");
    return read_all(path("page.html"));
  }
  void run_small(const std::string& name, const std::string& words = "") {
    const std::string file = small_scenario(
        "events { at: \"10s\" redeploy { devices: [1, 3] } }\nevents { at: \"40s\" resize { gpus: 1 } }\n");
    const Outcome outcome = scalai(fmt::format("sim {} --out={} {}", file, path(name), words));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string recovery_scenario() {
    const std::string file = path("recovery.textproto");
    write_all(file, R"(schema_version: 1
name: "small-recovery"
description: "Hosts that fail"
seed: 1
until: "12h"
cluster { name: "c" hosts { count: 8 gpus: 8 gpu: "h100-80g" nics: 8 nic: "400Gbps" } fabric { kind: RAIL } storage { read: "40GB/s" write: "40GB/s" } }
jobs { name: "llama3-8b" model: "llama3-8b" global_batch: 128 search { pins: "zero0,tp8,pp1,cp1" } }
availability { generator: "poisson" set: "mtbf=2h" set: "repair=1h" set: "span=12h" }
recovery { design: "reshard" checkpoint_period: "young-daly" checkpoint_write: "20s" }
)");
    return file;
  }
};

TEST_F(ReportCommand, NumbersOfARunAreThoseOfItsSummary) {
  run_small("run");
  const Json summary = Json::parse(this->summary("run"));
  const std::string html = page("run");
  ASSERT_FALSE(pauses_in(summary).empty());
  EXPECT_EQ(data_after(html, "Pauses"), pauses_in(summary));
  const Json& job = summary.at("jobs").at(0);
  double downtime_s = 0, moved = 0;
  for (const auto& [cause, seconds] : data_after(html, "Downtime by cause")) downtime_s += seconds;
  EXPECT_NEAR(downtime_s, job.at("downtime_s").get<double>(), 1e-9);
  for (const auto& [of, bytes] : data_after(html, "Bytes")) moved += bytes;
  const Json& bytes = job.at("totals").at("bytes");
  EXPECT_EQ(moved, bytes.at("same_host").get<double>() + bytes.at("cross_host").get<double>() +
                       bytes.at("from_storage").get<double>());
  EXPECT_THAT(html, HasSubstr(fmt::format("<td>steps</td><td class=\"r\">{}</td>", job.at("steps").get<int>())));
}

TEST_F(ReportCommand, StrategiesStandSideBySide) {
  run_small("both", "--strategy=reshard,tenplex");
  const std::string html = page("both");
  EXPECT_THAT(html, HasSubstr("<th class=\"r\">reshard</th><th class=\"r\">tenplex</th>"));
  EXPECT_EQ(data_after(html, "Pauses"), pauses_in(Json::parse(summary("both/reshard"))));
}

TEST_F(ReportCommand, ManyJobs) {
  ASSERT_EQ(scalai("sim " + scenario() + " --out=" + path("fifo")).code, 0);
  const Json metrics = Json::parse(summary("fifo")).at("metrics");
  const std::string html = page("fifo");
  double waits_s = 0;
  for (const auto& [what, seconds] : data_after(html, "Jobs over time")) waits_s += what == "waits" ? seconds : 0;
  EXPECT_NEAR(waits_s / metrics.at("jobs").get<double>(), metrics.at("avg_queueing_s").get<double>(), 1e-6);
  EXPECT_THAT(html, HasSubstr(fmt::format("{:.2f} USD", metrics.at("cost_usd").get<double>())));
}

TEST_F(ReportCommand, RecoveryAndSweeps) {
  const std::string file = recovery_scenario();
  const Outcome run = scalai(fmt::format("sim {} --out={}", file, path("run")));
  ASSERT_EQ(run.code, 0) << run.err;
  const Outcome sweep = scalai(fmt::format(
      "sweep {} --vary=availability.set.mtbf=1h,4h --metrics=ettr,restarts --jobs=1 --out={}", file, path("s.csv")));
  ASSERT_EQ(sweep.code, 0) << sweep.err;
  const Json metrics = Json::parse(summary("run")).at("metrics");
  const std::string html = page("run s.csv");
  for (const auto& [use, hours] : data_after(html, "GPU hours by use"))
    EXPECT_EQ(hours, metrics.at(use).get<double>()) << use;
  EXPECT_THAT(html, HasSubstr("<h1>Hosts that fail</h1>"));
  // The rows are 1h,ettr,restarts,ok and 4h,…
  const std::string csv = read_all(path("s.csv"));
  const size_t row = csv.find("\n1h,") + 4;
  EXPECT_THAT(html, HasSubstr("data-v=\"" + csv.substr(row, csv.find(',', row) - row) + "\""));
}

TEST_F(ReportCommand, AnExecutedRunBesideItsSimulation) {
  if (!fs::exists(kPrograms / "scalai-exec")) GTEST_SKIP() << "scalai-exec is not built";
  run_small("sim");
  const Outcome executed =
      scalai(fmt::format("exec {} --scale-model=1/8 --out={}", path("small.textproto"), path("exec")));
  ASSERT_EQ(executed.code, 0) << executed.err;
  const std::string html = page("exec");
  EXPECT_EQ(data_after(html, "Pauses"), pauses_in(Json::parse(summary("exec"))));
  EXPECT_THAT(html, HasSubstr("transfer (measured)"));
  EXPECT_THAT(html, HasSubstr("an executed run does not record links"));
}

TEST_F(ReportCommand, Accuracy) {
  if (!fs::exists(kPrograms / "scalai-accuracy")) GTEST_SKIP() << "scalai-accuracy is not built (SCALAI_LABS=OFF)";
  ASSERT_EQ(scalai(fmt::format("accuracy --format=json > '{}'", path("accuracy.json"))).code, 0);
  const std::string html = page("accuracy.json");
  const Json accuracy = Json::parse(read_all(path("accuracy.json")));
  size_t ranges = 0;
  for (const Json& group : accuracy.at("groups")) ranges += group.at("published_over_predicted").is_array() ? 1 : 0;
  EXPECT_EQ(data_after(html, "Published over predicted").size(), ranges);
}

// ---- in a browser ---------------------------------------------------------------------------------------------------

class ReportInBrowser : public ReportCommand {
 protected:
  void SetUp() override {
    ReportCommand::SetUp();
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      if (browser_.empty() && shell(fmt::format("command -v {}", name)).code == 0) browser_ = name;
    }
    if (browser_.empty()) GTEST_SKIP() << "no chromium on PATH";
  }
  // Shows a page in a frame of this width: windows have a least width of their own.
  Outcome show(const std::string& html, int width) const {
    write_all(path("shown.html"), html);
    write_all(
        path("frame.html"),
        fmt::format("<!doctype html><iframe src=\"shown.html\" style=\"border:0;width:{}px;height:900px\"></iframe>"
                    "<script>onmessage = e => document.documentElement.dataset.widths = e.data</script>",
                    width));
    return shell(
        fmt::format("timeout 60 {} --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir='{}' "
                    "--window-size=1400,1000 --virtual-time-budget=2000 --enable-logging=stderr --dump-dom 'file://{}'",
                    browser_, path("profile"), path("frame.html")));
  }
  // "400 400": the width of the frame and of what is in it, with all parts open. The page forbids scripts, so a copy is
  // asked that does not.
  std::string widths(const std::string& html, int width) const {
    const size_t policy = html.find("<meta http-equiv=");
    std::string copy = html;
    if (policy != std::string::npos) copy.erase(policy, copy.find('>', policy) + 1 - policy);
    copy +=
        "<script>document.querySelectorAll('details').forEach(d => d.open = true);"
        "parent.postMessage(innerWidth + ' ' + document.scrollingElement.scrollWidth, '*');</script>";
    const std::string dom = show(copy, width).out;
    const size_t at = dom.find("data-widths=\"");
    return at == std::string::npos ? "nothing measured" : dom.substr(at + 13, dom.find('"', at + 13) - at - 13);
  }
  std::string console(const std::string& html, int width) const {
    std::string lines;
    std::istringstream all(show(html, width).err);
    for (std::string line; std::getline(all, line);)
      if (line.find("CONSOLE") != std::string::npos) lines += line + "\n";
    return lines;
  }
  void expect_well_shown(const std::string& html) const {
    for (const int width : {400, 1280}) {
      EXPECT_EQ(widths(html, width), fmt::format("{0} {0}", width));
      EXPECT_EQ(console(html, width), "") << width;
    }
  }
  std::string browser_;
};

TEST_F(ReportInBrowser, TheTestSeesOverflowAndMessages) {
  const std::string bad =
      "<!doctype html><body style=\"margin:0\"><div "
      "style=\"width:2000px\">x</div><script>console.error('seen')</script>";
  EXPECT_EQ(widths(bad, 400), "400 2000");
  EXPECT_THAT(console(bad, 400), HasSubstr("seen"));
}

TEST_F(ReportInBrowser, PagesOfRunsFitAndAreSilent) {
  run_small("both", "--strategy=reshard,tenplex");
  expect_well_shown(page("both"));
}

TEST_F(ReportInBrowser, PagesOfManyJobsAndRecoveryFitAndAreSilent) {
  ASSERT_EQ(scalai("sim " + scenario() + " --out=" + path("fifo")).code, 0);
  ASSERT_EQ(scalai(fmt::format("sim {} --out={}", recovery_scenario(), path("run"))).code, 0);
  expect_well_shown(page("fifo run"));
}

}  // namespace
}  // namespace scalai::testing
