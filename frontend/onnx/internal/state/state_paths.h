/// Parts of the names of state tensors.
#pragma once

#include <string>

namespace rannc::frontend {

/// `encoder` of `encoder.weight`; empty for a tensor of the model itself.
inline std::string module_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// `weight` of `encoder.weight`.
inline std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace rannc::frontend
