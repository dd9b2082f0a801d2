/// Settings of the whole process: for programs, never called by the library.
#pragma once

namespace rannc::runtime {

/// Threads that LibTorch computes an operator with, for every device of this process.
void set_threads(int threads);

/// Lets the process keep the memory that tensors give back, where its C library can: the next step makes tensors of the
/// same sizes, and pages fresh from the system cost a tenth of a step. Before the first tensor and the first thread.
void keep_freed_memory();

}  // namespace rannc::runtime
