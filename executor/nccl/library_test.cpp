#include "executor/nccl/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/nccl/testing/support.h"
#include "ptc/base/status.h"

namespace scalai::executor::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(NcclLibrary, OpensTheFake) {
  const auto library = NcclLibrary::open(SCALAI_FAKE_NCCL);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->version(), "2.27.7");
  EXPECT_EQ(library->version_code(), 22707);
  EXPECT_EQ(library->path(), SCALAI_FAKE_NCCL);
  EXPECT_TRUE(library->can_shrink());
}

TEST(NcclLibrary, TheTableServesWhenTheLibraryIsGone) {
  NcclApi api;
  {
    auto library = NcclLibrary::open(SCALAI_FAKE_NCCL);
    ASSERT_TRUE(library.ok());
    const NcclLibrary moved = std::move(*library);
    api = moved.api();
  }
  EXPECT_TRUE(make_unique_id(api).ok());
}

TEST(NcclLibrary, SaysThatThereIsNoneAndWhatToDo) {
  const auto library = NcclLibrary::open("/nowhere/libnccl.so.2");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(exit_code_of(library.status()), 4);
  EXPECT_THAT(message_of(library.status()),
              AllOf(HasSubstr("/nowhere/libnccl.so.2"), HasSubstr("install NCCL"), HasSubstr("LD_LIBRARY_PATH")));
}

TEST(NcclLibrary, RefusesALibraryThatIsNone) {
  const auto library = NcclLibrary::open("libm.so.6");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(library.status()),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("ncclGetVersion, ncclGetUniqueId")));
}

TEST(NcclLibrary, NamesTheFunctionThatIsAbsent) {
  const auto library = NcclLibrary::open(SCALAI_HOLLOW_NCCL);
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(library.status()),
              AllOf(HasSubstr(SCALAI_HOLLOW_NCCL), HasSubstr("has no ncclCommFinalize;")));
}

TEST(NcclLibrary, RefusesAnOldOne) {
  const auto library = NcclLibrary::open(SCALAI_OLD_NCCL);
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(library.status()), HasSubstr("is NCCL 2.12.12, too old"));
}

TEST(NcclLibrary, OpensTheRealOne) {
  const auto library = NcclLibrary::open();
  if (!library.ok()) GTEST_SKIP() << message_of(library.status());
  EXPECT_THAT(library->version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_GE(library->version_code(), NcclLibrary::kOldestVersion);
  EXPECT_THAT(library->path(), HasSubstr("libnccl.so"));
  EXPECT_EQ(library->can_shrink(), library->version_code() >= 22700);
  EXPECT_STRNE(library->api().get_error_string(NcclResult::kRemoteError), nullptr);
  RecordProperty("nccl", library->version());
}

TEST(NcclVersionText, OfAllTimes) {
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(20906), "2.9.6");
  EXPECT_EQ(nccl_version_text(21403), "2.14.3");
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
}

TEST(NcclStatus, CodesAndText) {
  const NcclApi& api = fake_nccl().api();
  EXPECT_TRUE(nccl_status(api, NcclResult::kSuccess, "x").ok());
  const auto code = [&](NcclResult result) { return nccl_status(api, result, "x").code(); };
  EXPECT_EQ(code(NcclResult::kRemoteError), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(NcclResult::kSystemError), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(NcclResult::kInvalidUsage), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(NcclResult::kInvalidArgument), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(NcclResult::kUnhandledCudaError), failed("").code());
  EXPECT_EQ(code(NcclResult::kInternalError), failed("").code());
  NcclUniqueId none;
  NcclComm* comm = nullptr;
  NcclConfig config;
  const NcclResult refused = api.comm_init_rank_config(&comm, 1, none, 0, &config);
  EXPECT_EQ(message_of(nccl_status(api, refused, "joining")),
            "joining: invalid argument (not a unique id of this library)");
  NcclApi old = api;
  old.get_last_error = nullptr;
  EXPECT_EQ(message_of(nccl_status(old, refused, "joining")), "joining: invalid argument");
  EXPECT_DEATH((void)nccl_status(api, NcclResult::kInProgress, "x"), "CHECK");
}

}  // namespace
}  // namespace scalai::executor::nccl
