/// Makes MKL choose its kernels of elementary functions before several threads call them.
#pragma once

namespace rannc::runtime {

/// Calls each elementary function of LibTorch once, on a thread of its own. Later calls of this function do nothing.
///
/// MKL chooses the kernel of a function when it is first called. If two threads do so at a time, one of them may
/// compute with a kernel of low accuracy, whose errors are about 1e-4 (MKL 2024.2; pytorch#188792). Whoever calls
/// operators has called this first: `handle_of`, compiled stages.
void resolve_vector_math();

}  // namespace rannc::runtime
