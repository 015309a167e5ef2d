#include "ptc/run/scenario/trace/import.h"

#include <cmath>
#include <set>

#include "ptc/base/random.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using testing::has;

using Import = testing::TraceFiles;

TEST_F(Import, FormatsHaveNamesOfTheirOwnAndOptionsThatHold) {
  std::set<std::string> names;
  for (const TraceFormat& format : trace_formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_FALSE(format.summary.empty()) << format.name;
    std::set<std::string> options;
    for (const TraceOption& option : format.options) {
      EXPECT_TRUE(options.insert(option.name).second) << format.name << " " << option.name;
      EXPECT_FALSE(option.help.empty()) << format.name << " " << option.name;
    }
    // Their own defaults are valid: what is wrong with an empty file is that it is empty.
    const std::string message = bad(format.name, "");
    EXPECT_FALSE(message.empty());
    EXPECT_FALSE(has(message, format.name + ": ")) << message;
  }
  for (const char* wanted :
       {"gavel", "pollux", "elasticflow", "philly", "philly-json", "helios", "acme", "openb", "bamboo", "oobleck",
        "parcae", "skypilot", "aws-spot", "azure", "aws-spot-availability", "tenplex", "scalai"}) {
    EXPECT_EQ(names.count(wanted), 1U) << wanted;
  }
}

TEST_F(Import, UnknownFormatsAndOptionsAreRefusedAtOnce) {
  EXPECT_TRUE(has(message_of(import_trace("phily", "none").status()), "did you mean philly?"));
  const std::string message = message_of(
      import_trace("philly", "none", {"vcs=a", "limit=x", "from=5", "origin=last", "until", "limit=3", "gpus-min=0"})
          .status());
  for (const char* part :
       {"philly: vcs: is no option of this format\n  hint: did you mean vc?",
        "philly: limit: ", "philly: from: ", "philly: origin: \"last\" is none of first, file",
        "\"until\" is no option", "philly: limit: is given twice", "philly: gpus-min: 0 is not within 1 to"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_EQ(exit_code_of(import_trace("philly", "none").status()), 4);
}

constexpr const char* kJobs = "submit_s,duration_s,num_gpus,vc\n10,5,1,a\n20,5,2,a\n30,5,4,b\n40,5,8,b\n50,5,16,b\n";

TEST_F(Import, AWindowOfJobs) {
  const Imported got = good("philly", kJobs, {"from=10s", "until=40s", "gpus-max=4"});
  ASSERT_EQ(got.workload.jobs.size(), 2U);
  EXPECT_EQ(got.workload.jobs[0].name, "job-1");
  EXPECT_EQ(got.workload.jobs[0].submit_s, 0);
  EXPECT_EQ(got.summary.dropped,
            (std::map<std::string, int64_t>{
                {"submitted before `from`", 1}, {"submitted at `until` or later", 1}, {"more GPUs than gpus-max", 1}}));
  EXPECT_EQ(good("philly", kJobs, {"limit=2"}).workload.jobs.back().name, "job-1");
  EXPECT_EQ(good("philly", kJobs, {"gpus-min=8"}).workload.jobs.front().gpus, 8);
  EXPECT_EQ(good("philly", kJobs, {"origin=file"}).workload.jobs.front().submit_s, 10);
  EXPECT_TRUE(has(bad("philly", kJobs, {"from=9s", "until=9s"}), "until: is not after `from`"));
}

TEST_F(Import, FilesAreReadOneAfterTheOther) {
  const std::string a = file(kJobs, "a.csv"), b = file("submit_s,duration_s,num_gpus,vc\n15,5,1,c\n", "b.csv");
  int64_t bytes = 0;
  const auto got = import_traces("philly", {a, b}, {}, [&](int64_t read) { bytes += read; });
  EXPECT_EQ(bytes, static_cast<int64_t>(std::filesystem::file_size(a) + std::filesystem::file_size(b)));
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->summary.rows, 6);
  EXPECT_EQ(got->workload.name, "a");
  EXPECT_EQ(got->workload.jobs[1].name, "2/job-5");
  EXPECT_EQ(got->workload.jobs[1].entity, "c");
}

TEST_F(Import, TheChecksumIsOfTheContent) {
  const std::string one = good("philly", kJobs).summary.checksum;
  std::string text = kJobs;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2)) text.replace(at, 1, "\r\n");
  EXPECT_EQ(good("philly", text).summary.checksum, one);
  text = kJobs;
  text.replace(text.find("16"), 2, "17");
  EXPECT_NE(good("philly", text).summary.checksum, one);
}

// A valid input of every format, for the test below.
struct Sample {
  const char *format, *text;
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all{
      {"gavel", "LM (batch size 20)\tpy\tlm\t--steps\t1\t6000\t2\t5\t-1.0\t120.5\nA3C\tpy\t-step\t1\t300\t60\t1\n"},
      {"pollux", "name,time,application,num_replicas,batch_size\nbert-0,53,bert,6,2048\nbert-1,90,bert,1,128\n"},
      {"elasticflow",
       "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n0,371,2011,bert,5719,64,1,564\n"},
      {"philly", kJobs},
      {"helios",
       "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
       "1,u,vcA,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"},
      {"acme", "submit_s,duration_s,num_nodes,gpus_per_node,num_gpus,kind\n0,104,8,8,64,sft\n9,10,1,8,8,sft\n"},
      {"openb",
       "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
       "p0,12000,16384,1,1000,,LS,Running,5,12537496,7\n"},
      {"philly-json",
       R"([{"status": "Pass", "vc": "a", "jobid": "j", "attempts": [{"start_time": "2017-10-07 01:12:09", "end_time":)"
       R"( "2017-10-07 01:13:23", "detail": [{"ip": "m", "gpus": ["gpu0"]}]}], "submitted_time": "2017-10-07 01:11:39"}])"},
      {"bamboo", "0,add,a\n0,add,b\n1000,remove,a\n5000,add,c\n"},
      {"bamboo", "2021-12-11, 11:11:30, 5\n2021-12-11, 11:13:10, 4\n"},
      {"parcae",
       "[0, \"add\", {\"nodes\": [\"a\", \"b\"], \"duration\": 60000}]\n"
       "[60000, \"remove\", {\"nodes\": [\"a\"], \"duration\": 60000}]\n"},
      {"skypilot", R"({"metadata": {"gap_seconds": 600}, "data": [1, 0, 0, 2]})"},
      {"tenplex", R"([{"time": 35, "size": 4}, {"time": 35, "size": 2}, {"time": 0, "size": 0}])"},
      {"aws-spot-availability",
       "timestamp_utc,event,instance,num_gpus,gpu_type,zone\n2020-03-01T10:00:00Z,created,i0,1,v100,z\n"
       "2020-03-01T10:00:30Z,preempted,i0,1,v100,z\n"},
      {"aws-spot", "timestamp_utc,availability_zone,instance_type,usd_per_hour\n2020-01-01T00:01:00Z,us-a,p3,0.9\n"},
      {"aws-spot",
       R"({"SpotPriceHistory": [{"AvailabilityZone": "a", "InstanceType": "p3", "ProductDescription": "Linux/UNIX",)"
       R"( "SpotPrice": "0.5", "Timestamp": "2020-01-01T00:00:00Z"}]})"},
      {"azure", "Date,NC6\n2/24/2020,$0.12276\n2/25/2020,$0.13\n"},
      {"scalai",
       "scalai-trace,1,hosts,,10\nrecord,at_s,what,hosts,until_s,type,price,text\nhost,0,up,0,0,,0,a\n"
       "event,1,notice,0,5,,0,\nevent,5,taken,0,0,,0,preemption\n"},
      {"scalai",
       "scalai-trace,1,jobs,x,\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s,weight,deadline_s,entity,"
       "batch\n"
       "a,t,0,2,1,4,1,,1,99,e,0\n"},
  };
  return all;
}

std::string mutated(std::string text, Random& random) {
  static constexpr char kLiteral[] =
      "0123456789-+.eE,\"'\t\r\n[]{}:/ \0\xff"
      "nNaAiI";
  static const std::string kBytes(kLiteral, sizeof kLiteral - 1);
  for (int64_t edits = random.between(1, 4); edits > 0 && !text.empty(); --edits) {
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(text.size())));
    const auto length = static_cast<size_t>(random.between(1, 12));
    switch (random.below(4)) {
      case 0: text[at] = kBytes[static_cast<size_t>(random.below(static_cast<int64_t>(kBytes.size())))]; break;
      case 1: text.insert(at, 1, kBytes[static_cast<size_t>(random.below(static_cast<int64_t>(kBytes.size())))]); break;
      case 2: text.erase(at, length); break;
      default:
        text.insert(at, text.substr(static_cast<size_t>(random.below(static_cast<int64_t>(text.size()))), length));
    }
  }
  return text;
}

// Whatever is accepted keeps the promises of job.h, fleet.h and import.h.
void expect_sound(const Imported& got) {
  double last_s = 0;
  std::set<std::string> names;
  for (const policy::Job& job : got.workload.jobs) {
    EXPECT_GE(job.submit_s, last_s);
    last_s = job.submit_s;
    EXPECT_TRUE(names.insert(job.name).second);
    EXPECT_TRUE(1 <= job.min_gpus && job.min_gpus <= job.gpus && job.gpus <= job.max_gpus);
    EXPECT_TRUE(job.work > 0 && std::isfinite(job.work) && job.weight > 0 && job.batch >= 0);
    EXPECT_FALSE(std::isnan(job.deadline_s) || std::isnan(job.duration_s));
  }
  last_s = 0;
  const policy::Availability& there = got.hosts.availability;
  EXPECT_EQ(there.up.size(), got.hosts.hosts.size());
  for (const policy::FleetEvent& event : there.events) {
    EXPECT_GE(event.at_s, last_s);
    last_s = event.at_s;
    for (const HostId host : event.hosts) {
      EXPECT_TRUE(host.valid() && static_cast<size_t>(host.value) < there.up.size());
    }
  }
  last_s = 0;
  for (const auto& point : got.prices.points) {
    EXPECT_GE(point.at_s, last_s);
    last_s = point.at_s;
    EXPECT_TRUE(point.usd_per_hour > 0 && std::isfinite(point.usd_per_hour));
  }
}

TEST_F(Import, ValidSamplesAreAccepted) {
  for (const Sample& sample : samples()) expect_sound(good(sample.format, sample.text));
}

TEST_F(Import, MutatedTracesAreRefusedOrSound) {
  constexpr uint64_t kSeed = 20260;
  int accepted = 0, refused = 0;
  for (size_t i = 0; i < samples().size(); ++i) {
    const Sample& sample = samples()[i];
    Random random(kSeed + i);
    for (int round = 0; round < 400; ++round) {
      const std::string text = mutated(sample.text, random);
      SCOPED_TRACE(std::string(sample.format) + ", seed " + std::to_string(kSeed + i) + ", round " +
                   std::to_string(round) + ":\n" + text);
      const absl::StatusOr<Imported> got = read(sample.format, text);
      if (!got.ok()) {
        ++refused;
        EXPECT_TRUE(absl::IsInvalidArgument(got.status()));
        EXPECT_TRUE(has(message_of(got.status()), "trace")) << message_of(got.status());
        continue;
      }
      ++accepted;
      expect_sound(*got);
      const std::string again = export_trace(*got);
      EXPECT_EQ(good("scalai", again).summary.checksum, got->summary.checksum);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(accepted, 200);  // both happen, or the test tests nothing
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace scalai::trace
