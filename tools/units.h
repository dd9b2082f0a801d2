/// Quantities as people read them.
#pragma once

#include <string>

namespace rannc::tools {

/// `1.5 us`, `1.23 ms`, `4.50 s`.
std::string duration(double ns);
/// `12.3 KiB`, `12.3 MiB`, `1.23 GiB`.
std::string bytes(double count);

}  // namespace rannc::tools
