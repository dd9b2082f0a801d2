/// Names the file whose truncation ends a program.
#pragma once

#include <string>

namespace rannc::tools {

/// Makes access to a byte that a mapped file no longer has end the process with code 1, after it wrote
/// `<before><path>: error: …` to the descriptor, by default standard error; without `error: ` if `before` is given.
/// Takes the process's handler of SIGBUS. Later calls replace earlier ones.
void report_truncated_files(int descriptor = 2, const std::string& before = {});

}  // namespace rannc::tools
