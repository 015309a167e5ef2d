#include "ptc/report/page/page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/report/page/internal/run_sections.h"
#include "ptc/report/page/testing/example_pages.h"

namespace scalai::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HtmlPageTest : public testing::PageTest {
 protected:
  std::string page(const std::vector<PageSource>& sources) {
    const auto html = html_page(sources);
    EXPECT_TRUE(html.ok()) << html.status();
    return html.ok() ? *html : "";
  }
};

// Data of shapes between a heading and the next figure: "stop=1".
std::vector<std::string> data_after(const std::string& html, const std::string& heading) {
  std::string part = html.substr(html.find("<h2>" + heading + "</h2>"));
  part = part.substr(part.find("<div class=\"wide\">"));
  part = part.substr(0, part.find("</div>"));
  static const std::regex shape("data-s=\"([^\"]*)\" data-v=\"([^\"]*)\"");
  std::vector<std::string> data;
  for (std::sregex_iterator it(part.begin(), part.end(), shape), end; it != end; ++it)
    data.push_back((*it)[1].str() + "=" + (*it)[2].str());
  return data;
}

TEST_F(HtmlPageTest, FiguresHaveTheNumbersOfTheReport) {
  const std::string html = page({{"run", example("run")}});
  EXPECT_THAT(data_after(html, "Pauses"), ElementsAre("stop=1", "restart=3", "transfer=1", "detect=15", "aborted=0.5"));
  EXPECT_THAT(data_after(html, "Bytes"), ElementsAre("same host=1000", "cross host=5000"));  // of the completed change
  EXPECT_THAT(html, HasSubstr("lower bound: 5.00 kB"));
  EXPECT_THAT(html, HasSubstr("data-s=\"waiting\" data-v=\"100\""));
  EXPECT_THAT(html, HasSubstr("18446744073709551615"));  // the seed
  EXPECT_THAT(html, HasSubstr("scalai-sim x &lt;y&gt;"));
}

TEST_F(HtmlPageTest, VerdictsSayWhatWasLostAndWhy) {
  const std::string folder = example("run");
  const auto run = load_run("run", folder, *read_file(folder + "/summary.json"));
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(verdicts({*run}), ElementsAre("0 of 2 jobs complete; together they lose 120 s.",
                                            "job gpt loses 20.0 s of 100 s (20.0 %): pauses 12.0 s, waiting 3.00 s (no "
                                            "layout fits 1 GPUs), steps run again 3.00 s, "
                                            "snapshot stalls 1.50 s, steps cut off 500 ms. 100 steps, 32 samples/s.",
                                            "job bert, large loses 100 s of 100 s (100.0 %): waiting 100 s (queued; "
                                            "until the end of the run). 0 steps, 0 samples/s. At the end: waiting."));
}

TEST_F(HtmlPageTest, VerdictsBeginWithWhatTheMomentDecides) {
  const auto run = [](const std::string& label, double low_s) {
    RunData data;
    data.label = label;
    data.summary.jobs.resize(1);
    data.summary.jobs[0].any_moment = MomentSummary{.expected_s = low_s + 10, .low_s = low_s, .high_s = low_s + 20};
    return data;
  };
  EXPECT_EQ(verdicts({run("a", 5), run("b", 15)}).front(),
            "Which of these runs loses less time depends on the moment of the failure: a 15.0 s (5.00 s to 25.0 s), b "
            "25.0 s (15.0 s to 35.0 s).");
  EXPECT_THAT(verdicts({run("a", 5), run("b", 30)}).front(), HasSubstr("All 2 runs lose"));
}

// "gpt" holds g0 from 0 to 65 without a gap (train, stop, restart, transfer, train, detect), and g2 from 11 to 50.
TEST_F(HtmlPageTest, SeveralJobsHaveTheirDevices) {
  const std::string html = page({{"run", example("run")}});
  const std::string part = html.substr(html.find("jobs on devices</p>"));
  EXPECT_THAT(part, HasSubstr("data-s=\"gpt\" data-v=\"65\"><title>g0: gpt</title>"));
  EXPECT_THAT(part, HasSubstr("data-s=\"gpt\" data-v=\"39\"><title>g2: gpt</title>"));
}

TEST_F(HtmlPageTest, TheSameFilesGiveTheSameBytes) {
  const std::string folder = example("run");
  EXPECT_EQ(page({{"run", folder}}), page({{"run", folder}}));
}

TEST_F(HtmlPageTest, RunsOfOneScenarioStandSideBySide) {
  const std::string html = page({{"one", example("one")}, {"two", example("two", "tenplex")}});
  EXPECT_THAT(html, HasSubstr("<th class=\"r\">one</th><th class=\"r\">two</th><th class=\"r\">ratio</th>"));
  EXPECT_THAT(html, HasSubstr("2 runs"));
  const size_t first = html.find("<h1>");
  EXPECT_EQ(html.find("<h1>", first + 1), std::string::npos);
}

TEST_F(HtmlPageTest, WhatIsMissingIsLeftOutWithAWord) {
  const std::string folder = example("run");
  std::filesystem::remove(folder + "/transfers.csv");
  const std::string html = page({{"run", folder}});
  EXPECT_THAT(html, HasSubstr("run: transfers.csv is missing: the page does not say who sends to whom."));
  EXPECT_THAT(html, Not(HasSubstr("class=\"cell")));
}

// Keys that came later: basis, losses, downtime by cause.
TEST_F(HtmlPageTest, ReportsOfEarlierVersions) {
  const std::string folder = example("run");
  auto json = *read_ordered_json(*read_file(folder + "/summary.json"));
  json.erase("basis");
  json.erase("losses");
  for (auto& job : json.at("jobs")) job.erase("downtime");
  write("run/summary.json", json.dump());
  const std::string html = page({{"run", folder}});
  EXPECT_THAT(html, HasSubstr("20.0 s (causes not recorded)"));
  EXPECT_THAT(html, HasSubstr("The reports do not say (they are of an earlier version)."));
  EXPECT_THAT(data_after(html, "Pauses"), ElementsAre("stop=1", "restart=3", "transfer=1", "detect=15", "aborted=0.5"));
}

TEST_F(HtmlPageTest, RealTraining) {
  const std::string folder = example("run");
  auto json = *read_ordered_json(*read_file(folder + "/summary.json"));
  json.at("jobs")[0]["trained"] = {
      {{"layout", "dp2"}, {"gpus", 2}, {"steps", 10}, {"step_s", 0.5}, {"scenario_step_s", 1.0}}};
  write("run/summary.json", json.dump());
  write("run/workers/gpt/take_ups.csv",
        "step,layout,processes,attempts,seconds,communicators_s,build_s\n0,dp2,2,1,3.5,1,2\n");
  const std::string html = page({{"run", folder}});
  EXPECT_THAT(html, HasSubstr("<td>gpt</td><td>dp2</td><td class=\"r\">2</td><td class=\"r\">10</td><td "
                              "class=\"r\">500 ms</td><td class=\"r\">1.00 s</td>"));
  EXPECT_THAT(html, HasSubstr("<td>dp2</td><td class=\"r\">2</td><td class=\"r\">1</td><td class=\"r\">3.50 s</td><td "
                              "class=\"r\">1.00 s</td><td class=\"r\">2.00 s</td>"));
}

TEST_F(HtmlPageTest, ManyJobs) {
  const std::string html = page({{"fifo", many_jobs("fifo")}});
  EXPECT_THAT(html, HasSubstr("fifo: mean completion time 110 s (median 110 s), mean wait for the first GPUs 10.0 s; "
                              "GPUs train 22.0 % of the "
                              "time; 1 of 2 jobs finished. All GPUs up cost 0.50 USD."));
  EXPECT_THAT(html, HasSubstr("data-s=\"waits\" data-v=\"10\""));  // job a: submitted at 0, GPUs at 10, done at 110
  EXPECT_THAT(html,
              HasSubstr("data-s=\"changes\" data-v=\"2\"><title>a, 1 changes on 2 GPUs from 10.0 s to 12.0 s</title>"));
  EXPECT_THAT(
      html,
      HasSubstr("data-s=\"trains\" data-v=\"98\"><title>a, 1 trains on 2 GPUs of h0 from 12.0 s to 110 s</title>"));
  EXPECT_THAT(html, HasSubstr("<td>h0</td><td class=\"r\">1</td><td class=\"r\">44.4 %</td><td>a, 1</td>"));
  EXPECT_THAT(html, HasSubstr("data-s=\"waits\" data-v=\"175\""));  // job b: from 50 to the end at 225
  EXPECT_THAT(html, HasSubstr("<td>v100-16g</td><td class=\"r\">0.25</td><td class=\"r\">0.50</td>"));
  EXPECT_THAT(html, HasSubstr("fifo: a note"));
  // A metric of the user, and virtual clusters.
  EXPECT_THAT(html, HasSubstr("<td>late</td><td class=\"r\">0.25</td>"));
  EXPECT_THAT(html, HasSubstr("<td>vision</td><td class=\"r\">3</td><td class=\"r\">2</td><td class=\"r\">1</td>"
                              "<td class=\"r\">110 s</td><td class=\"r\">–</td>"));
}

TEST_F(HtmlPageTest, AMetricOfOneRunIsNoneOfTheOthers) {
  const std::string plain = many_jobs("plain");
  write("plain/summary.json",
        std::regex_replace(read_file(path("plain/summary.json")).value(), std::regex(", \"late\": 0.25"), ""));
  const std::string html = page({{"plain", plain}, {"mine", many_jobs("mine")}});
  EXPECT_THAT(html, HasSubstr("<td>late</td><td class=\"r\">–</td><td class=\"r\">0.25</td>"));
}

TEST_F(HtmlPageTest, RecoveryDesigns) {
  const std::string html = page({{"a", recovery("a")}});
  EXPECT_THAT(html, HasSubstr("a: 90.0 % of the time trains and is kept, 80 samples/s on average; 1 host lost, "
                              "1 restart, 0 samples lost."));
  EXPECT_THAT(html,
              HasSubstr("data-s=\"training_gpu_h\" data-v=\"0.75\"><title>training that is kept: 0.75 GPU-h</title>"));
}

TEST_F(HtmlPageTest, Sweeps) {
  const std::string csv =
      write("s.csv",
            "availability.set.mtbf,recovery.design,ettr,ettr_low,ettr_high,cost_usd,cost_usd_low,cost_usd_high,status\n"
            "1h,reshard,0.9,0.8,0.95,,,,ok\n1h,x,,,,,,,failed: "
            "why\n3h,reshard,0.97,0.96,0.98,,,,ok\n3h,x,,,,,,,failed: why\n");
  const std::string html = page({{"s.csv", csv}});
  EXPECT_THAT(html,
              HasSubstr("4 points over availability.set.mtbf, recovery.design; medians with their 95 % intervals"));
  EXPECT_THAT(html, HasSubstr("data-s=\"design=reshard\" data-v=\"0.97\""));
  EXPECT_THAT(
      html,
      HasSubstr("<td>3h</td><td>design=reshard</td><td class=\"r\">97.0 %</td><td class=\"r\">96.0 % to 98.0 %</td>"));
  EXPECT_THAT(html, HasSubstr("Row 2: failed: why"));
  EXPECT_THAT(html, HasSubstr("Without values: cost_usd."));
  EXPECT_THAT(html, Not(HasSubstr("data-s=\"design=x\"")));
}

TEST_F(HtmlPageTest, SweptNamesAreDotsWithoutALine) {
  const auto lines_of = [&](const std::string& values) {
    const std::string html = page({{"s.csv", write("s.csv", "policy.name,avg_jct_s,status\n" + values)}});
    EXPECT_THAT(html, HasSubstr("data-s=\"JCT, mean\" data-v=\"7200\""));
    const size_t d = html.find(" d=\"M");
    return d == std::string::npos ? "" : html.substr(d, html.find('"', d + 4) - d);
  };
  EXPECT_THAT(lines_of("fifo,7200,ok\nsrtf,3600,ok\n"), Not(HasSubstr("L")));
  EXPECT_THAT(lines_of("1h,7200,ok\n2h,3600,ok\n"), HasSubstr("L"));
}

TEST_F(HtmlPageTest, Accuracy) {
  const std::string json =
      write("a.json",
            R"({"groups": [{"group": "steps", "fit": {"rows": 3, "mape": 0.05}, "held_out": {"rows": 4, "mape": 0.1},
"published_over_predicted": [0.9, 1.2]}, {"group": "other", "published_over_predicted": null}],
"tables": [{"table": "t", "title": "T", "error_unit": "points", "predicted": {"rows": 2, "mape": 1.25, "largest": 2}}], "not_modelled": ["ECMP"]})");
  const std::string html = page({{"a.json", json}});
  EXPECT_THAT(html, HasSubstr("data-s=\"steps\" data-v=\"1.2\""));
  EXPECT_THAT(html,
              HasSubstr("<td>steps</td><td class=\"r\">0.90</td><td class=\"r\">1.20</td><td class=\"r\">10.0 %</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"r\">1.2 points</td>"));
  EXPECT_THAT(html, HasSubstr("<li>ECMP</li>"));
}

TEST_F(HtmlPageTest, AllProblemsAtOnce) {
  const std::string run = example("run");
  write("old/summary.json", "{\"schema_version\": 99}");
  write("kind/summary.json", "{\"schema_version\": 1, \"kind\": \"other\"}");
  write("text.txt", "x");
  write("cut/partial.json", "{}");
  write("s.csv", "a,b\n1,2\n");
  const auto html = html_page({{"r", run},
                               {"o", path("old")},
                               {"k", path("kind")},
                               {"t", path("text.txt")},
                               {"c", path("cut")},
                               {"n", path("none")},
                               {"s", path("s.csv")}});
  const std::string problems = message_of(html.status());
  EXPECT_THAT(problems, HasSubstr("old/summary.json: "));
  EXPECT_THAT(problems, HasSubstr("kind/summary.json: /kind is \"other\""));
  EXPECT_THAT(problems, HasSubstr("text.txt: neither the folder of a run"));
  EXPECT_THAT(problems, HasSubstr("cut: the run ended in an error"));
  EXPECT_THAT(problems, HasSubstr("none: no such file or folder"));
  EXPECT_THAT(problems, HasSubstr("s.csv: no table of `scalai sweep`"));
  EXPECT_EQ(exit_code_of(html.status()), 3);
}

}  // namespace
}  // namespace scalai::report
