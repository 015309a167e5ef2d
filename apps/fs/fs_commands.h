#pragma once
// The commands of `scalai-fs`, called as `scalai fs`; fs_main.cpp combines them.

#include "ptc/base/command.h"

namespace scalai::apps {

Command fs_mount_command();        // shows a checkpoint in any layout, and datasets, as files
Command fs_unmount_command();      // also removes the mount of a killed server
Command fs_repartition_command();  // switches dataset/current
Command fs_status_command();       // statistics of a server

}  // namespace scalai::apps
