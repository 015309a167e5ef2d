#pragma once
// What data-parallel ranks of a job read in some of its steps. Each rank finds its samples by its own share of the dataset
// (ptc/data/share.h) and, where there is an index, reads their bytes from the data files, which are checked for what the
// format has: sizes, times, TFRecord's checksums. What comes out are accounts; the controller reckons them another way.
//
// Immutable; safe from several threads.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/data/account.h"
#include "ptc/data/order.h"
#include "ptc/data/reader.h"
#include "ptc/data/share.h"
#include "ptc/data/state.h"

namespace scalai::executor {

class SampleReading {
 public:
  // `state`: text of a data::State. `index`: file that it is of; "" = samples have no content. Errors: InvalidArgument (no
  // state, another index than the state's), those of data::Index::open.
  static absl::StatusOr<std::unique_ptr<const SampleReading>> open(const std::string& state, const std::string& index);

  struct Account {
    data::SampleAccount read;
    int64_t bytes = 0;
  };
  // What each of `ranks` of `dp` reads in the steps [from_step, until_step), with so many threads. Errors: InvalidArgument
  // (no such rank or steps), those of data::Reader.
  absl::StatusOr<std::vector<Account>> read(int64_t from_step, int64_t until_step, int dp,
                                            const std::vector<int>& ranks, int threads) const;

 private:
  // Samples [begin, end) of a rank's share of a pass.
  struct Part {
    size_t rank = 0;  // in `ranks`
    data::RankShare share;
    int64_t begin = 0, end = 0;
  };
  explicit SampleReading(const data::State& state) : steps_(state), order_(state.samples, state.shuffle, state.seed) {}
  std::vector<Part> parts_of(int64_t from_step, int64_t until_step, int dp, const std::vector<int>& ranks) const;
  absl::StatusOr<Account> read_part(const Part& part) const;

  const data::Steps steps_;
  const data::Order order_;
  std::unique_ptr<const data::Reader> reader_;  // null: samples have no content
};

// The dataset of a job, opened when it is first asked for. One thread.
class OpenSamples {
 public:
  // Stays until another one is asked for. Errors: those of SampleReading::open.
  absl::StatusOr<const SampleReading*> of(const std::string& state, const std::string& index);

 private:
  std::string state_, index_;
  std::unique_ptr<const SampleReading> reading_;
};

}  // namespace scalai::executor
