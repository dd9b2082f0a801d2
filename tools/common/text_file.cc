#include "tools/common/text_file.h"

#include <fstream>
#include <iterator>

namespace rannc::tools {

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad()) return error({.file = path}, "cannot be read");
  return text;
}

}  // namespace rannc::tools
