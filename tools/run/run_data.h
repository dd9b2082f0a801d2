/// What a run reads its mini-batches from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/train/dataset.h"

namespace rannc::tools {

/// The samples of the file `data`, or else of the files and folders in `text`: next-byte prediction, for a model with
/// one token input and one label input.
Result<std::unique_ptr<runtime::Dataset>> open_data(const std::string& data, const std::vector<std::string>& text,
                                                    const ir::Plan& plan, uint64_t seed);

/// Of a mini-batch; 0 where the model reads none.
uint64_t tokens_per_step(const ir::Plan& plan);

}  // namespace rannc::tools
