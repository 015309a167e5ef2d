#pragma once
// What is done to the processes of a run while it goes on. They are known by a mark in their environment,
// SCALAI_CHAOS=FOLDER. Each call takes as long as the trouble, and ends it. Any thread; one at a time per run.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace scalai::chaos {

enum class Whose { kAll, kWorkers, kWorkersAndTrainers };
std::vector<pid_t> processes_of(const std::string& folder, Whose whose);

void stop(pid_t pid, double seconds);
// Stopped for nine of ten milliseconds.
void slow_down(pid_t pid, double seconds);
// Stopped and continued as fast as it goes: system calls that wait return early, some with EINTR.
void interrupt(const std::vector<pid_t>& pids, double seconds);

// No more descriptors than it has, and `spare`; no more address space than it has, and `spare` bytes.
void limit_descriptors(pid_t pid, uint64_t spare, double seconds);
void limit_addresses(pid_t pid, uint64_t spare, double seconds);
// In a control group that may not grow any more: the kernel kills it, or those that it starts meanwhile.
bool can_limit_memory();
void limit_memory(pid_t pid, const std::string& name, double seconds);

// Fills the file system of the folder: its bytes, or its inodes.
void fill_disk(const std::string& folder, bool inodes, double seconds);

// Connects to every TCP port on which a process of the run listens; sends noise, half a greeting, or nothing.
void visit_ports(const std::string& folder, uint64_t seed, double seconds);

}  // namespace scalai::chaos
