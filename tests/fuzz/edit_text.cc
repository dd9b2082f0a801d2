// Inputs that are text are edited byte by byte.
#include "tests/fuzz/target.h"

void rannc::fuzz::edit(std::string& input, const std::string& other, Random& random) {
  edit_bytes(input, other, random);
}
