#pragma once
// The parts of a page about runs of the control loop, in the order of the page. `runs`: of one scenario and seed.

#include <string>
#include <utility>
#include <vector>

#include "ptc/report/page/internal/document.h"
#include "ptc/report/page/internal/run_data.h"

namespace scalai::report {

// What was found, a sentence a run and job: "reshard loses 188 s of 8 h 58 min (0.6 %): pauses 183 s, …". First, of
// several runs of one job, which of them loses least.
std::vector<std::string> verdicts(const std::vector<RunData>& runs);

void add_overview(Document& page, const std::vector<RunData>& runs);   // verdicts, downtime by cause
void add_timelines(Document& page, const std::vector<RunData>& runs);  // layouts, GPUs, throughput, events
void add_numbers(Document& page, const std::vector<RunData>& runs);    // as `scalai compare` has them
void add_pauses(Document& page, const std::vector<RunData>& runs);     // phases, and what their times rest on
void add_bytes(Document& page, const std::vector<RunData>& runs);     // by class against their bounds; reconfigurations
void add_heat(Document& page, const std::vector<RunData>& runs);      // links, memory, who sends to whom
void add_training(Document& page, const std::vector<RunData>& runs);  // steps as measured; predicted against measured

// "0.58 %"
std::string percent(double share);
// The scenario, versions and seed.
struct OriginLine {
  std::string label, version, seed, digest;
  const RunOrigin* origin = nullptr;
};
void add_origin(Document& page, const std::vector<OriginLine>& lines);

}  // namespace scalai::report
