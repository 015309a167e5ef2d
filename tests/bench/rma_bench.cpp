// Reads rows of another process's memory with UCX's one-sided get: all rows packed into one array there (a copy here
// stands for it) and one get, or a get a row. Then a get of memory that was never registered.
//
//   rma_bench BYTES tcp|shared-memory
//
// tcp: an endpoint that notices a dead peer, the only kind that our transport makes. shared-memory: one that does not.
// Prints a line a row length, "ROW PACKED_S ROWS_S", then "unregistered READ|refused". Exit code 1: UCX failed.
#include <signal.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kRepetitions = 9;
constexpr size_t kMostInFlight = 256;

char unregistered[16] = "asker";  // at one address in both processes

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "rma_bench: %s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

struct Ucx {
  Ucx() {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    for (const auto& [name, value] :
         {std::pair{"TX_SEG_SIZE", "512k"}, {"RX_SEG_SIZE", "512k"}, {"SNDBUF", "4m"}, {"RCVBUF", "4m"}})
      (void)ucp_config_modify(config, name, value);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_RMA;
    check(ucp_init(&params, config, &context), "ucp_init");
    const ucp_worker_params_t none{};
    check(ucp_worker_create(context, &none, &worker), "ucp_worker_create");
  }
  void wait(void* request) const {
    if (!UCS_PTR_IS_PTR(request)) return check(UCS_PTR_RAW_STATUS(request), "ucp_get_nbx");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    check(ucp_request_check_status(request), "ucp_get_nbx");
    ucp_request_free(request);
  }
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
};

void put(int pipe, const std::string& bytes) {
  const size_t size = bytes.size();
  if (write(pipe, &size, sizeof size) < 0 || write(pipe, bytes.data(), size) < 0) std::exit(1);
}

std::string take(int pipe) {
  size_t size = 0;
  if (read(pipe, &size, sizeof size) != sizeof size) std::exit(1);
  std::string bytes(size, '\0');
  for (size_t at = 0; at < size;) {
    const ssize_t got = read(pipe, bytes.data() + at, size - at);
    if (got <= 0) std::exit(1);
    at += static_cast<size_t>(got);
  }
  return bytes;
}

// The other process: names its memory, and makes progress until the asker is gone.
[[noreturn]] void own(int pipe, size_t bytes) {
  std::strcpy(unregistered, "owner");
  const Ucx ucx;
  std::vector<char> memory(bytes, 1);
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = bytes;
  ucp_mem_h handle = nullptr;
  check(ucp_mem_map(ucx.context, &params, &handle), "ucp_mem_map");
  void* key = nullptr;
  size_t key_bytes = 0;
  check(ucp_rkey_pack(ucx.context, handle, &key, &key_bytes), "ucp_rkey_pack");
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  check(ucp_worker_get_address(ucx.worker, &address, &address_bytes), "ucp_worker_get_address");
  const auto at = reinterpret_cast<uint64_t>(memory.data());
  put(pipe, std::string(reinterpret_cast<const char*>(address), address_bytes));
  put(pipe, std::string(static_cast<const char*>(key), key_bytes));
  put(pipe, std::string(reinterpret_cast<const char*>(&at), sizeof at));
  while (getppid() != 1) ucp_worker_progress(ucx.worker);
  _exit(0);
}

double median_of(const std::function<void()>& work) {
  std::array<double, kRepetitions> seconds{};
  work();
  for (double& one : seconds) {
    const auto began = std::chrono::steady_clock::now();
    work();
    one = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRepetitions / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto bytes = static_cast<size_t>(std::atoll(argv[1]));
  const bool tcp = std::string(argv[2]) == "tcp";
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t owner = fork();
  if (owner == 0) own(ends[1], 2 * bytes);
  const Ucx ucx;
  const std::string address = take(ends[0]), key = take(ends[0]), place = take(ends[0]);
  uint64_t at = 0;
  std::memcpy(&at, place.data(), sizeof at);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = tcp ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  ucp_ep_h endpoint = nullptr;
  check(ucp_ep_create(ucx.worker, &params, &endpoint), "ucp_ep_create");
  ucp_rkey_h remote = nullptr;
  check(ucp_ep_rkey_unpack(endpoint, key.data(), &remote), "ucp_ep_rkey_unpack");
  const ucp_request_param_t plain{};
  std::vector<char> rows(2 * bytes), packed(bytes);
  for (size_t row = 64; row <= std::min<size_t>(bytes, 1 << 20); row *= 4) {
    const auto copy = [&](bool pack) {
      for (size_t i = 0; i < bytes / row; ++i) {
        char* const here = packed.data() + i * row;
        char* const there = rows.data() + 2 * i * row;
        std::memcpy(pack ? here : there, pack ? there : here, row);
      }
    };
    const double whole_s = median_of([&] {
      copy(true);
      ucx.wait(ucp_get_nbx(endpoint, packed.data(), bytes, at, remote, &plain));
      copy(false);
    });
    const double rows_s = median_of([&] {
      std::vector<void*> under_way;
      for (size_t i = 0; i < bytes / row; ++i) {
        under_way.push_back(ucp_get_nbx(endpoint, rows.data() + 2 * i * row, row, at + 2 * i * row, remote, &plain));
        if (under_way.size() < kMostInFlight) continue;
        for (void* const one : under_way) ucx.wait(one);
        under_way.clear();
      }
      for (void* const one : under_way) ucx.wait(one);
    });
    std::printf("%zu %.6f %.6f\n", row, whole_s, rows_s);
  }
  char got[sizeof unregistered] = "";
  ucx.wait(ucp_get_nbx(endpoint, got, sizeof got, reinterpret_cast<uint64_t>(unregistered), remote, &plain));
  std::printf("unregistered %s\n", std::string(got) == "owner" ? "READ" : "refused");
  std::fflush(stdout);
  kill(owner, SIGKILL);
  _exit(0);
}
