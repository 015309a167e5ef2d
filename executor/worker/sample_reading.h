#pragma once
// SampleReading: reads the samples of a job's data-parallel ranks in given steps. Each rank finds its samples by its
// share of the dataset (ptc/store/datasets/share.h). With an index it also reads their bytes from the data files, and
// checks the files as far as the format allows: sizes, times, checksums of TFRecord. The result is an account for each
// rank. The controller computes the same accounts in another way and compares.
//
// Thread rules: immutable; any thread, several at once.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/datasets/account.h"
#include "ptc/store/datasets/order.h"
#include "ptc/store/datasets/reader.h"
#include "ptc/store/datasets/share.h"
#include "ptc/store/datasets/state.h"

namespace scalai::executor::worker {

class SampleReading {
 public:
  // `state` is the text of a datasets::State at step 0. `index` is the path of its index file; with "" samples have no
  // content. Errors: InvalidArgument (`state` is no such text, or of another index; the index names data files on a
  // server), those of datasets::Index::open.
  static absl::StatusOr<std::unique_ptr<const SampleReading>> open(const std::string& state, const std::string& index);

  struct Account {
    datasets::SampleAccount read;
    int64_t bytes = 0;
    int64_t assumed = 0;  // samples among `read` whose ids nobody told
  };
  // Reads the samples of the steps [from_step, until_step) for some of the `dp` ranks, on `threads` threads. The result
  // has one account for each entry of `ranks`, in that order. Errors: InvalidArgument (no such rank or steps), those of
  // datasets::Reader.
  absl::StatusOr<std::vector<Account>> read(int64_t from_step, int64_t until_step, int dp,
                                            const std::vector<int>& ranks, int threads) const;

 private:
  // Samples [begin, end) of a rank's share of a pass.
  struct Part {
    size_t rank = 0;  // in `ranks`
    datasets::RankShare share;
    int64_t begin = 0, end = 0;
  };
  explicit SampleReading(const datasets::State& state)
      : steps_(state), order_(state.samples, state.shuffle, state.seed) {}
  std::vector<Part> parts_of(int64_t from_step, int64_t until_step, int dp, const std::vector<int>& ranks) const;
  absl::StatusOr<Account> read_part(const Part& part) const;

  const datasets::Steps steps_;
  const datasets::Order order_;
  std::unique_ptr<const datasets::Reader> reader_;  // null: samples have no content
};

// The dataset of a job, opened at its first use.
//
// Thread rules: one thread.
class OpenSamples {
 public:
  // Opens the dataset, unless the last call had the same arguments. The result is valid until a call with other
  // arguments. Errors: those of SampleReading::open.
  absl::StatusOr<const SampleReading*> of(const std::string& state, const std::string& index);

 private:
  std::string state_, index_;
  std::unique_ptr<const SampleReading> reading_;
};

}  // namespace scalai::executor::worker
