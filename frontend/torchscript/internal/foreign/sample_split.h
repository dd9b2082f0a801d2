/// Finds out by runs where the samples of an operator's results are.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/torchscript/internal/foreign/foreign_run.h"

namespace rannc::frontend::torchscript {

/// Layouts of the results, whose shapes `call` has, from runs at `sizes` on the processor: all samples at once, beside
/// the first `part` of them and the rest, with several kinds of numbers. A result without an axis of samples is a
/// partial sum where what the parts give adds up, and else mixed. Where the call has no samples layouts are empty.
/// Errors: no kind of numbers is taken; two runs differ; an operand is changed.
Result<std::vector<ir::BatchLayout>> sample_layouts(const ForeignRun& run, const ir::ForeignCall& call,
                                                    const ir::Bindings& sizes, std::string_view batch, int64_t part);

}  // namespace rannc::frontend::torchscript
