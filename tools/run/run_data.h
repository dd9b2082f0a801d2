/// Opens the data set of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/train/dataset.h"

namespace rannc::tools {

/// Opens the samples of the file `data`, or else of the files and folders in `text`. The latter are for next-byte
/// prediction and require a model with one token input and one label input.
Result<std::unique_ptr<runtime::Dataset>> open_data(const std::string& data, const std::vector<std::string>& text,
                                                    const ir::Plan& plan, uint64_t seed);

/// Number of tokens in a mini-batch; 0 if the model reads none.
uint64_t tokens_per_step(const ir::Plan& plan);

}  // namespace rannc::tools
