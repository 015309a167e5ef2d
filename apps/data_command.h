#pragma once
// `scalai data`: its two commands.

#include "ptc/base/command.h"

namespace scalai::apps {

Command data_show_command();

}  // namespace scalai::apps
