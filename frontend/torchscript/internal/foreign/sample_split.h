/// Determines the batch axes of an operator's results by runs.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/torchscript/internal/foreign/foreign_run.h"

namespace rannc::frontend::torchscript {

/// Returns the batch layouts of the results, whose shapes are in `call`. Compares CPU runs at `sizes` on all samples
/// with runs on the first `part` samples and on the rest, for several kinds of numbers. A result without a batch axis
/// is a partial sum if the results for the parts add up to it, and mixed otherwise. Layouts are empty if the call has
/// no batch. Errors: the operator accepts no kind of numbers, two equal runs differ, an operand is modified.
Result<std::vector<ir::BatchLayout>> sample_layouts(const ForeignRun& run, const ir::ForeignCall& call,
                                                    const ir::Bindings& sizes, std::string_view batch, int64_t part);

}  // namespace rannc::frontend::torchscript
