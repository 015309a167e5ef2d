#include "apps/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

// A node with two GPUs that has everything.
DoctorFacts good_node() {
  DoctorFacts facts;
  facts.machine = {.kernel = "6.1.0",
                   .libc = "2.36",
                   .cpu = "A CPU",
                   .cores = 64,
                   .memory_bytes = 512 * kGiB,
                   .available_bytes = 500 * kGiB,
                   .open_files = 1048576,
                   .shm_bytes = 256 * kGiB,
                   .shm_free_bytes = 256 * kGiB,
                   .huge_pages = "advise",
                   .ptrace_scope = 1,
                   .fusermount = "/usr/bin/fusermount3"};
  const executor::cuda::GpuLink self, nvlink{.reaches = true, .atomics = true, .kind = "NVLink"};
  facts.cuda = executor::cuda::GpuReport{
      .driver = "580.65.06", .driver_cuda = "13.0", .runtime_cuda = "13.0", .links = {{self, nvlink}, {nvlink, self}}};
  for (int i = 0; i < 2; ++i) {
    facts.cuda->gpus.push_back({.index = i,
                                .name = "A GPU",
                                .pci_bus = "0000:1b:00.0",
                                .memory_bytes = 80 * kGiB,
                                .free_bytes = 79 * kGiB,
                                .capability_major = 9,
                                .clock_hz = 1.98e9,
                                .virtual_memory = true});
  }
  facts.gpu_text = "  0  A GPU\n  1  A GPU\n";
  facts.nccl = NcclFacts{.version = "2.28.9", .path = "/usr/lib/libnccl.so.2"};
  facts.ucx = executor::transport::UcxInfo{
      .version = "1.13.1",
      .devices = {{"posix", "memory", false}, {"rc_mlx5", "mlx5_0:1", true}, {"tcp", "eth0", true}}};
  facts.grpc_version = "1.51.1";
  facts.sqlite_version = "3.40.1";
  return facts;
}

// A laptop that has nothing.
DoctorFacts bare_node() {
  DoctorFacts facts;
  facts.machine = {.kernel = "6.1.0",
                   .libc = "2.36",
                   .cores = 1,
                   .open_files = 1024,
                   .locked_bytes = 8 << 20,
                   .huge_pages = "never",
                   .peers_problem = "no /proc",
                   .fuse_problem = "/dev/fuse: No such file or directory"};
  facts.cuda = missing("libcuda.so.1: no driver");
  facts.nccl = missing("libnccl.so.2: not found");
  facts.ucx = absl::UnavailableError("ucp_init: no device");
  facts.grpc_version = "1.51.1";
  facts.sqlite_version = "3.40.1";
  return facts;
}

std::vector<Finding> of_area(const std::vector<Finding>& findings, const std::string& area) {
  std::vector<Finding> found;
  for (const Finding& finding : findings) {
    if (finding.area == area) found.push_back(finding);
  }
  return found;
}

TEST(Diagnose, FindsNothingWrongWithAGoodNode) {
  for (const Finding& finding : diagnose(good_node())) {
    EXPECT_EQ(finding.found, Found::kYes) << finding.area << ": " << finding.detail;
    EXPECT_EQ(finding.consequence, "") << finding.area;
    EXPECT_NE(finding.detail, "") << finding.area;
  }
}

TEST(Diagnose, SaysWhyAndWhatFollowsForAllThatIsMissing) {
  int wrong = 0;
  for (const Finding& finding : diagnose(bare_node())) {
    EXPECT_EQ(finding.found == Found::kYes, finding.consequence.empty()) << finding.area << ": " << finding.detail;
    if (finding.found != Found::kYes) ++wrong;
  }
  EXPECT_EQ(wrong, 8);  // huge pages, peers, open files, /dev/shm, cuda, nccl, ucx, fuse
}

TEST(Diagnose, HasEveryAreaThatCanBeRequired) {
  for (const DoctorFacts& facts : {good_node(), bare_node()}) {
    for (const std::string& area : areas_to_require()) EXPECT_THAT(of_area(diagnose(facts), area), Not(IsEmpty()));
  }
}

TEST(Diagnose, WantsLockedMemoryForRdmaOnly) {
  DoctorFacts facts = good_node();
  facts.machine.locked_bytes = 8 << 20;
  EXPECT_EQ(of_area(diagnose(facts), "limits")[1].found, Found::kPartly);
  facts.ucx = executor::transport::UcxInfo{.version = "1.13.1", .devices = {{"tcp", "eth0", true}}};
  EXPECT_EQ(of_area(diagnose(facts), "limits")[1].found, Found::kYes);
  EXPECT_EQ(of_area(diagnose(facts), "ucx")[1].found, Found::kPartly);
}

TEST(Diagnose, NamesTransportsByReach) {
  const auto ucx = of_area(diagnose(good_node()), "ucx");
  ASSERT_EQ(ucx.size(), 2u);
  EXPECT_EQ(ucx[0].detail, "1.13.1; inside a machine: posix");
  EXPECT_EQ(ucx[1].detail, "between machines: rc_mlx5 (mlx5_0:1), tcp (eth0)");
}

TEST(Diagnose, CountsPairsByWhatJoinsThem) {
  DoctorFacts facts = good_node();
  EXPECT_EQ(of_area(diagnose(facts), "cuda").back().detail, "pairs of GPUs: 1 by NVLink");
  facts.cuda->links[0][1] = facts.cuda->links[1][0] = {};
  const Finding pairs = of_area(diagnose(facts), "cuda").back();
  EXPECT_EQ(pairs.detail, "pairs of GPUs: 1 by host memory");
  EXPECT_EQ(pairs.found, Found::kPartly);
  EXPECT_THAT(pairs.consequence, HasSubstr("through host memory"));
}

TEST(Diagnose, NamesGpusAndThoseThatCannotBeUsed) {
  DoctorFacts facts = good_node();
  facts.cuda->gpus.push_back({.index = 2, .name = "Another"});
  facts.cuda->driver = "";
  const auto cuda = of_area(diagnose(facts), "cuda");
  EXPECT_EQ(cuda[0].detail, "2 × A GPU, 1 × Another; driver of unknown version (CUDA 13.0), runtime CUDA 13.0");
  EXPECT_EQ(cuda[1].detail, "GPU 2 has no virtual memory management");
  EXPECT_EQ(cuda[1].found, Found::kPartly);
  facts.cuda->links.clear();  // one GPU: no pairs
  EXPECT_EQ(of_area(diagnose(facts), "cuda").size(), 2u);
}

TEST(Diagnose, LetsRootMountWithoutFusermount) {
  DoctorFacts facts = good_node();
  facts.machine.fusermount = "";
  EXPECT_EQ(of_area(diagnose(facts), "fuse")[0].found, Found::kNo);
  facts.machine.root = true;
  EXPECT_EQ(of_area(diagnose(facts), "fuse")[0].found, Found::kYes);
}

TEST(CheckRequired, NamesWhatIsMissingAndExitsWith4) {
  const std::vector<Finding> findings = diagnose(bare_node());
  const absl::Status status = check_required(findings, {"nccl", "cuda"});
  EXPECT_EQ(exit_code_of(status), 4);
  EXPECT_EQ(message_of(status), "required and missing: cuda: libcuda.so.1: no driver; nccl: libnccl.so.2: not found");
  EXPECT_TRUE(check_required(findings, {}).ok());
}

TEST(CheckRequired, TakesWhatIsThereInPart) {
  DoctorFacts facts = good_node();
  EXPECT_TRUE(check_required(diagnose(facts), areas_to_require()).ok());
  facts.ucx = executor::transport::UcxInfo{.version = "1.13.1", .devices = {{"tcp", "eth0", true}}};
  EXPECT_TRUE(check_required(diagnose(facts), {"ucx"}).ok());
}

TEST(DoctorTable, ShowsFindingsLinksAndWhatFollows) {
  DoctorFacts facts = good_node();
  facts.nccl = missing("libnccl.so.2: not found; install it");
  EXPECT_EQ(doctor_table(facts, diagnose(facts)),
            R"(area       found  what
---------  -----  -----------------------------------------------------------
machine    yes    Linux 6.1.0, glibc 2.36; A CPU, 64 cores
machine    yes    memory 550 GB, 537 GB available
machine    yes    huge pages of shared memory: advise
machine    yes    processes may map each other's memory (Yama ptrace_scope 1)
limits     yes    open files: 1048576
limits     yes    locked memory: unlimited
limits     yes    /dev/shm: 275 GB, 275 GB free
cuda       yes    2 × A GPU; driver 580.65.06 (CUDA 13.0), runtime CUDA 13.0
cuda       yes    pairs of GPUs: 1 by NVLink
nccl       no     libnccl.so.2: not found
ucx        yes    1.13.1; inside a machine: posix
ucx        yes    between machines: rc_mlx5 (mlx5_0:1), tcp (eth0)
fuse       yes    /dev/fuse opens; /usr/bin/fusermount3
libraries  yes    gRPC 1.51.1, SQLite 3.40.1

  0  A GPU
  1  A GPU

what follows
  nccl: GPU state moves between the devices of one worker only: several workers with --backend=cuda are refused (give the library with --nccl=FILE); install it
)");
}

TEST(DoctorJson, HasTheSameFindings) {
  for (const DoctorFacts& facts : {good_node(), bare_node()}) {
    const std::vector<Finding> findings = diagnose(facts);
    const auto document = nlohmann::json::parse(doctor_json(facts, findings));
    EXPECT_EQ(document.at("schema_version"), 1);
    ASSERT_EQ(document.at("findings").size(), findings.size());
    for (size_t i = 0; i < findings.size(); ++i) {
      EXPECT_EQ(document["findings"][i].at("area"), findings[i].area);
      EXPECT_EQ(document["findings"][i].at("detail"), findings[i].detail);
      EXPECT_EQ(document["findings"][i].at("consequence"), findings[i].consequence);
    }
    EXPECT_EQ(document.at("gpus").size(), facts.cuda.ok() ? 2u : 0u);
    const auto links =
        facts.cuda.ok() ? nlohmann::json::parse(R"([["-", "NVLink"], ["NVLink", "-"]])") : nlohmann::json::array();
    EXPECT_EQ(document.at("gpu_links"), links);
    EXPECT_EQ(document.at("ucx_devices").size(), facts.ucx.ok() ? 3u : 0u);
  }
}

TEST(DoctorJson, SurvivesBytesThatAreNoText) {
  DoctorFacts facts = bare_node();
  facts.cuda = missing("\xff\xfe");
  EXPECT_FALSE(nlohmann::json::parse(doctor_json(facts, diagnose(facts))).empty());
}

// --- the machine -----------------------------------------------------------------------------------------------------

class Machine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "scalai-doctor-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(Machine, IsReadFromFiles) {
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
  put("proc/meminfo", "MemTotal:       1024 kB\nMemFree:  12 kB\nMemAvailable: 512 kB\n");
  put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
  put("proc/sys/kernel/yama/ptrace_scope", "2\n");
  put("dev/fuse", "");
  const MachineFacts facts = look_at_machine(root_.string());
  EXPECT_EQ(facts.cpu, "Some CPU @ 2 GHz");
  EXPECT_EQ(facts.memory_bytes, 1 << 20);
  EXPECT_EQ(facts.available_bytes, 1 << 19);
  EXPECT_EQ(facts.huge_pages, "advise");
  EXPECT_EQ(facts.ptrace_scope, 2);
  EXPECT_EQ(facts.fuse_problem, "");
  EXPECT_EQ(facts.shm_bytes, -1);
}

TEST_F(Machine, WithoutFilesIsUnknownAndNotWrong) {
  const MachineFacts facts = look_at_machine(root_.string());
  EXPECT_EQ(facts.cpu, "");
  EXPECT_EQ(facts.memory_bytes, 0);
  EXPECT_EQ(facts.huge_pages, "");
  EXPECT_EQ(facts.ptrace_scope, std::nullopt);
  EXPECT_THAT(facts.fuse_problem, HasSubstr("No such file"));
}

TEST_F(Machine, HasWhatThisOneMustHave) {
  const MachineFacts facts = look_at_machine();
  EXPECT_GT(facts.cores, 0);
  EXPECT_GT(facts.memory_bytes, 0);
  EXPECT_LE(facts.available_bytes, facts.memory_bytes);
  EXPECT_NE(facts.kernel, "");
  EXPECT_EQ(facts.peers_problem, "");  // tests of the executor map each other's memory too
}

}  // namespace
}  // namespace scalai::apps
