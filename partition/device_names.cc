#include "partition/device_names.h"

#include <cctype>

namespace rannc::partition {

std::vector<std::string> device_words(std::string_view name) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    const bool belongs = std::isalnum(letter) != 0;
    if (belongs && !inside) words.emplace_back();
    if (belongs) words.back() += static_cast<char>(std::tolower(letter));
    inside = belongs;
  }
  return words;
}

bool is_board_word(std::string_view word) { return word == "pcie" || word == "nvl" || word == "mig"; }

}  // namespace rannc::partition
