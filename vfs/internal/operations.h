#pragma once
// What libfuse calls for each request of the kernel. The session's user data is a FileSystem; any thread may come.

struct fuse_lowlevel_ops;

namespace scalai::vfs {

const fuse_lowlevel_ops& operations();

}  // namespace scalai::vfs
