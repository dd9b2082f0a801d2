/// Reads mini-batches ahead of their steps.
#pragma once

#include <functional>
#include <memory>

#include "runtime/data/dataset.h"

namespace rannc::runtime {

/// Returns a data set with the mini-batches of `source`. While a step runs, a thread reads the batch of the next one,
/// so that up to two batches exist. A batch that was not read ahead is read when it is requested. An error or an
/// exception of `source` belongs to the step for which it occurred. `source` is never called by two threads at once.
/// The result must not be used by several threads at once. `prepare` replaces each value that was read, by the same
/// thread.
using PrepareValue = std::function<Value(const Value&)>;
std::unique_ptr<Dataset> prefetched(std::unique_ptr<const Dataset> source, PrepareValue prepare = {});

}  // namespace rannc::runtime
