#!/usr/bin/env bash
# Runs on the machine that the bundle was brought to: does everything work here? Needs bash 5, coreutils, sed and grep.
set -uo pipefail
export LC_ALL=C
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=$HERE/bin

usage() {
  cat <<'TEXT'
Usage: ./check.sh [--cpu] [--quick] [--out=DIR]

Prints what this machine is, runs `scalai doctor`, the GPU tests, compute-sanitizer where it is on PATH, a scenario and
the bench on the GPUs, and ends with one table.

Options:
  --cpu      Only what needs no GPU.
  --quick    Without the sanitizers and the bench on GPUs, and with a narrower model.
  --out=DIR  Logs, tables and reports go here. Default: scalai-check beside where it is called.
  --nccl=FILE  The NCCL library to use; without it libnccl.so.2 as the loader finds it, or that of python3's packages.
  --help     Print this help.

Exit codes:
  0  all checks passed
  1  a check failed
  2  the command line is wrong
  4  nothing failed, but something is missing; the table says what
TEXT
}

export SCALAI_WIDE=1  # logs keep whole tables
CPU=0 QUICK=0 OUT=scalai-check NCCL=''
for argument in "$@"; do
  case "$argument" in
    --cpu) CPU=1 ;;
    --quick) QUICK=1 ;;
    --out=?*) OUT=${argument#*=} ;;
    --nccl=?*) NCCL=${argument#*=} ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'check.sh: error: unknown argument %s\nTry ./check.sh --help.\n' "$argument" >&2
      exit 2
      ;;
  esac
done

# --- can anything here start at all? ----------------------------------------------------------------------------------

fact() { sed -n "s/^$1=//p" "$HERE/build-facts"; }

# Exits with 4 unless this machine has the processor and the C library that the programs were linked for.
check_system() {
  local here needed built
  needed=$(fact glibc_needed) built=$(fact glibc_built)
  if [[ "$(uname -m)" != "$(fact machine)" ]]; then
    echo "check.sh: missing: a processor of kind $(fact machine); this one is $(uname -m)" >&2
    exit 4
  fi
  here=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* //')
  here=${here:-$(ldd --version 2>/dev/null | sed -n '1s/.* //p')}
  if [[ -z "$here" || "$(printf '%s\n%s\n' "$needed" "$here" | sort -V | sed -n 1p)" != "$needed" ]]; then
    echo "check.sh: missing: glibc $needed or newer (built with $built); this machine has ${here:-none}." >&2
    echo "Debian 12, Ubuntu 22.10, Fedora 37, RHEL 10 and later have it; else run in a container of one of them," >&2
    echo "or build on this system (README.md at the top of the source)." >&2
    exit 4
  fi
  echo "glibc $here here; $needed or newer is needed (built with $built)"
}

check_system || exit
mkdir -p "$OUT" || exit 1
OUT=$(cd "$OUT" && pwd)
NAMES=() RESULTS=() SECONDS_TAKEN=() NOTES=()
FAILED=0 MISSING=0

# --- one check --------------------------------------------------------------------------------------------------------

record() { # NAME RESULT SECONDS NOTE
  NAMES+=("$1") RESULTS+=("$2") SECONDS_TAKEN+=("$3") NOTES+=("$4")
  case "$2" in FAILED) FAILED=$((FAILED + 1)) ;; missing) MISSING=$((MISSING + 1)) ;; esac
  printf '%-28s %-8s %8s s  %s\n' "$1" "$2" "$3" "$4"
}

# The last line of a log that says something is wrong, at most 100 characters.
last_error() {
  local line
  line=$(grep -aE 'error|FAILED|missing|Failure|skipped|Skipped' "$1" | tail -n 1)
  if [[ -z "$line" ]]; then line=$(tail -n 1 "$1"); fi
  printf '%.100s' "$line"
}

# check NAME SECONDS COMMAND…: 0 passed, 4 missing, 2 missing too (an option this build does not have), else failed.
check() {
  local name=$1 limit=$2 log begin code taken
  shift 2
  log=$OUT/$name.log
  begin=$EPOCHREALTIME
  printf '$ %s\n' "$*" >"$log"
  timeout --kill-after=10 "$limit" "$@" >>"$log" 2>&1 </dev/null
  code=$?
  taken=$(((${EPOCHREALTIME/./} - ${begin/./}) / 100000))
  taken=$((taken / 10)).$((taken % 10))
  case $code in
    0) judge_tests "$name" "$log" "$taken" ;;
    4) record "$name" missing "$taken" "$(last_error "$log")" ;;
    124 | 137) record "$name" FAILED "$taken" "took longer than $limit s, see $name.log" ;;
    *) record "$name" FAILED "$taken" "exit code $code: $(last_error "$log")" ;;
  esac
}

# What a program of tests that exits with 0 has done: one that skipped everything has shown nothing.
judge_tests() { # NAME LOG SECONDS
  local passed skipped why
  if ! grep -aq '^\[==========\]' "$2"; then
    record "$1" passed "$3" ''
    return
  fi
  passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?.*/\1/p' "$2" | tail -n 1)
  skipped=$(sed -nE 's/^\[  SKIPPED \] ([0-9]+) tests?, listed.*/\1/p' "$2" | tail -n 1)
  why=$(grep -aA 1 ': Skipped' "$2" | sed -n '2p')
  if ((${passed:-0} == 0)); then
    record "$1" missing "$3" "$(printf '%.100s' "${why:-no test ran}")"
  elif ((${skipped:-0} > 0)); then
    record "$1" passed "$3" "$(printf '%d tests, %d skipped: %.80s' "$passed" "$skipped" "$why")"
  else
    record "$1" passed "$3" "$passed tests"
  fi
}

# --- what the machine is ----------------------------------------------------------------------------------------------

describe_machine() {
  echo "date      $(date -u +%FT%TZ)"
  echo "bundle    scalai $(fact version), revision $(fact revision)"
  echo "system    $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"'), Linux $(uname -r)"
  echo "processor $(sed -n 's/^model name[[:blank:]]*: //p' /proc/cpuinfo | sed -n 1p), $(nproc) cores"
  echo "memory    $(sed -nE 's/^MemTotal: +//p' /proc/meminfo)"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit \
      --format=csv
    nvidia-smi | grep -o 'CUDA Version: [0-9.]*'
    nvidia-smi topo -m
  else
    echo "nvidia-smi is not on PATH"
  fi
  echo "NCCL      ${NCCL:-not found}"
}

find_nccl() {
  local folder LIBRARIES=${LD_LIBRARY_PATH:-}
  for folder in ${LIBRARIES//:/ } /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib /usr/local/cuda/lib64; do
    if [[ -e "$folder/libnccl.so.2" ]]; then
      readlink -f "$folder/libnccl.so.2"
      return
    fi
  done
  { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | grep -m 1 . && return
  python3 -c 'import nvidia.nccl; print(f"{nvidia.nccl.__path__[0]}/lib/libnccl.so.2")' 2>/dev/null  # PyTorch's
}

# --- the checks -------------------------------------------------------------------------------------------------------

# GPU tests that a complete bundle has, and any others that are here.
gpu_tests() {
  { printf '%s\n' executor_cuda_gpu_test executor_cuda_kernels_gpu_test
    for file in "$BIN"/*_gpu_test; do if [[ -x "$file" ]]; then basename "$file"; fi; done; } | sort -u
}

check_gpu_tests() {
  local test
  for test in $(gpu_tests); do
    if [[ -x "$BIN/$test" ]]; then
      check "$test" 900 "$BIN/$test"
    else
      record "$test" missing 0.0 "not in this bundle"
    fi
  done
}

# A dozen of the tests whose names do not promise much work, as a filter of GoogleTest: sanitizers are slow.
short_filter() {
  local suite='' line filter=''
  local -i count=0
  while IFS= read -r line; do
    line=${line%%#*} line=${line%"${line##*[![:space:]]}"}
    if [[ "$line" != ' '* ]]; then
      suite=$line
    elif ((count < 12)) && [[ ! "$line" =~ Large|Random|Bench|Every|All|Many|Whole|Million ]]; then
      filter+="$suite${line#"${line%%[![:space:]]*}"}:"
      count+=1
    fi
  done < <("$1" --gtest_list_tests | grep -v '^Running main')
  echo "${filter%:}"
}

check_sanitizers() {
  local tool test=executor_cuda_kernels_gpu_test
  for tool in memcheck racecheck; do
    if ! command -v compute-sanitizer >/dev/null; then
      record "$tool" skipped 0.0 "compute-sanitizer is not on PATH (it comes with the CUDA toolkit)"
    elif [[ ! -x "$BIN/$test" ]]; then
      record "$tool" missing 0.0 "$test is not in this bundle"
    else
      check "$tool" 1200 compute-sanitizer --tool "$tool" --error-exitcode 99 "$BIN/$test" \
        --gtest_filter="${SANITIZER_FILTER:-$(short_filter "$BIN/$test")}"
    fi
  done
}

# scenario NAME OPTION…: a job that shrinks from 8 devices to 4 and grows again; every byte is compared.
scenario() {
  local name=$1
  shift
  rm -rf "${OUT:?}/$name"
  if ((QUICK)); then set -- --scale-model=1/4 "$@"; fi
  check "$name" 600 "$BIN/scalai" exec "$HERE/check.textproto" --out="$OUT/$name" --check "$@"
}

# The plans of a run on GPUs are those of a run in host memory.
check_same_plans() {
  if [[ ! -e "$OUT/scenario-cuda/summary.json" || ! -e "$OUT/scenario-host/summary.json" ]]; then return; fi
  local cuda host
  cuda=$(grep -oE '"[a-z_]*digest": *"[^"]*"' "$OUT/scenario-cuda/summary.json")
  host=$(grep -oE '"[a-z_]*digest": *"[^"]*"' "$OUT/scenario-host/summary.json")
  if [[ -n "$host" && "$cuda" == "$host" ]]; then
    record same-plans passed 0.0 "$(wc -l <<<"$host") digests are equal"
  else
    record same-plans FAILED 0.0 "the digests in scenario-cuda and scenario-host differ"
  fi
}

# A checkpoint of random bits, one tensor of 16 Mi elements of all kinds.
write_checkpoint() { # FILE
  local header='{"w":{"dtype":"BF16","shape":[4096,4096],"data_offsets":[0,33554432]}}'
  while ((${#header} % 8)); do header+=' '; done
  { printf '%b' "\\x$(printf '%02x' ${#header})\\0\\0\\0\\0\\0\\0\\0$header"
    head -c 33554432 /dev/urandom; } >"$1"
}

# Steps on the way give the same bytes on a GPU and on the host.
check_transforms() {
  local where file=$OUT/random.safetensors
  local steps=(--to=logical '--transform=scale(0.3)' '--transform=cast(fp32)' "--transform=average($file)")
  write_checkpoint "$file"
  for where in host cuda; do
    rm -rf "${OUT:?}/transformed-$where"
    check "transform-$where" 300 "$BIN/scalai" checkpoint reshard "$file" "$OUT/transformed-$where" --names=logical \
      --backend="$where" "${steps[@]}"
  done
  if [[ -d "$OUT/transformed-host" && -d "$OUT/transformed-cuda" ]]; then
    if cmp -s "$OUT"/transformed-{host,cuda}/model.safetensors; then
      record same-transforms passed 0.0 "64 MiB are equal"
    else
      record same-transforms FAILED 0.0 "the tensors in transformed-host and transformed-cuda differ"
    fi
  fi
  rm -rf "$file" "${OUT:?}"/transformed-{host,cuda}
}

check_cpu() {
  check starts 60 "$BIN/scalai-exec" --version
  check plans 60 "$BIN/scalai" plan --model=gpt3-xl --from=tp4,pp2,dp2 --to=tp4,pp3 --check
  scenario scenario-host
  scenario scenario-ucx --transport=ucx
  if ((CPU)); then
    check doctor 60 "$BIN/scalai" doctor --require=ucx
    check bench-host 300 "$BIN/scalai" exec bench --cases=row-column --devices=2 --repetitions=3 --bytes=64MiB
  fi
}

check_gpu() {
  local nccl=() folder
  if [[ -n "$NCCL" ]]; then
    nccl=(--nccl="$NCCL") folder=$(dirname "$NCCL")
    export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}  # the tests look there
  fi
  check doctor 60 "$BIN/scalai" doctor --require=cuda,nccl "${nccl[@]}"
  check_gpu_tests
  if ((!QUICK)); then check_sanitizers; fi
  scenario scenario-cuda --backend=cuda --devices-per-gpu=8
  check_same_plans
  check_transforms
  if ((!QUICK)); then check bench-cuda 1800 "$BIN/scalai" exec bench --backend=cuda "${nccl[@]}"; fi
}

# Aligned columns, as wide as what is in them.
summary() {
  local i width=5
  for i in "${!NAMES[@]}"; do if ((${#NAMES[i]} > width)); then width=${#NAMES[i]}; fi; done
  printf "%-${width}s  %-7s  %8s  %s\n" check result seconds note
  printf '%s  -------  --------  ----\n' "$(printf "%${width}s" '' | tr ' ' -)"
  for i in "${!NAMES[@]}"; do
    printf "%-${width}s  %-7s  %8s  %s\n" "${NAMES[i]}" "${RESULTS[i]}" "${SECONDS_TAKEN[i]}" "${NOTES[i]}"
  done
}

NCCL=${NCCL:-$(find_nccl)}
describe_machine 2>&1 | tee "$OUT/machine.txt"
echo
check_cpu
if ((!CPU)); then check_gpu; fi
echo
if [[ -e "$OUT/doctor.log" ]]; then sed 1d "$OUT/doctor.log"; fi
for bench in "$OUT"/bench-*.log; do
  if [[ -e "$bench" ]]; then
    echo
    sed 1d "$bench"
  fi
done
echo
summary | tee "$OUT/summary.txt"
echo
if ((FAILED)); then
  echo "$FAILED of ${#NAMES[@]} checks failed; logs are in $OUT"
  exit 1
elif ((MISSING)); then
  echo "nothing failed, $MISSING of ${#NAMES[@]} checks miss something; logs are in $OUT"
  exit 4
fi
echo "all is well: ${#NAMES[@]} checks; logs are in $OUT"
