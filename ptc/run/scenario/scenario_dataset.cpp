#include "ptc/run/scenario/internal/scenario_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/store/datasets/index.h"
#include "ptc/store/datasets/samples.h"

namespace scalai::scenario::internal {
namespace {

class DatasetBuilder {
 public:
  DatasetBuilder(const proto::Dataset& message, std::string path, Context& context)
      : message_(message), path_(std::move(path)), context_(context), source_(context.source) {}

  std::optional<DatasetSpec> build(int64_t global_batch, uint64_t seed) {
    const int before = source_.errors();
    datasets::State& state = dataset_.state;
    state.global_batch = std::max<int64_t>(1, global_batch);  // a bad one is reported where it stands
    state.seed = message_.has_seed() ? message_.seed() : seed;
    state.shuffle = !message_.has_shuffle() || message_.shuffle();
    state.drop_last = message_.drop_last();
    build_sequence();
    const bool known = source_.given(at("index_digest"));
    if (source_.given(at("index")) && !known) {
      build_index();
    } else {
      build_samples(known);
    }
    if (source_.errors() != before || source_.broken_inside(path_)) return std::nullopt;
    check_batches();
    if (source_.errors() != before) return std::nullopt;
    return std::move(dataset_);
  }

 private:
  std::string at(const std::string& field) const { return path_ + "." + field; }

  void build_sequence() {
    if (!source_.given(at("sequence")) || !source_.at_least(at("sequence"), message_.sequence(), 0)) return;
    dataset_.state.sequence = message_.sequence();
    if (message_.sequence() == 0 || source_.given(at("index"))) return;
    source_.error(at("sequence"), "windows of tokens are cut from an index; these samples have no content",
                  "name an index file, or leave \"sequence\" out");
  }

  void build_samples(bool known) {
    if (known && !source_.given(at("index"))) {
      source_.error(at("index_digest"), "a digest without an index",
                    "name the index file, or leave \"index_digest\" out");
    }
    if (!source_.given(at("samples"))) {
      source_.missing(at("samples"), "say how many there are, or name an index file (scalai data index makes one)");
    } else if (source_.at_least(at("samples"), message_.samples(), 1)) {
      dataset_.state.samples = message_.samples();
    }
    name_index();
    dataset_.state.index = message_.index_digest();
  }

  void name_index() {
    dataset_.index = message_.index();
    if (!dataset_.index.empty()) dataset_.index_path = beside(context_.file_name, dataset_.index);
  }

  void build_index() {
    name_index();
    if (source_.given(at("samples"))) {
      source_.error(at("samples"), "\"index\" and \"samples\" exclude each other", "the index knows how many there are",
                    {{at("index"), "the index is named here"}});
      return;
    }
    const auto index = datasets::Index::open(dataset_.index_path);
    if (!index.ok()) return source_.error(at("index"), message_of(index.status()));
    const auto samples = datasets::Samples::make(*index, dataset_.state.sequence);
    if (!samples.ok()) {
      const std::string field = dataset_.state.sequence > 0 ? "sequence" : "index";
      return source_.error(at(field), message_of(samples.status()));
    }
    dataset_.state.samples = (*samples)->count();
    dataset_.state.index = (*index)->digest();
  }

  void check_batches() {
    const datasets::State& state = dataset_.state;
    if (state.drop_last && state.samples < state.global_batch) {
      return source_.error(
          at("drop_last"),
          fmt::format("a pass has {} samples, which is less than one batch of {}: nothing would be read", state.samples,
                      state.global_batch));
    }
    const absl::Status valid = datasets::validate(state);
    if (!valid.ok()) source_.error(path_, message_of(valid));
  }

  const proto::Dataset& message_;
  const std::string path_;
  Context& context_;
  Source& source_;
  DatasetSpec dataset_;
};

}  // namespace

std::optional<DatasetSpec> build_dataset(const proto::Dataset& message, const std::string& path, int64_t global_batch,
                                         uint64_t seed, Context& context) {
  return DatasetBuilder(message, path, context).build(global_batch, seed);
}

void write_dataset(const DatasetSpec& dataset, proto::Job& out) {
  const datasets::State& state = dataset.state;
  proto::Dataset& message = *out.mutable_dataset();
  message.set_index(dataset.index);
  message.set_samples(state.samples);
  message.set_sequence(state.sequence);
  message.set_seed(state.seed);
  message.set_shuffle(state.shuffle);
  message.set_drop_last(state.drop_last);
  message.set_index_digest(state.index);
}

}  // namespace scalai::scenario::internal
