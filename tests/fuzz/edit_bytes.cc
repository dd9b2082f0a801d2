// Edits that know nothing of what the bytes say.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tests/fuzz/target.h"

namespace rannc::fuzz {

namespace {

using std::string_view_literals::operator""sv;

// Texts and lengths that parsers are prone to take badly.
constexpr std::array kPieces = {"0"sv,
                                "-1"sv,
                                "18446744073709551616"sv,
                                "1e308"sv,
                                "nan"sv,
                                "\""sv,
                                "{"sv,
                                "}"sv,
                                "["sv,
                                "]"sv,
                                "%"sv,
                                "@"sv,
                                "#"sv,
                                "//"sv,
                                "="sv,
                                "\n"sv,
                                "\xff"sv,
                                "*B*"sv,
                                "\0\0\0\0\0\0\0\0"sv,
                                "(((("sv,
                                ",,"sv,
                                "s0//0"sv};

void replace_number(std::string& input, size_t at, std::string_view piece) {
  const size_t begin = input.find_first_of("0123456789", at);
  if (begin == std::string::npos) return;
  const size_t end = input.find_first_not_of("0123456789", begin);
  input.replace(begin, end == std::string::npos ? end : end - begin, piece);
}

}  // namespace

void edit_bytes(std::string& input, const std::string& other, Random& random) {
  const size_t at = below(input.size() + 1, random);
  const size_t length = 1 + below(32, random);
  const std::string_view piece = kPieces[below(kPieces.size(), random)];
  switch (below(7, random)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8, random)));
      break;
    case 1:
      input.erase(at, length);
      break;
    case 2:
      input.insert(at, input.substr(at, length));
      break;
    case 3:
      input.resize(at);
      break;
    case 4:
      input.insert(at, piece);
      break;
    case 5:
      replace_number(input, at, piece);
      break;
    default:
      input.replace(at, std::string::npos, other.substr(below(other.size() + 1, random)));
      break;
  }
}

}  // namespace rannc::fuzz
