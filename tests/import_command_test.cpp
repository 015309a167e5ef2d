// `scalai import` as its users run it.

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace import_command_test {

using nlohmann::json;
using namespace scalai::testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class ImportCommand : public EndToEnd {
 protected:
  Outcome import(const std::string& words) const { return scalai("import " + words); }
  std::string write(const std::string& name, const std::string& text) const {
    write_all(path(name), text);
    return path(name);
  }
  json parsed(const std::string& words) const {
    const Outcome outcome = import(words + " --format=json");
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
};

constexpr const char* kJobs = "submit_s,duration_s,num_gpus,vc\n10,5,1,a\n20,0,2,a\n30,5,4,b\n";

TEST_F(ImportCommand, SaysWhatIsThereAndWritesIt) {
  const std::string in = write("jobs.csv", kJobs), out = path("out.csv");
  const Outcome outcome = import("philly " + in + " --out=" + out);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"2 jobs", "rows read", "1: ran for no time", "span", "20.0 s", "checksum", "50.00 %"}) {
    EXPECT_TRUE(has(outcome.out, part)) << part << "\n" << outcome.out;
  }
  const json first = parsed("philly " + in), again = parsed("scalai " + out);
  EXPECT_EQ(first["checksum"], again["checksum"]);
  EXPECT_EQ(first["rows"], 3);
  EXPECT_EQ(first["dropped"]["ran for no time"], 1);
  EXPECT_EQ(first["sizes"]["4"], 1);
  EXPECT_EQ(parsed("philly " + in + " --set=vc=b,origin=file")["jobs"], 1);
  EXPECT_EQ(parsed("philly " + in + " --set=vc=b --set=origin=file")["jobs"], 1);
}

TEST_F(ImportCommand, ABadRowIsNamedAndNothingIsWritten) {
  const std::string in = write("jobs.csv", std::string(kJobs) + "x,5,4,b\n"), out = path("out.csv");
  const Outcome outcome = import("philly " + in + " --out=" + out);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "jobs.csv:5: submit_s: \"x\" is not a number")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(import("philly " + in + " --out=" + in).code, 2);
  EXPECT_EQ(import("philly " + path("none.csv")).code, 4);
  EXPECT_EQ(import("phily " + in).code, 3);
  EXPECT_EQ(import("philly").code, 2);
  EXPECT_EQ(import("philly -").code, 2);
}

TEST_F(ImportCommand, ListsFormatsAndTheirOptions) {
  const Outcome all = import("--list");
  for (const char* part : {"philly-json", "aws-spot-availability", "gavel-continuous", "generator"}) {
    EXPECT_TRUE(has(all.out, part)) << part << "\n" << all.out;
  }
  EXPECT_TRUE(has(import("--list helios").out, "COMPLETED"));
  EXPECT_EQ(import("--list none").code, 3);
  EXPECT_GE(parsed("--list").size(), 20U);
  EXPECT_EQ(parsed("--list causes")["kind"], "generator");
}

TEST_F(ImportCommand, MakesTracesUp) {
  const std::string out = path("failures.csv");
  const std::string words = "--generate=poisson --hosts=64 --set=mtbf=3h,span=10d --seed=7";
  const json made = parsed(words + " --out=" + out);
  EXPECT_EQ(made["hosts"], 64);
  EXPECT_EQ(made["notes"][0], "seed 7");
  EXPECT_EQ(parsed("scalai " + out)["checksum"], made["checksum"]);
  EXPECT_NE(parsed("--generate=poisson --hosts=64 --set=mtbf=3h,span=10d --seed=8")["checksum"], made["checksum"]);
  EXPECT_EQ(import("--generate=poisson --set=mtbf=3h").code, 3);
  EXPECT_EQ(import("--generate=poisson file.csv").code, 2);
}

}  // namespace import_command_test
