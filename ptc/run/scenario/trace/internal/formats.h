#pragma once
// The readers of all formats, by family. Each adds rows, jobs, host changes or prices, drops and problems to a Reading;
// a status other than Ok is a file that cannot be read at all. Several files of a trace are read one after the other.

#include <string>
#include <vector>

#include "ptc/run/scenario/trace/internal/reading.h"

namespace scalai::trace {

struct Format {
  TraceFormat info;
  absl::Status (*read)(const std::string& path, Reading& reading);
};

std::vector<Format> gavel_formats();          // gavel_jobs.cpp
std::vector<Format> table_job_formats();      // table_jobs.cpp: jobs in CSV
std::vector<Format> document_job_formats();   // document_jobs.cpp: jobs in JSON
std::vector<Format> host_formats();           // host_events.cpp
std::vector<Format> document_host_formats();  // document_hosts.cpp: hosts in JSON
std::vector<Format> price_formats();          // prices.cpp
Format own_format();                          // own_form.cpp: what export_trace writes

const std::vector<Format>& all_formats();

}  // namespace scalai::trace
