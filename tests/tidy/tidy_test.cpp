#include "tests/tidy/tidy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace scalai::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kFunctionLines = 80;
constexpr int kFileLines = 480;

const std::vector<FolderRule>& folder_rules() {
  static const std::vector<FolderRule> rules = {
      {"ptc/base", {}},
      {"ptc/proto", {"ptc/base"}},
      {"ptc/tensor", {"ptc/base"}},
      {"ptc/model", {"ptc/tensor"}, {"ptc/checkpoint/naming"}},
      {"ptc/cluster", {"ptc/base"}},
      {"ptc/collection", {"ptc/tensor", "ptc/model", "ptc/proto"}},
      {"ptc/plan", {"ptc/cluster", "ptc/collection"}, {"ptc/checkpoint/naming"}},
      {"ptc/change", {"ptc/plan"}},
      {"ptc/bounds", {"ptc/base"}},
      {"ptc/parallel", {"ptc/plan", "ptc/bounds"}},
      {"ptc/data", {"ptc/base"}},
      {"ptc/checkpoint/safetensors", {"ptc/collection"}},
      {"ptc/checkpoint/naming", {"ptc/collection"}},
      {"ptc/checkpoint/torch", {"ptc/checkpoint/safetensors"}},
      {"ptc/checkpoint/views", {"ptc/checkpoint/safetensors", "ptc/checkpoint/naming", "ptc/checkpoint/torch"}},
      {"ptc/sched", {"ptc/base"}, {"sim/jobs"}},  // tests play policies in the engine
      {"ptc/scenario", {"ptc/change", "ptc/parallel", "ptc/data", "ptc/sched", "ptc/checkpoint/naming"}},
      {"ptc/control", {"ptc/scenario"}},
      {"ptc/report", {"ptc/control"}},
      {"near", {"ptc/proto"}},
      {"sim/jobs", {"ptc/report", "sim"}},
      {"sim", {"ptc/control"}, {"ptc/report", "sim/jobs"}},
      {"executor/secret", {"ptc/base"}},
      {"executor/state", {"ptc/tensor"}},
      {"executor/device", {"executor/state"}},
      {"executor/cuda", {"executor/device"}},
      {"executor/nccl", {"ptc/base"}},
      {"executor/exchange", {"executor/device", "executor/nccl"}, {"executor/cuda"}},
      {"executor/transport", {"executor/secret"}, {"executor/state"}},
      {"executor/journal", {"ptc/base"}, {"ptc/checkpoint/safetensors"}},
      {"executor/rpc", {"ptc/proto", "executor/secret", "executor/state"}},
      {"executor/trainers", {"executor/rpc"}},
      {"executor/worker",
       {"executor/trainers", "executor/exchange", "executor/transport", "ptc/checkpoint/views", "ptc/data",
        "ptc/plan"}},
      {"executor/live", {"executor/worker"}},
      {"executor/controller", {"executor/worker", "executor/journal", "ptc/control"}, {"ptc/report", "executor/cuda"}},
      {"executor/bench", {"executor/controller", "executor/cuda"}, {"ptc/report"}},
      {"vfs/remote", {"ptc/base"}},
      {"vfs", {"vfs/remote", "ptc/data", "ptc/checkpoint/views"}},
      {"apps/common", {"ptc/report", "near"}},
      {"apps/jobs", {"apps/common", "sim/jobs"}},
      {"apps/accuracy", {"apps/common", "ptc/parallel", "sim/jobs"}},
      {"apps/checkpoint", {"apps/common", "ptc/checkpoint/views", "vfs/remote"}},
      {"apps/data", {"apps/common", "ptc/data", "vfs/remote"}},
      {"apps/near", {"apps/common", "near", "ptc/data"}},
      {"apps/exec", {"apps/common", "executor/bench", "executor/controller", "sim", "vfs"}},
      {"apps/fs", {"apps/common", "apps/exec", "executor/live", "vfs"}},
      {"examples", {"ptc/plan"}},
      {"python/module", {"apps", "ptc/checkpoint/views", "ptc/data", "ptc/plan", "ptc/scenario", "executor/cuda"}},
      {"apps", {"*"}},
      {"tests", {"*"}},
  };
  return rules;
}

const std::vector<LibraryRule>& library_rules() {
  static const std::vector<LibraryRule> rules = {
      {"simgrid/", {"sim"}},
      {"xbt/", {"sim"}},
      {"boost/", {"ptc/base"}},
      {"google/protobuf/", {}, {"apps/schema/internal"}},
      {"nlohmann/json.hpp", {}},
      {"cuda", {"executor"}, {"executor/cuda/internal", "executor/cuda/kernels"}},
      {"nccl.h", {"executor"}},
      {"ucp/", {"executor"}},
      {"grpcpp/", {"executor"}},
      {"fuse3/", {"vfs"}},
      {"sqlite3.h", {"executor", "tests/fuzz"}},
      {"curl/", {"vfs"}},
      {"openssl/", {"executor/secret"}},
      {"Eigen/", {"ptc/bounds"}},
      {"Spectra/", {"ptc/bounds"}},
  };
  return rules;
}

// In pieces, so that this file does not contain what it forbids.
const std::vector<BannedWord>& words() {
  const std::string reminder = "open an issue or do it now";
  const std::string result = "results go to stdout in apps/ and ptc/base only; use stderr or return a value";
  const std::vector<std::string> printers = {"apps/", "ptc/base/", "tests/"};
  const std::string tree = "read_json() of ptc/base/json.h refuses what is nested too deeply to be walked";
  const std::vector<std::string> json_readers = {"ptc/base/json.cpp", "tests/"};
  const std::vector<std::string> event_readers = {"ptc/base/json.cpp", "ptc/proto/json_tree.cpp",
                                                  "ptc/scenario/trace/document_jobs.cpp",
                                                  "ptc/checkpoint/safetensors/safetensors_header.cpp"};
  static const std::vector<BannedWord> banned = {
      {std::string("TO") + "DO", Where::kText, {}, reminder},
      {std::string("FIX") + "ME", Where::kText, {}, reminder},
      {std::string("XX") + "X", Where::kText, {}, reminder},
      {std::string("HA") + "CK", Where::kText, {}, reminder},
      {std::string("/wo") + "rk/", Where::kText, {}, "a path of one machine"},
      {std::string("not yet ") + "supported", Where::kText, {}, "say what is supported"},
      {"std::cout", Where::kCode, {"apps/"}, result},
      {"stdout", Where::kCode, printers, result},
      {"printf(", Where::kCode, printers, result},
      {"puts(", Where::kCode, printers, result},
      {"fmt::print(stderr",
       Where::kCode,
       {"tests/", "examples/", "sim/search_simulated_test", "sim/simulated_step_time_test"},
       "say() of ptc/base/say.h does not throw where it cannot write"},
      {"json::parse(", Where::kCode, json_readers, tree, true},
      {"Json::parse(", Where::kCode, json_readers, tree, true},
      {"ordered_json::parse(", Where::kCode, json_readers, tree, true},
      {"sax_parse(", Where::kCode, event_readers,
       "a reader of events counts levels itself; else read_json() of ptc/base/json.h"},
      {"using namespace std", Where::kCode, {}, "name what is used"},
      {"catch (...)", Where::kCode, {}, "catch what the library documents"},
      {"catch(...)", Where::kCode, {}, "catch what the library documents"},
  };
  return banned;
}

const std::vector<Exception>& long_function_exceptions() {
  static const std::vector<Exception> exceptions = {
      {"ptc/plan/interpreter_test.cpp:mutations", "a table of small functions, one a kind of corruption"},
      {"tests/tidy/tidy_test.cpp:untested_exceptions", "a table"},
  };
  return exceptions;
}

// Sources that implement a part of a header whose test has another name.
const std::vector<Exception>& untested_exceptions() {
  static const std::vector<Exception> exceptions = {
      {"ptc/base/help.cpp", "`--help` of command.h; program_test runs it"},
      {"ptc/base/man_page.cpp", "`man` of command.h; program_test runs it"},
      {"python/module/checkpoints.cpp", "for Python; python/tests/test_checkpoint.py calls all of it"},
      {"python/module/collections.cpp", "for Python; python/tests/test_planning.py calls all of it"},
      {"python/module/gpu_memory.cpp", "for Python; python/tests/test_gpu_memory.py calls all of it"},
      {"python/module/module.cpp", "the start of the module; python/tests call it"},
      {"python/module/plans.cpp", "for Python; python/tests/test_planning.py calls all of it"},
      {"python/module/samples.cpp", "for Python; python/tests/test_sampling.py calls all of it"},
      {"near/annotation_file.cpp", "a part of annotation.h; annotation_test"},
      {"apps/checkpoint/stats_near.cpp", "--host of `scalai checkpoint stats`; tests/stats_command_test runs it"},
      {"apps/common/near_hosts.cpp", "hosts and launchers; tests/near_command_test gives good and bad ones"},
      {"apps/near/near_command.cpp", "a command; tests/near_command_test runs it"},
      {"apps/near/near_explain.cpp", "--explain of it; tests/near_command_test reads it"},
      {"apps/near/near_run.cpp", "a run as its source; tests/exec_live_views_test reads one"},
      {"apps/near/near_source.cpp", "its source and hosts; tests/near_command_test gives good and bad ones"},
      {"executor/controller/job_work_copies.cpp", "a part of job_work.h; trainer_work_test, exec_runtime_test"},
      {"executor/controller/job_work_resume.cpp", "a part of job_work.h; exec_runtime_resume_test"},
      {"executor/live/live_run.cpp", "tests/exec_live_views_test reads running jobs with it, well and badly"},
      {"executor/trainers/testing/trainer_main.cpp", "a program that trainers_test and trainer_work_test start"},
      {"executor/worker/training.cpp", "executor/controller/trainer_work_test runs whole jobs with it"},
      {"executor/worker/worker_state.cpp", "a part of worker.h; worker_test"},
      {"ptc/control/training.h", "job_test"},
      {"apps/jobs/sim_cluster.cpp", "`scalai sim` of many jobs; sched_scenarios_test runs it, well and badly"},
      {"apps/common/dataset_state.cpp",
       "options of data show and fs mount; data_command_test and fs_dataset_test run them"},
      {"apps/common/model_options.cpp", "options of models and plan; plan_command_test and e2e_test run them"},
      {"apps/fs/fs_control.cpp", "commands; tests/fs_life_test and fs_dataset_test run them"},
      {"apps/fs/fs_live.cpp", "a part of `scalai fs mount`; tests/exec_live_views_test runs it"},
      {"apps/fs/fs_mount.cpp", "a command; tests/fs_life_test runs it, well and badly"},
      {"apps/fs/fs_options.cpp", "the options of fs_request; tests/fs_test runs them"},
      {"apps/fs/fs_request.cpp", "options of `scalai fs mount`; tests/fs_life_test runs good and bad ones"},
      {"vfs/checkpoint_tree.cpp", "views on a real mount; tests/fs_test looks at them"},
      {"vfs/internal/operations.cpp", "what server_test asks a mount for"},
      {"apps/plan/plan_difference.cpp", "`scalai plan diff`; plan_command_test runs it"},
      {"apps/plan/plan_output.cpp", "what `scalai plan` prints; plan_command_test reads it"},
      {"apps/plan/plan_request.cpp", "options of `scalai plan`; plan_command_test runs good and bad ones"},
      {"apps/common/problems.cpp",
       "what is wrong with a command line; plan_command_test and parallelize_command_test read it"},
      {"apps/parallelize/offload_output.cpp", "--offload of it; parallelize_command_test reads it"},
      {"apps/parallelize/parallelize_change.cpp",
       "--from of it; parallelize_command_test holds it against `scalai plan`"},
      {"apps/parallelize/parallelize_options.cpp", "its options; parallelize_command_test gives them"},
      {"apps/parallelize/parallelize_output.cpp", "what it prints; parallelize_command_test reads and adds it up"},
      {"apps/parallelize/parallelize_request.cpp", "its options; parallelize_command_test runs good and bad ones"},
      {"apps/accuracy/policies/bamboo_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/failures_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/gavel_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/oobleck_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/parcae_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/philly_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/pop_set.cpp", "a set of validation.h; validation_test runs it"},
      {"apps/accuracy/policies/pollux_set.cpp", "a set of validation.h; minutes long, validation_test names it"},
      {"apps/parallelize/two_bw_output.cpp", "--planner=pipedream-2bw of it; parallelize_command_test reads it"},
      {"apps/checkpoint/checkpoint_options.cpp", "options of reshard and checkpoint; reshard_command_test gives them"},
      {"apps/data/data_show.cpp", "`scalai data show`; data_command_test runs it"},
      {"ptc/data/verify.cpp", "Index::verify of index.h; index_test damages every byte for it"},
      {"tests/chaos/choice.cpp", "what exec_chaos plays"},
      {"tests/chaos/clock.cpp", "exec_chaos moves the date with it"},
      {"tests/chaos/network.cpp", "hosts of exec_chaos"},
      {"tests/chaos/reshard_chaos.cpp", "a test of its own"},
      {"tests/chaos/run.cpp", "a run of exec_chaos"},
      {"tests/crash/checkpoint_subject.cpp", "a part of crash_states, a test of its own"},
      {"tests/crash/journal_subject.cpp", "a part of crash_states, a test of its own"},
      {"tests/crash/recorder.cpp", "a library to preload; explorer_test records with it"},
      {"tests/crash/reshard_subject.cpp", "a part of crash_states, a test of its own"},
      {"tests/crash/run_subject.cpp", "a part of crash_states, a test of its own"},
      {"tests/crash/subject.cpp", "marks and processes of subjects; explorer_test uses them"},
      {"apps/exec/exec_inputs.cpp",
       "options of `scalai exec`; e2e_exec_test, e2e_exec_live_test and exec_mount_test give them"},
      {"apps/exec/exec_bench.cpp", "a command; exec_bench_test runs it"},
      {"apps/exec/exec_calibrate.cpp", "a command; exec_calibrate_test runs it"},
      {"apps/exec/exec_ctl.cpp", "a command; e2e_exec_live_test runs it"},
      {"apps/exec/exec_controller.cpp", "the run of a command; e2e_exec_test runs it"},
      {"apps/exec/exec_launch.cpp", "a command; e2e_exec_live_test and python_job_test run it"},
      {"apps/exec/exec_run.cpp", "a command; e2e_exec_test runs it"},
      {"apps/exec/exec_worker.cpp", "a process of its own; e2e_exec_test starts it, well and badly"},
      {"apps/exec/exec_session.cpp", "controller and workers; e2e_exec_test starts them"},
      {"apps/common/run_report.cpp", "what sim and exec have in common; e2e_test runs it"},
      {"apps/report/report_command.cpp", "a command; report_command_test runs it, well and badly"},
      {"ptc/report/page/accuracy_section.cpp", "a part of pages; page_test reads it"},
      {"ptc/report/page/jobs_data.cpp", "many jobs; page_test reads their pages"},
      {"ptc/report/page/jobs_sections.cpp", "parts of pages; page_test reads them"},
      {"ptc/report/page/jobs_gantt.cpp", "parts of pages; page_test reads them"},
      {"ptc/report/page/run_bytes.cpp", "a part of pages; page_test reads it"},
      {"ptc/report/page/run_heat.cpp", "sums of run_data.h; run_data_test"},
      {"ptc/report/page/run_heat_section.cpp", "parts of pages; page_test reads them"},
      {"ptc/report/page/run_overview.cpp", "a part of pages; page_test reads it"},
      {"ptc/report/page/run_pauses.cpp", "a part of pages; page_test reads it"},
      {"ptc/report/page/run_timeline.cpp", "a part of pages; page_test reads it"},
      {"ptc/report/page/sweep_section.cpp", "a part of pages; page_test reads it"},
      {"apps/scenario/scenario_commands.cpp", "commands; diagnostics_test and e2e_test run them"},
      {"apps/sim/sim_alternatives.cpp", "processes of scalai-sim; e2e_test and sched_scenarios_test run them"},
      {"ptc/control/replay.cpp", "e2e_test replays reports, true and altered"},
      {"ptc/control/run.cpp", "the loop of every test in sim_runtime_test"},
      {"ptc/plan/internal/plan_facts.cpp", "facts the interpreters share; interpreter_test"},
      {"ptc/plan/plan.cpp", "names and digest; planner_test and plan_io_test"},
      {"ptc/plan/internal/round_load.cpp", "sums behind estimate.h; estimate_test"},
      {"ptc/proto/bind.cpp", "a step of textproto.h; textproto_test"},
      {"ptc/proto/json_tree.cpp", "a step of textproto.h; textproto_test"},
      {"ptc/proto/text_tokens.cpp", "a step of textproto.h; textproto_test"},
      {"ptc/proto/text_tree.cpp", "a step of textproto.h; textproto_test"},
      {"sim/iteration_engine.cpp", "what iteration.h runs; iteration_test times it by hand"},
      {"sim/iteration_phases.cpp", "what iteration.h runs; iteration_test times it by hand"},
      {"ptc/change/fair_shares.cpp", "FairShares of maxmin.h; sim/network_test holds it against an oracle"},
      {"ptc/change/maxmin.cpp", "sim/network_test holds it against an oracle and SimGrid"},
      {"ptc/change/network.cpp", "sim/network_test checks specs and rates"},
      {"ptc/change/bulk_flows.cpp", "ptc/control/job_test counts its flows"},
      {"ptc/sched/fleet.cpp", "sums over a fleet; sim/jobs/engine_test and internal_test use them"},
      {"ptc/model/config_reader.cpp", "reads for catalogue.h's import; hugging_face_test runs it"},
      {"ptc/model/gpt.cpp", "a family of catalogue.h; model_test counts its parameters"},
      {"ptc/model/llama.cpp", "a family of catalogue.h; model_test counts its parameters"},
      {"ptc/model/param_list.cpp", "builds the families of catalogue.h; model_test checks every model"},
      {"ptc/model/resnet.cpp", "a family of catalogue.h; hugging_face_test imports it"},
  };
  return exceptions;
}

std::string report(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += "  " + finding.str() + "\n";
  return text;
}

#define EXPECT_NO_FINDINGS(expression)                                             \
  do {                                                                             \
    const std::vector<Finding> found = (expression);                               \
    EXPECT_TRUE(found.empty()) << found.size() << " findings:\n" << report(found); \
  } while (false)

// --- the tree ---------------------------------------------------------------------------------------------------------

class Tree : public ::testing::Test {
 protected:
  static const std::vector<File>& files() {
    static const std::vector<File> read = read_tree(SCALAI_SOURCE_DIR);
    return read;
  }
};

TEST_F(Tree, IsRead) {
  const auto has = [](const std::string& path) {
    return std::any_of(files().begin(), files().end(), [&](const File& file) { return file.path == path; });
  };
  for (const char* path :
       {"CMakeLists.txt", "dev", "results/tenplex/run", "ptc/base/status.h", "tests/tidy/tidy_test.cpp"}) {
    EXPECT_TRUE(has(path)) << path;
  }
}

TEST_F(Tree, IncludesGoDown) { EXPECT_NO_FINDINGS(include_direction(files(), folder_rules(), library_rules())); }

TEST_F(Tree, FunctionsAreShort) {
  EXPECT_NO_FINDINGS(long_functions(files(), kFunctionLines, long_function_exceptions()));
  const FunctionStatistics statistics = function_statistics(files());
  EXPECT_GT(statistics.functions, 100);
  fmt::print(stderr, "{} functions, {:.1f} lines on average, median {}\n", statistics.functions, statistics.mean_lines,
             statistics.median_lines);
}

TEST_F(Tree, FilesAreShort) { EXPECT_NO_FINDINGS(long_files(files(), kFileLines)); }
TEST_F(Tree, HasNoBannedWords) { EXPECT_NO_FINDINGS(banned_words(files(), words())); }
TEST_F(Tree, FoldersHaveReadmes) { EXPECT_NO_FINDINGS(missing_readmes(files())); }
TEST_F(Tree, SourcesHaveTests) { EXPECT_NO_FINDINGS(untested_sources(files(), untested_exceptions())); }
TEST_F(Tree, PromisesHaveTests) { EXPECT_NO_FINDINGS(unknown_tests(files(), "docs/security.md")); }
TEST_F(Tree, ScenariosAskAndAreListed) { EXPECT_NO_FINDINGS(unindexed_scenarios(files())); }
TEST_F(Tree, ResultsAreListed) { EXPECT_NO_FINDINGS(unindexed_results(files())); }

// --- each rule can fail -----------------------------------------------------------------------------------------------

std::vector<std::string> paths_of(const std::vector<Finding>& findings) {
  std::vector<std::string> paths;
  for (const Finding& finding : findings) paths.push_back(finding.path);
  return paths;
}

std::vector<Finding> direction(const std::string& path, const std::string& text) {
  return include_direction({{path, text}}, folder_rules(), library_rules());
}

TEST(IncludeDirection, AllowsWhatLiesBelow) {
  EXPECT_NO_FINDINGS(
      direction("ptc/plan/a.h", "#include \"ptc/base/b.h\"\n#include \"ptc/tensor/c.h\"\n#include <map>\n"));
  EXPECT_NO_FINDINGS(direction("ptc/plan/internal/a.cpp", "#include \"ptc/proto/plan.pb.h\"\n"));
  EXPECT_NO_FINDINGS(direction("sim/a.cpp", "#include <simgrid/s4u.hpp>\n#include \"ptc/sched/b.h\"\n"));
  EXPECT_NO_FINDINGS(direction("sim/jobs/a.cpp", "#include \"sim/internal/b.h\"\n"));
  EXPECT_NO_FINDINGS(direction("apps/a.cpp", "#include \"sim/b.h\"\n#include \"vfs/c.h\"\n"));
}

TEST(IncludeDirection, RefusesUpAndSideways) {
  const auto up = direction("ptc/tensor/a.h", "\n#include \"ptc/plan/b.h\"\n");
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].str(),
            "ptc/tensor/a.h:2: ptc/tensor may not include ptc/plan (ptc/plan/b.h); it may use ptc/base, and what these "
            "may use");
  EXPECT_EQ(direction("sim/a.cpp", "#include \"executor/worker/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("vfs/a.cpp", "#include \"sim/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/control/a.cpp", "#include \"sim/b.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/data/a.cpp", "#include \"ptc/tensor/b.h\"\n").size(), 1u);
}

TEST(IncludeDirection, TestsMayUseMore) {
  const std::string engine = "#include \"sim/jobs/engine.h\"\n";
  EXPECT_NO_FINDINGS(direction("ptc/sched/policies/a_test.cpp", engine));
  EXPECT_NO_FINDINGS(direction("ptc/sched/policies/testing/a.h", engine));
  EXPECT_EQ(direction("ptc/sched/policies/a.cpp", engine).size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a_test.cpp", engine).size(), 1u);
}

TEST(IncludeDirection, KeepsInternalHeadersIn) {
  const std::string internal = "#include \"ptc/plan/internal/drafts.h\"\n";
  EXPECT_NO_FINDINGS(direction("ptc/plan/a.cpp", internal));
  const auto findings = direction("ptc/change/a.cpp", internal);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].str(), "ptc/change/a.cpp:1: ptc/plan/internal/drafts.h is internal to ptc/plan");
}

TEST(IncludeDirection, KeepsLibrariesBehindTheirAdapter) {
  EXPECT_EQ(direction("sim/a.h", "#include <simgrid/s4u.hpp>\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.cpp", "#include <simgrid/s4u.hpp>\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.h", "#include \"ptc/proto/plan.pb.h\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/plan/a.h", "#include \"nlohmann/json.hpp\"\n").size(), 1u);
  EXPECT_EQ(direction("ptc/proto/a.h", "#include <google/protobuf/message.h>\n").size(), 1u);
  EXPECT_EQ(direction("apps/a.cpp", "#include <boost/program_options.hpp>\n").size(), 1u);
}

TEST(IncludeDirection, WantsARowForEachFolder) {
  const auto findings = direction("ptc/newcomer/a.h", "");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].str(), HasSubstr("no row"));
}

std::string function_of_lines(int lines) {
  std::string text = "int f() {\n";
  for (int i = 2; i < lines; ++i) text += "  g();  // }\n";
  return text + "}\n";
}

TEST(LongFunctions, CountsAndKnowsExceptions) {
  const File at_limit{"ptc/a.cpp", function_of_lines(kFunctionLines)};
  const File above{"ptc/b.cpp", "\n" + function_of_lines(kFunctionLines + 1)};
  const auto findings = long_functions({at_limit, above}, kFunctionLines, {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].str(), "ptc/b.cpp:2: f has 81 lines, 80 are allowed");
  EXPECT_NO_FINDINGS(long_functions({above}, kFunctionLines, {{"ptc/b.cpp:f", "a table"}}));
}

TEST(FunctionStatisticsOf, MeanAndMedian) {
  const FunctionStatistics statistics =
      function_statistics({{"a.cpp", function_of_lines(3) + function_of_lines(5)}, {"b.h", function_of_lines(10)}});
  EXPECT_EQ(statistics.functions, 3);
  EXPECT_DOUBLE_EQ(statistics.mean_lines, 6);
  EXPECT_EQ(statistics.median_lines, 5);
}

TEST(LongFiles, CountsLines) {
  const File at_limit{"a.h", std::string(kFileLines, '\n')};
  const File above{"b.h", std::string(kFileLines + 1, '\n')};
  const File document{"c.md", std::string(kFileLines + 1, '\n')};
  EXPECT_THAT(paths_of(long_files({at_limit, above, document}, kFileLines)), ElementsAre("b.h"));
}

TEST(BannedWords, FindsEachWordWhereItCounts) {
  for (const BannedWord& banned : words()) {
    SCOPED_TRACE(banned.word);
    EXPECT_EQ(banned_words({{"ptc/plan/a.cpp", "\n" + banned.word + ";\n"}}, {banned}).size(), 1u);
    const auto in_comment = banned_words({{"ptc/plan/a.cpp", "// " + banned.word + "\n"}}, {banned});
    EXPECT_EQ(in_comment.size(), banned.where == Where::kText ? 1u : 0u);
    for (const std::string& allowed : banned.allowed_in) {
      EXPECT_NO_FINDINGS(banned_words({{allowed + "a.cpp", banned.word}}, {banned}));
    }
  }
}

TEST(BannedWords, LooksForWholeWords) {
  EXPECT_NO_FINDINGS(banned_words(
      {{"ptc/plan/a.cpp", "mktemp a" + std::string(6, 'X') + " std::fprintf(stderr, 0); fputs(x, stderr);"}}, words()));
}

TEST(MissingReadmes, NamesTheFolder) {
  EXPECT_THAT(
      paths_of(missing_readmes({{"a/x.h", ""}, {"a/README.md", ""}, {"a/internal/y.cpp", ""}, {"b/z.proto", ""}})),
      ElementsAre("b"));
  EXPECT_THAT(paths_of(missing_readmes({{"a/README.md", "| `b/` | … |"}, {"a/b/x.h", ""}, {"a/c/x.h", ""}})),
              ElementsAre("a/c"));
}

TEST(UntestedSources, AcceptsTestsBesideAndIncludedHeaders) {
  EXPECT_NO_FINDINGS(untested_sources({{"a/x.cpp", ""},
                                       {"a/x_test.cpp", "#include \"a/z.h\"\n#include \"a/internal/w.h\"\n"},
                                       {"a/x_part.cpp", ""},
                                       {"a/z.cpp", ""},
                                       {"a/w.cpp", ""},
                                       {"a/internal/x.cpp", ""},
                                       {"a/m_main.cpp", ""},
                                       {"a/c_command.cpp", ""},
                                       {"a/b_bench.cpp", ""},
                                       {"a/f_fuzz.cpp", ""}},
                                      {}));
}

TEST(UntestedSources, NamesTheRestAndStaleExceptions) {
  const std::vector<File> files = {{"a/x.cpp", ""}, {"a/y.cpp", ""}, {"b/x_test.cpp", "#include \"a/y.h\"\n"}};
  EXPECT_THAT(paths_of(untested_sources(files, {})), ElementsAre("a/x.cpp", "a/y.cpp"));
  EXPECT_THAT(paths_of(untested_sources(files, {{"a/x.cpp", "why"}, {"a/gone.cpp", "why"}})),
              ElementsAre("a/gone.cpp", "a/y.cpp"));
}

TEST(UnindexedScenarios, WantsAQuestionAndARow) {
  const File index{"scenarios/README.md", "elastic is fine\n| `elastic-xl` | … |\n| [storm](storm.textproto) | … |\n"};
  const File good{"scenarios/elastic-xl.textproto", "# What if\n# it shrinks?\nname: 1\n"};
  const File no_row{"scenarios/elastic.textproto", "# What if?\n"};
  const File no_question{"scenarios/storm.textproto", "# A storm.\nname: \"?\"\n# Why?\n"};
  const File elsewhere{"tests/golden/bad.textproto", ""};
  EXPECT_THAT(paths_of(unindexed_scenarios({index, good, no_row, no_question, elsewhere})),
              ElementsAre(no_row.path, no_question.path));
  EXPECT_THAT(paths_of(unindexed_scenarios({good})), ElementsAre(good.path));
}

TEST(UnindexedResults, WantsARowThatCallsTheRun) {
  const File index{"results/README.md",
                   "| [a](a/README.md) | Why? So. | `results/a/run x` | 1 s | – |\n"
                   "| [b](b/README.md) | Why? So. | `./dev soak` | 1 s | – |\n"
                   "[c](c/README.md)\n"};
  const File a{"results/a/run", ""}, b{"results/b/README.md", ""}, run{"results/b/run", ""},
      c{"results/c/README.md", ""};
  EXPECT_THAT(paths_of(unindexed_results({index, a, b})), ElementsAre());
  EXPECT_THAT(paths_of(unindexed_results({index, a, b, run, c})), ElementsAre("results/b", "results/c"));
  EXPECT_THAT(paths_of(unindexed_results({a})), ElementsAre("results/a"));
}

TEST(UnknownTests, AreNamedWithTheirLine) {
  const std::vector<File> files = {{"a_test.cpp", "TEST_F(Suite, Holds) {}"}, {"d.md", "\n`Suite.Holds` `Suite.Gone`"}};
  const std::vector<Finding> findings = unknown_tests(files, "d.md");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].str(), "d.md:2: no test Suite.Gone");
}

}  // namespace
}  // namespace scalai::tidy
