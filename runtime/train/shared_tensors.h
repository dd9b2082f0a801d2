/// Tensors that two models have in common, such as those of a GAN's generator and discriminator.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// How the parameters and buffers of a bundle match those of a checkpoint of another model.
struct SharedTensors {
  std::map<std::string, std::string> keys;  ///< keys in the checkpoint, by the bundle's keys (`parameter/<name>`)
  std::vector<std::string> own, theirs;     ///< names that only one of them has, or that no program gave
};

/// Matches by name, whether a tensor is trained or a buffer in either. Names that an exporter made up match nothing.
/// Errors: a tensor of another type or shape; one that is a constant of the bundle, and so compiled into its programs;
/// none in common.
Result<SharedTensors> match_shared(const Bundle& bundle, const std::string& checkpoint);

}  // namespace rannc::runtime
