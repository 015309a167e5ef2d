// How long the parallelizer's search takes. The yardstick is pricing every point of the space, of the same run: it is
// what best-first order and bounds save. 16,384 GPUs shall take less than a second on one core.

#include <benchmark/benchmark.h>

#include <chrono>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/search.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace {

struct Question {
  const char* model;
  int gpus;
  int global_batch;
  bool all_gpus = true;
};

SearchSpace space_of(const Question& question) {
  const cluster::HostKind* host = cluster::find_host_kind("dgx-h100");
  SCALAI_CHECK(host != nullptr, "the catalogue lacks dgx-h100");
  SearchSpace space;
  space.gpus = question.gpus;
  space.all_gpus = question.all_gpus;
  space.host = host->host;
  space.base.global_batch = question.global_batch;
  space.base.sequence = 8192;
  return space;
}

double seconds_of(const ModelShape& model, const SearchSpace& space, SearchResult& result) {
  const auto start = std::chrono::steady_clock::now();
  result = search(model, space).value();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BM_Search(benchmark::State& state, const Question& question) {
  const ModelShape model = shape_of(model::find_model(question.model).value());
  SearchSpace space = space_of(question);
  SearchResult result;
  double searching_s = 0;
  for (auto _ : state) searching_s += seconds_of(model, space, result);
  state.counters["points"] = static_cast<double>(result.points);
  state.counters["priced"] = static_cast<double>(result.priced);
  state.counters["too_large"] = static_cast<double>(result.too_large);
  // Whoever wants all of them has all of them priced.
  space.keep = std::numeric_limits<int>::max();
  const double all_s = seconds_of(model, space, result);
  state.counters["every_point_over_search"] = all_s / (searching_s / static_cast<double>(state.iterations()));
}
BENCHMARK_CAPTURE(BM_Search, llama3_70b_64_gpus, Question{"llama3-70b", 64, 1024})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Search, llama3_70b_up_to_512_gpus, Question{"llama3-70b", 512, 1024, false})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Search, mixtral_8x22b_1024_gpus, Question{"mixtral-8x22b", 1024, 2048})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Search, llama3_405b_16384_gpus, Question{"llama3-405b", 16384, 2048})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::step

BENCHMARK_MAIN();
