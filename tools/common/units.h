/// Formats and parses quantities with units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// `1.5 us`, `1.23 ms`, `4.50 s`.
std::string duration(double ns);
/// `12.3 KiB`, `12.3 MiB`, `1.23 GiB`.
std::string bytes(double count);
/// `369,507`, `124 M`, `12.9 B`: three significant digits from ten million on.
std::string count(uint64_t number);

/// Parses `120ms`, `2s`, `1.5 us`, `1 min` to nanoseconds. The unit is required. The value must be positive and at most
/// a year.
Result<double> parse_duration(std::string_view text);
/// Parses `16GiB`, `512MB`, `1.5 G`, `4096` to bytes. K, M, G and T are powers of 1024, with or without B or iB. The
/// value is rounded to an integer, which must be positive and below 2^60.
Result<uint64_t> parse_bytes(std::string_view text);
/// Likewise; also accepts `0`.
Result<uint64_t> parse_bytes_or_zero(std::string_view text);

}  // namespace rannc::tools
