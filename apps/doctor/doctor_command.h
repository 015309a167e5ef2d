#pragma once
// `scalai doctor`, for exec_main.cpp.

#include "ptc/base/command.h"

namespace scalai::apps {

Command exec_doctor_command();  // facts of this machine

}  // namespace scalai::apps
