/// What every fuzz target defines.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace rannc::fuzz {

using Random = std::mt19937_64;

/// Hands one input to the code under test, checks what must hold of its answer, and says whether it was accepted.
bool feed(std::string_view input);

/// Makes one random edit; `other` is an input that parts may be taken from. `edit_text.cc` defines it for inputs that
/// are text, `tests/frontend/fuzz/edit_model.cc` for ONNX models.
void edit(std::string& input, const std::string& other, Random& random);

/// A bit, a range, a number or the tail: what is done to any bytes.
void edit_bytes(std::string& input, const std::string& other, Random& random);

/// A number below `bound`, which is not 0.
inline size_t below(size_t bound, Random& random) { return random() % bound; }

}  // namespace rannc::fuzz
