#pragma once
// The commands of `scalai-fs`, called as `scalai fs`; fs_main.cpp puts them together.

#include "ptc/base/command.h"

namespace scalai::apps {

Command fs_mount_command();        // a checkpoint in any layout, and datasets, as files
Command fs_unmount_command();      // also what a killed server left behind
Command fs_repartition_command();  // what dataset/current shows from now on
Command fs_status_command();       // what a server has done

}  // namespace scalai::apps
