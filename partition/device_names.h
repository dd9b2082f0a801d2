/// Names that drivers give to devices, such as `NVIDIA H100 80GB HBM3`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rannc::partition {

/// Returns the runs of letters and digits of a name, in lower case: `nvidia`, `h100`, `80gb`, `hbm3`.
std::vector<std::string> device_words(std::string_view name);

/// Whether a word says that a device has other rates and links than others of its name: a board for PCIe, or a part of
/// a GPU.
bool is_board_word(std::string_view word);

}  // namespace rannc::partition
