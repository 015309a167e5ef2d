// Random kills of `scalai checkpoint reshard`: starts it, kills it at a random moment, looks at what lies there, and
// starts it again until it ends by itself. DST is never there half, what is there in the end is what an undisturbed run
// writes, and nothing else is left. The seed is printed; a failing run's folder stays.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "ptc/store/views/testing/test_model.h"

extern char** environ;

namespace {

namespace fs = std::filesystem;
using namespace scalai;

constexpr int kKilled = -1;

// The exit code; kKilled when it was still running after `patience` (negative: no end to it).
int run(const std::vector<std::string>& words, std::chrono::microseconds patience) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  SCALAI_CHECK(::posix_spawn(&child, argv[0], &quiet, nullptr, argv.data(), environ) == 0, words[0]);
  posix_spawn_file_actions_destroy(&quiet);
  if (patience.count() >= 0) {
    std::this_thread::sleep_for(patience);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

bool same_folder(const std::string& a, const std::string& b) {
  std::map<std::string, bool> names;
  for (const std::string& folder : {a, b}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_directory()) names[entry.path().string().substr(folder.size() + 1)] = true;
    }
  }
  for (const auto& [name, is_there] : names) {
    if (run({"/usr/bin/cmp", "-s", a + "/" + name, b + "/" + name}, std::chrono::microseconds(-1)) != 0) return false;
  }
  return true;
}

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).starts_with(start)) return argv[i] + start.size();
  }
  return otherwise;
}

// Files beyond one sync point, and several of them.
std::string config() {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_attention_heads": 16,
 "num_key_value_heads": 4, "num_hidden_layers": 12, "intermediate_size": 2816, "vocab_size": 32000,
 "max_position_embeddings": 64, "tie_word_embeddings": false})";
}

constexpr const char* kForms[] = {"hf", "tp4,pp2", "torch_dist", "tp2,pp2,torch", "dcp", "tp4,vllm"};

struct Chaos {
  std::string program;
  std::string folder;
  Random random;
  int kills = 0;
  std::map<std::string, double> seconds;  // of an undisturbed run, by layout

  std::string path(const std::string& name) const { return folder + "/" + name; }
  int reshard(const std::string& to, const std::string& dst, std::chrono::microseconds patience) const {
    return run({program, "checkpoint", "reshard", path("src"), path(dst), "--to=" + to}, patience);
  }
  void prepare() {
    store::write_hugging_face(path("src"), config());
    for (const char* const to : kForms) {
      const auto begin = std::chrono::steady_clock::now();
      SCALAI_CHECK(reshard(to, std::string("reference-") + to, std::chrono::microseconds(-1)) == 0, to);
      seconds[to] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  }
  // As three processes would write it, one after the other, each killed now and then.
  std::string play_parts(const std::string& to) {
    for (int part = 1; part <= 3; ++part) {
      for (int attempt = 0;; ++attempt) {
        const auto patience = std::chrono::microseconds(
            attempt < 3 ? static_cast<int64_t>(random.uniform() * 0.5 * seconds.at(to) * 1e6) : int64_t{-1});
        const int code = run({program, "checkpoint", "reshard", path("src"), path("out"), "--to=" + to, "-q",
                              fmt::format("--part={}/3", part)},
                             patience);
        kills += code == kKilled;
        if (fs::exists(path("out")) && (part < 3 || !same_folder(path("out"), path("reference-" + to))))
          return "a bad folder under the final name";
        if (code == 0) break;
        if (code != kKilled) return fmt::format("exit code {} of part {}", code, part);
      }
    }
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name != "out" && name != "src" && !name.starts_with("reference-")) return name + " is left";
    }
    if (run({program, "checkpoint", "verify", path("out")}, std::chrono::microseconds(-1)) != 0)
      return "does not verify";
    fs::remove_all(path("out"));
    return "";
  }
  // Empty: all is well.
  std::string play() {
    const std::string to = kForms[static_cast<size_t>(random.below(std::ssize(kForms)))];
    if (random.below(3) == 0) return play_parts(to);
    for (int attempt = 0;; ++attempt) {
      // The last ones are left alone, so that a run ends.
      const double share = random.uniform() * 0.7;
      const auto patience =
          std::chrono::microseconds(attempt < 3 ? static_cast<int64_t>(share * seconds.at(to) * 1e6) : int64_t{-1});
      const int code = reshard(to, "out", patience);
      kills += code == kKilled;
      const bool is_there = fs::exists(path("out"));
      if (is_there && !same_folder(path("out"), path("reference-" + to))) return "a bad folder under the final name";
      if (code == kKilled) continue;
      if (code != 0 && !(code == 3 && is_there)) return fmt::format("exit code {}", code);
      if (!is_there) return "exit code 0, but no folder";
      break;
    }
    // A kill between the rename and the end leaves a journal, which says that all is done.
    if (fs::exists(path("out.partial.journal")) && reshard(to, "out", std::chrono::microseconds(-1)) != 0) {
      return "what a finished run left is not recognised";
    }
    if (run({program, "checkpoint", "verify", path("out")}, std::chrono::microseconds(-1)) != 0)
      return "does not verify";
    for (const char* left : {"out.partial", "out.partial.journal"}) {
      if (fs::exists(path(left))) return fmt::format("{} is left", left);
    }
    fs::remove_all(path("out"));
    return "";
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int runs = std::stoi(option(argc, argv, "runs", "8"));
  const uint64_t seed = std::stoull(option(argc, argv, "seed", "1"));
  std::string folder = option(argc, argv, "folder", "/tmp") + "/scalai-reshard-chaos-XXXXXX";
  SCALAI_CHECK(::mkdtemp(folder.data()) != nullptr, folder);
  Chaos chaos{option(argc, argv, "bin", ".") + "/scalai", folder, Random(seed), 0, {}};
  chaos.prepare();
  for (int i = 0; i < runs; ++i) {
    const std::string problem = chaos.play();
    if (problem.empty()) continue;
    fmt::print(stderr, "run {} of seed {}: {}; see {}\n", i, seed, problem, folder);
    return 1;
  }
  fs::remove_all(folder);
  fmt::print("{} runs, {} kills, seed {}: no bad folder, all resumed\n", runs, chaos.kills, seed);
  return 0;
}
