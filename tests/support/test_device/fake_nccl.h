/// NCCL between the threads of one process, over the test devices.
#pragma once

#include <string>

#include "runtime/device/nccl_table.h"

namespace rannc::testing {

/// Messages between communicators of this process, in any threads. A message is pending work of both streams until both
/// ends are enqueued. As NCCL does, it
/// - refuses a communicator whose last call is still in progress, and reports that a few times;
/// - keeps a communicator in progress until all ranks have made it;
/// - keeps both ranks of a pair in progress until their first message has both ends;
/// - ends the messages of a communicator, but not those of its peers, at an abort.
/// Other than NCCL, it reports an error to both ends if their sizes differ.
const runtime::NcclTable& fake_nccl();

/// Makes all communicators of this process report an error that no call has caused, as NCCL does for a lost network.
/// Their messages stay pending.
void fail_fake_nccl(const std::string& detail);

}  // namespace rannc::testing
