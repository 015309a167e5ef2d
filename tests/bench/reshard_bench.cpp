// `scalai checkpoint reshard` against a copy: writes a synthetic Hugging Face checkpoint, then in each round copies it
// (`cp -r`, `sync -f`) and reshards it into each layout, all flushed to disk. The source is in the page cache. Prints
// medians, the ratio to the copy, and the most memory that a run had.

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/safetensors/safetensors.h"

extern char** environ;

namespace {

namespace fs = std::filesystem;
using namespace scalai;

struct Timed {
  double seconds = 0;
  int64_t peak_bytes = 0;
};

Timed run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  SCALAI_CHECK(::posix_spawnp(&child, argv[0], &quiet, nullptr, argv.data(), environ) == 0, words[0]);
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  rusage usage{};
  SCALAI_CHECK(::wait4(child, &status, 0, &usage) == child);
  SCALAI_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, words[0]);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {seconds.count(), int64_t{usage.ru_maxrss} * 1024};
}

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).starts_with(start)) return argv[i] + start.size();
  }
  return otherwise;
}

// A Llama of 4096 columns with as many layers as make about that many bytes.
int64_t write_source(const std::string& folder, int64_t bytes_wanted) {
  const int64_t layers = std::max<int64_t>(1, (bytes_wanted - 2 * 2 * 32000 * 4096 + 404'766'719) / 404'766'720);
  const std::string config = fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 32, "num_hidden_layers": {}, "intermediate_size": 11008, "vocab_size": 32000,
 "max_position_embeddings": 4096, "tie_word_embeddings": false}})",
      layers);
  fs::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  const store::Family family = *store::Families::built_in().of_config(config);
  const store::Sizes sizes = *family.sizes_of_config(config);
  std::vector<store::LogicalState> states;
  const model::Model model = *family.build_model(sizes, "bench");
  for (const model::Param& param : model.params) {
    states.push_back({param.name, tensor::DType::kBF16, param.shape, model::StateKind::kParam});
  }
  const auto files = *arrange_whole(*store::Naming::of(family, "hf", sizes), states, {.shard_bytes = 4 * bytes_wanted});
  SCALAI_CHECK(files.size() == 1, "more than one file");
  std::vector<store::TensorSpec> specs;
  for (const auto& tensor : files[0].tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  const auto header = *store::encode_safetensors_header(specs, files[0].metadata);
  // By small pieces: a child's peak memory counts from its parent's.
  std::FILE* file = std::fopen((folder + "/model.safetensors").c_str(), "wb");
  SCALAI_CHECK(file != nullptr, folder);
  SCALAI_CHECK(std::fwrite(header.bytes.data(), 1, header.bytes.size(), file) == header.bytes.size());
  Random random(1);
  std::vector<uint64_t> chunk(1 << 15);
  for (auto left = static_cast<size_t>(header.header.file_bytes) - header.bytes.size(); left > 0;) {
    for (uint64_t& word : chunk) word = random.next();
    const size_t length = std::min(left, chunk.size() * sizeof(uint64_t));
    SCALAI_CHECK(std::fwrite(chunk.data(), 1, length, file) == length, "disk full?");
    left -= length;
  }
  SCALAI_CHECK(std::fclose(file) == 0);
  return header.header.file_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = std::stoi(option(argc, argv, "rounds", "5"));
  const int64_t bytes = std::stoll(option(argc, argv, "gigabytes", "4")) * 1'000'000'000;
  const std::string program = option(argc, argv, "bin", fs::path(argv[0]).parent_path().string()) + "/scalai";
  std::string folder = option(argc, argv, "folder", "/tmp") + "/scalai-reshard-bench-XXXXXX";
  SCALAI_CHECK(::mkdtemp(folder.data()) != nullptr, folder);
  const std::string src = folder + "/src", dst = folder + "/dst";
  const int64_t written = write_source(src, bytes);
  run({"sync", "-f", folder});
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, int64_t> peak;
  for (int round = 0; round < rounds; ++round) {
    run({"cat", src + "/model.safetensors"});  // into the page cache
    const double copied = run({"cp", "-r", src, dst}).seconds + run({"sync", "-f", dst}).seconds;
    seconds["cp -r, sync -f"].push_back(copied);
    fs::remove_all(dst);
    run({"sync", "-f", folder});
    for (const char* to : {"tp4,pp2", "hf", "pp4", "tp2", "torch_dist"}) {
      const Timed timed = run({program, "checkpoint", "reshard", src, dst, std::string("--to=") + to});
      seconds[std::string("reshard ") + to].push_back(timed.seconds);
      peak[std::string("reshard ") + to] = std::max(peak[std::string("reshard ") + to], timed.peak_bytes);
      fs::remove_all(dst);
      run({"sync", "-f", folder});
    }
  }
  fs::remove_all(folder);
  const double copy = *order_statistic(seconds["cp -r, sync -f"], 0.5);
  fmt::print("{} bytes, {} rounds\n{:<18} {:>9} {:>9} {:>8} {:>10}\n", written, rounds, "", "median s", "GB/s", "ratio",
             "peak MiB");
  for (const auto& [what, all] : seconds) {
    const double middle = *order_statistic(all, 0.5);
    fmt::print("{:<18} {:>9.2f} {:>9.2f} {:>8.2f} {:>10}\n", what, middle, static_cast<double>(written) / middle / 1e9,
               middle / copy, peak.count(what) > 0 ? fmt::format("{}", peak.at(what) >> 20) : "");
  }
  return 0;
}
